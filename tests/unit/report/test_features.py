"""The table of what was tried, and where documents say otherwise."""

from __future__ import annotations

import dataclasses

from strata.model import FailedVisit, Metric, Outcome, Rule, Skipped, TrialResult, View, WorkloadView
from strata.report import features


def tried(stack: str, name: str, holds: float | None, outcome: Outcome = Outcome.OK) -> TrialResult:
    metrics = {} if holds is None else {"holds": holds}
    reason = None if outcome is Outcome.OK else "the probe ended badly"
    return TrialResult(hash((stack, name)), stack, 0, 0, f"feature/{name}", outcome, reason, 0.0, 1.0, metrics, {}, (),
                       (f"{name}: what showed",))  # fmt: skip


def shown(*trials: TrialResult) -> str:
    holds = Metric("holds", "ratio", "higher")
    loads = tuple(
        WorkloadView(text, text, holds, {"holds": holds}) for text in dict.fromkeys(t.workload for t in trials)
    )
    view = View("f", "", 1, Rule(), ("a", "b"), loads, trials, (), (Skipped("c", ("no module",)),),
                (FailedVisit(9, "b", 0, "it broke"),), (), 2, 2, None, {}, {}, ())  # fmt: skip
    return features.render(view, {"a": {"clone": True, "quota": False}})


def test_yes_no_and_nothing_known_with_what_shows_it() -> None:
    text = shown(
        tried("a", "clone", 1.0), tried("a", "quota", 0.0), tried("a", "zeroed", None),
        tried("a", "checksums", None, Outcome.FAILED),
    )  # fmt: skip
    lines = [line.split(maxsplit=2) for line in text.splitlines()]
    assert ["yes", "clone", "what showed"] in lines
    assert ["no", "quota", "what showed"] in lines
    assert ["?", "zeroed", "what showed"] in lines
    assert ["?", "checksums", "the probe ended badly"] in lines
    assert "no module" in text and "it broke" in text
    assert "disagree" not in text


def test_documents_that_say_otherwise() -> None:
    text = shown(tried("a", "clone", 0.0), tried("a", "quota", 1.0), tried("a", "direct", 1.0))
    assert "a: clone is no, and documents say yes" in text
    assert "a: quota is yes, and documents say no" in text
    assert "direct is" not in text, "of which documents say nothing"


def test_a_feature_that_is_not_known_disagrees_with_nobody() -> None:
    trial = dataclasses.replace(tried("a", "clone", None), metrics={"probe_s": 1.0})
    text = shown(trial)
    assert "?" in text and "disagree" not in text
