"""Equal extents of the files below are made to share their blocks."""

from __future__ import annotations

from strata.layers._condition import ANYTHING, Condition
from strata.model import LayerInfo

DRIVER = Condition(
    LayerInfo(
        name="duperemove",
        about="Finds equal extents among all files of btrfs or XFS and makes them share their blocks.",
        params=(),
        accepts=ANYTHING,
        provides=None,
        tools={"duperemove": "duperemove"},
        needs="dedupe",
    )
)
