"""Snapshots of what is below, held while it is measured."""

from __future__ import annotations

from strata.layers._condition import ANYTHING, Condition
from strata.model import LayerInfo, Param, ParamType

DRIVER = Condition(
    LayerInfo(
        name="snapshot",
        about="Takes snapshots of the nearest layer below that can, and holds them.",
        params=(Param("held", ParamType.INT, "how many", default=1, minimum=1, maximum=1000),),
        accepts=ANYTHING,
        provides=None,
        needs="snapshot",
    ),
    times="held",
)
