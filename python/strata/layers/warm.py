"""Caches are warm: every workload runs a few times before it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.layers._condition import ANYTHING
from strata.layers._driver import PassThrough
from strata.model import Call, Facts, LayerInfo, Param, ParamType, Place, Provides

INFO = LayerInfo(
    name="warm",
    about="Runs every workload so many times before the measured one, so that caches hold what it uses.",
    params=(
        Param(
            "runs", ParamType.INT, "how many unmeasured runs", required=True, minimum=1, maximum=100, positional=True
        ),
    ),
    accepts=ANYTHING,
    provides=None,
    deployed=False,
)


class WarmDriver(PassThrough):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return replace(below[0], rehearsals=int(spec["runs"] or 1))


DRIVER = WarmDriver()
