"""A disk has come back empty, and its content is being written again while the measurement runs."""

from __future__ import annotations

from strata.layers._condition import ANYTHING, Condition
from strata.model import LayerInfo

DRIVER = Condition(
    LayerInfo(
        name="rebuilding",
        about="Fails a disk of the nearest layer below that can rebuild it, brings it back and starts the rebuild.",
        params=(),
        accepts=ANYTHING,
        provides=None,
        needs="rebuild",
    )
)
