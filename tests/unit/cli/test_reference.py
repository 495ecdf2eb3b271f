"""What `strata show layers` says of a layer beside its arguments."""

from __future__ import annotations

from strata.cli import reference
from strata.model import Kind, LayerInfo, Metric

BLOCK = frozenset({Kind.BLOCK})


def test_what_a_layer_offers_needs_and_reports() -> None:
    saved = Metric("vdo.saved_pct", "%", "higher", "share that it saves")
    info = LayerInfo("vdo", "saves", (), BLOCK, Kind.BLOCK, metrics=(saved,), offers=frozenset({"snapshot", "degrade"}))
    lines = reference.text(info).splitlines()
    assert "  offers to conditions above it: degrade, snapshot" in lines
    assert "  reports: vdo.saved_pct (%, higher is better): share that it saves" in lines
    assert not [line for line in lines if "needs" in line]
    condition = LayerInfo("degraded", "loses", (), BLOCK, None, needs="degrade")
    assert "  needs something below it that offers: degrade" in reference.text(condition).splitlines()
