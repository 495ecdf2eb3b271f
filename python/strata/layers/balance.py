"""Everything below is written anew, evenly over the devices."""

from __future__ import annotations

from strata.layers._condition import ANYTHING, Condition
from strata.model import LayerInfo

DRIVER = Condition(
    LayerInfo(
        name="balance",
        about="Writes everything on btrfs anew, evenly over its devices (a full balance), and waits for it.",
        params=(),
        accepts=ANYTHING,
        provides=None,
        needs="balance",
    )
)
