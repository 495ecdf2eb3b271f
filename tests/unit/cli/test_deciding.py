"""What the command line says of the decision."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from strata.analysis.objective import Objective, parse, parse_weights
from strata.cli.run import Decide, rule_of
from strata.cli.verdict import verdict
from strata.errors import BadInput
from strata.model import Metric, Rule, View, WorkloadView

PLAIN = Rule()


def test_nothing_said_means_rounds_as_ever() -> None:
    assert rule_of(None, PLAIN, False, Decide()) == PLAIN


@pytest.mark.parametrize(
    ("level", "confidence", "certify"), [("quick", 0.8, False), ("standard", 0.95, False), ("certified", 0.95, True)]
)
def test_confidence_leaves_the_way_to_the_stacks(level: str, confidence: float, certify: bool) -> None:
    rule = rule_of(None, PLAIN, False, Decide(confidence=level, within="5%"))
    assert (rule.confidence, rule.certify, rule.design, rule.within) == (confidence, certify, "auto", 0.05)


def test_more_confidence_later_keeps_the_way() -> None:
    kept = replace(PLAIN, design="adaptive", confidence=0.8)
    for from_file in (False, True):
        rule = rule_of(kept, PLAIN, from_file, Decide(confidence="certified"))
        assert (rule.design, rule.confidence, rule.certify) == ("adaptive", 0.95, True)
    assert rule_of(kept, PLAIN, False, Decide()).design == "adaptive"
    assert rule_of(kept, PLAIN, False, Decide(rounds=3)).design == "rounds"


@pytest.mark.parametrize(
    ("decide", "match"),
    [
        (Decide(confidence="sure"), "--confidence takes quick, standard, certified"),
        (Decide(design="magic"), "--design takes auto"),
        (Decide(design="adaptive", rounds=3), "--rounds is how often"),
        (Decide(design="race", confidence="certified"), "there is none"),
        (Decide(within="0%"), "--within takes"),
        (Decide(within="much"), "--within:"),
        (Decide(objective="pareto:iops,create_s", design="race"), "is not raced for"),
        (Decide(objective="pareto:iops,create_s", confidence="certified"), "nor certified"),
    ],
)
def test_what_cannot_be_is_refused(decide: Decide, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        rule_of(None, PLAIN, False, decide)


CERTIFIED = replace(PLAIN, design="adaptive", certify=True)


@pytest.mark.parametrize(
    ("kept", "asked", "decide", "said"),
    [
        (
            CERTIFIED,
            PLAIN,
            Decide(rounds=3),
            "with 3 rounds, which visit every stack alike, there is none: ask for no number of rounds, or add --con",
        ),
        (CERTIFIED, PLAIN, Decide(design="race"), "with --design race there is none: leave --design out, or add"),
        (
            None,
            replace(PLAIN, certify=True),
            Decide(),
            "with the design rounds of this campaign there is none: add --des",
        ),
        (
            None,
            replace(PLAIN, design="race"),
            Decide(confidence="certified"),
            "with the design race of this campaign there is none: take --confidence standard.",
        ),
        (
            replace(PLAIN, design="race"),
            PLAIN,
            Decide(confidence="certified", design="race"),
            "with --design race there is none: take --confidence standard.",
        ),
        (
            None,
            PLAIN,
            Decide(confidence="certified", rounds=3),
            "with 3 rounds, which visit every stack alike, there is",
        ),
    ],
)
def test_no_certificate_is_refused_by_what_was_typed(kept: Rule | None, asked: Rule, decide: Decide, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)) as refused:
        rule_of(kept, asked, kept is None, decide)
    assert decide.confidence or "--confidence certified" not in str(refused.value)
    assert decide.design or "--design race" not in str(refused.value)


@pytest.mark.parametrize(("decide", "design"), [(Decide(rounds=3), "rounds"), (Decide(design="race"), "race")])
def test_what_the_refusal_says_to_add_is_taken(decide: Decide, design: str) -> None:
    rule = rule_of(CERTIFIED, PLAIN, False, replace(decide, confidence="standard"))
    assert (rule.design, rule.certify) == (design, False)
    assert rule_of(None, replace(PLAIN, certify=True), True, Decide(design="adaptive")).certify


@pytest.mark.parametrize("from_file", [True, False])
@pytest.mark.parametrize("confidence", ["certified", None])
@pytest.mark.parametrize("certify", [True, False])  # True: as runs that began before this was settled have it
def test_a_certificate_that_became_a_race_goes_on(
    from_file: bool, confidence: str | None, certify: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = replace(PLAIN, design="race", certify=certify)
    rule = rule_of(kept, PLAIN, from_file, Decide(confidence=confidence))
    assert (rule.design, rule.certify, rule.confidence) == ("race", False, 0.95)
    assert ("it is its own certificate" in capsys.readouterr().err) is (certify or confidence is not None)


def test_a_front_and_weights_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one at a time"):
        verdict(tmp_path, as_json=False, weights="oltp=1", pareto="speed,create_s")


def view(*texts: str) -> View:
    speed = Metric("speed", "MiB/s", "higher")
    loads = tuple(WorkloadView(text, text, speed, {"speed": speed}) for text in texts)
    nothing: tuple[()] = ()
    return View(
        "c", "", 1, PLAIN, ("a",), loads, nothing, nothing, nothing, nothing, nothing, 0, 0, None, {}, {}, nothing
    )


def test_weights_go_by_any_part_of_a_name_that_is_its_own() -> None:
    seen = view("fio/randread(size=1G, runtime=3s)", "fio/seqwrite", "oltp")
    assert parse_weights("randread=2,oltp=1", seen.workloads) == (2, 0, 1)
    assert parse_weights("fio/randread(size=1G, runtime=3s)=1,seq=0.5", seen.workloads) == (1, 0.5, 0)


@pytest.mark.parametrize("text", ["fio=1", "nothing=1", "oltp", "oltp=-1", "oltp=0", "oltp=much"])
def test_weights_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="weight"):
        parse_weights(text, view("fio/randread", "fio/seqwrite", "oltp").workloads)


def test_a_workload_that_is_weighed_twice_is_refused() -> None:
    seen = view("fio/randread", "oltp")
    for text in ("oltp=1,oltp=2", "oltp=1,lt=0"):
        with pytest.raises(BadInput, match="is a second weight of oltp; give each workload one"):
            parse_weights(text, seen.workloads)


def test_an_objective_stays_until_another_is_named() -> None:
    kept = replace(PLAIN, objective="oltp=2,backup=1")
    for from_file in (False, True):
        assert rule_of(kept, PLAIN, from_file, Decide()).objective == "oltp=2,backup=1"
        assert rule_of(kept, PLAIN, from_file, Decide(objective="")).objective == ""
    assert rule_of(None, PLAIN, False, Decide(objective="a=1")).objective == "a=1"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("pareto:speed", "two metrics or more"),
        ("pareto:oltp:speed,colour", "'colour' is no metric of this run; they are create_s, space_bytes, speed"),
        ("pareto:speed,create_s", "is a metric of several workloads; write one of fio/randread:speed, oltp:speed"),
        ("pareto:create_s,space_bytes,create_s", "'create_s' is there already; name each metric once"),
        ("pareto:oltp:speed,lt:speed", "'lt:speed' is there already"),
        ("speed", "'speed' is not that"),
    ],
)
def test_an_objective_that_does_not_fit_is_refused(text: str, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        parse(text, view("fio/randread", "oltp").workloads, {})


def test_an_objective_is_weights_or_a_front() -> None:
    loads = view("fio/randread", "oltp").workloads
    assert parse("", loads, {}) == Objective((1.0, 1.0))
    assert parse("oltp=3", loads, {}) == Objective((0.0, 3.0))
    front = "oltp:speed,fio/randread:speed,create_s"
    assert parse(f"pareto:{front}", loads, {}) == Objective((1.0, 1.0), tuple(front.split(",")))
