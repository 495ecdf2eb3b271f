"""Equal extents of the files below are made to share their blocks."""

from __future__ import annotations

from strata.layers._condition import ANYTHING
from strata.layers._on_data import OnData
from strata.model import LayerInfo, Metric

DRIVER = OnData(
    LayerInfo(
        name="duperemove",
        about="Finds equal extents among all files of btrfs or XFS and makes them share their blocks, when the data of "
        "a workload exist.",
        params=(),
        accepts=ANYTHING,
        provides=None,
        tools={"duperemove": "duperemove"},
        needs="dedupe",
        metrics=(Metric("duperemove.freed_bytes", "bytes", "higher", "room of the file system that this freed"),),
    ),
    names=(("freed", "duperemove.freed_bytes"),),
)
