"""Everything below is written again, evenly over the devices."""

from __future__ import annotations

from strata.layers._condition import ANYTHING
from strata.layers._on_data import OnData
from strata.model import LayerInfo, Metric

DRIVER = OnData(
    LayerInfo(
        name="balance",
        about="Rewrites everything on btrfs, evenly over its devices (a full balance), when the data of a workload "
        "exist, and waits for it.",
        params=(),
        accepts=ANYTHING,
        provides=None,
        needs="balance",
        metrics=(Metric("balance.moved_bytes", "bytes", "neither", "what the devices wrote while it ran"),),
    ),
    names=(("moved", "balance.moved_bytes"),),
)
