"""A view of a run with nothing in it."""

from __future__ import annotations

from strata.model import Rule, View


def empty() -> View:
    return View(
        campaign="made up",
        about="",
        seed=1,
        rule=Rule(),
        stacks=(),
        workloads=(),
        trials=(),
        steps=(),
        skipped=(),
        failed=(),
        events=(),
        visits_planned=0,
        visits_done=0,
        facts=None,
        versions={},
        commands={},
        disks=(),
    )
