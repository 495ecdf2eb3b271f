"""A figure that nothing else counted is invalid; one that a named cache explains, or that is too low, is not."""

from __future__ import annotations

from dataclasses import replace

from strata import campaign as campaigns
from strata import layers
from strata.model import AccessPattern, Disk, Metric, Outcome
from strata.planning import layout
from strata.run.trials import witness
from strata.run.trials.trial import Trial

IOPS = Metric("iops", "IOPS", "higher")
PATTERN = AccessPattern(True, 4096, 1 << 30, 32, True, False, 30.0, 3000.0, 0.0)
BYTES = 3000 * 4096 * 30
PLAIN = "disk | ext4 | limit(read_iops=3000) | warm(2)"


def judged(
    stack: str = PLAIN,
    iops: float = 3000.0,
    *,
    disk: int = BYTES,
    program: int | None = BYTES,
    cut_s: float = 0.0,
    pattern: AccessPattern = PATTERN,
    busy_ms: int = 30_000,
) -> Trial:
    (parsed,) = campaigns.parse_stacks(stack, layers.catalogue())
    disks = (Disk("disk", 2 << 30, "/dev/sdz"),)
    laid_out = layout.lay_out(parsed, layers.drivers(), disks, work_dir="/run", run_uuid="0" * 32, attempt=1)
    series = {
        f"machine.device.d{number}.{name}": [(t / 10, 7.0 + each * t / 300) for t in range(301)]
        for number, _ in enumerate(laid_out.block_devices())
        for name, each in (("read_bytes", disk), ("write_bytes", 0), ("reads", disk // 4096), ("busy_ms", busy_ms))
    }
    trial = Trial(Outcome.OK, None, 0.0, 30.0, (), figures={"iops": iops}, series=series, pattern=pattern)
    return witness.judged(laid_out, replace(trial, cut_s=cut_s, moved_bytes=program), IOPS)


def test_the_sum_of_three_logs_is_no_figure() -> None:
    """As limit(read_iops=3000) | warm(2) printed it, when fio had appended the logs of its rehearsals."""
    result = judged(iops=9001.0)
    assert result.outcome is Outcome.INVALID and result.figures == {"iops": 9001.0}
    assert "9,001 IOPS" in (result.reason or "") and "3.00 times" in (result.reason or "")
    assert "its own program counted" in (result.reason or "")
    assert judged(iops=9001.0, cut_s=5.0).outcome is Outcome.INVALID
    assert "the disks counted" in (judged(iops=9001.0, program=None).reason or "")


def test_what_agrees_within_five_percent_is_left_alone() -> None:
    assert judged().outcome is judged(iops=3140.0).outcome is judged(cut_s=10.0).outcome is Outcome.OK
    assert judged(iops=3160.0).outcome is Outcome.INVALID
    assert judged(disk=10 * BYTES).outcome is Outcome.OK, "a stack may read more than it was asked for"


def test_the_disks_say_nothing_where_a_cache_may_have_served() -> None:
    for stack in ("disk | zfs", "disk | ext4(data=journal)"):
        assert judged(stack, disk=BYTES // 10).outcome is Outcome.OK
    assert judged(disk=BYTES // 10, pattern=replace(PATTERN, direct=False)).outcome is Outcome.OK
    assert judged(disk=BYTES // 10).outcome is Outcome.INVALID
    assert judged("disk | zfs", iops=9001.0).outcome is Outcome.INVALID, "its own bytes say something everywhere"


def test_a_disk_that_counts_nothing_is_no_witness() -> None:
    """With queue/iostats of 0; one that was busy and gave nothing does count."""
    assert judged(disk=0, busy_ms=0).outcome is Outcome.OK
    assert judged(disk=0).outcome is Outcome.INVALID


def test_tenants_are_not_judged() -> None:
    assert judged("disk | ext4 | tenants(2)", iops=9001.0).outcome is Outcome.OK
