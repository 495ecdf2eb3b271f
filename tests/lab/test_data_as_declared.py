"""What arrives on stacks that compress is as compressible as the load says, at every depth."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

STACKS = {
    "zfs": ("disk | zfs(compression=lz4)", "1G", "physical_bytes"),
    "btrfs": ("disk | btrfs(compress=zstd)", "1G", "data_bytes"),
    "vdo": ('disk | vdo(compression=on, deduplication=off) | ext4(mkfs="-E nodiscard")', "6G", "physical_bytes"),
}


@pytest.mark.parametrize(("compressible", "low", "high"), [("0%", 0.995, 1.02), ("50%", 1.9, 2.1)])
@pytest.mark.parametrize("layer", STACKS)
def test_data_are_as_compressible_as_the_load_says(
    tmp_path: Path, layer: str, compressible: str, low: float, high: float
) -> None:
    """One file, laid out and written over, of each depth by itself. What is stored has the layer's own metadata in it,
    so data that do not compress can come to slightly less than 1."""
    stack, size, stored = STACKS[layer]
    loads = [
        f"fio/seqwrite-1m(bs=128K, iodepth={depth}, size=128M, runtime=3s, compressible={compressible})"
        for depth in (1, 8, 32)
    ]
    more = [word for load in loads[1:] for word in ("-w", load)]
    view = lab_run(tmp_path / "run", [stack], loads[0], *more, "--size", f"disk={size}")
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 3, [trial.reason for trial in view.trials]
    ratios = {
        trial.workload: trial.metrics[f"{layer}.logical_bytes"] / trial.metrics[f"{layer}.{stored}"]
        for trial in view.trials
    }
    print(layer, compressible, ratios)
    assert all(low <= ratio <= high for ratio in ratios.values()), ratios
