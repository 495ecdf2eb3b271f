"""`feature/NAME`: a probe between the making of its notes and the undo of all that it made."""

from __future__ import annotations

import pytest

from strata.model import Call, Kind, Target
from strata.probes import PREFIX, probes
from strata.probes._undo import MAKE_NOTES, REMOVE_NOTES, UNDO
from strata.workloads.feature import WORKLOADS

FEATURES = {feature.info.name.removeprefix(PREFIX): feature for feature in WORKLOADS}


@pytest.mark.parametrize(
    ("name", "kind", "undo"),
    [
        ("grow", Kind.DIRECTORY, UNDO),
        ("io-limit", Kind.BLOCK, UNDO),
        # the layer of the engine removes its containers
        ("io-limit", Kind.ENGINE, REMOVE_NOTES),
        # nothing but files, also in a directory of the user's: no look at what lies below it
        ("direct", Kind.DIRECTORY, REMOVE_NOTES),
    ],
)
def test_a_probe_is_undone_by_what_knows_all_that_it_makes(name: str, kind: Kind, undo: str) -> None:
    plan = FEATURES[name].plan(Call(name, name, {}), Target(kind, "/target", None), "/scratch", 0)
    assert plan.cleanup is not None and plan.cleanup.undo is not None
    assert plan.cleanup.do.argv == ("sh", "-c", MAKE_NOTES, "sh", "/target", "/scratch")
    assert plan.measure.argv == ("sh", "-c", probes()[name].script, "sh", "/target", "/scratch")
    assert plan.cleanup.undo.argv == ("sh", "-c", undo, "sh", "/target", "/scratch")
