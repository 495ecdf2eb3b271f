"""Disks are removed for good."""

from __future__ import annotations

from strata.layers._condition import ANYTHING, Condition
from strata.model import LayerInfo, Param, ParamType

DRIVER = Condition(
    LayerInfo(
        name="degraded",
        about="Takes disks away from the nearest layer below that can lose them; they stay away.",
        params=(Param("disks", ParamType.INT, "how many", default=1, minimum=1, maximum=100, positional=True),),
        accepts=ANYTHING,
        provides=None,
        needs="degrade",
    ),
    times="disks",
)
