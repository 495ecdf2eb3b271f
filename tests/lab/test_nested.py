"""Guests within the lab machine, by the KVM that its kernel has. Also where the lab itself is emulated, for QEMU
emulates AMD's virtualization, slowly. Their disks are on stacks that only the lab has."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import built, lab_run, machines_of

# In an emulated lab a guest within takes a minute and more to boot, on two quiet processors.
pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]


def nothing_left(directory: Path) -> bool:
    return machines_of(directory) == [] and not list((directory / "work").glob("*"))


def test_a_guest_within_the_lab_is_measured_there(tmp_path: Path) -> None:
    built("qemu")
    stack = "2*hdd | md(raid1) | vm(cache=directsync, nested) | ext4"
    view = lab_run(tmp_path, [stack], "fio/randrw-75-25(runtime=10s, size=32M)", "--size", "hdd=1G")
    assert view.stacks == (stack,) and not view.skipped
    (trial,) = view.trials
    assert trial.outcome is Outcome.OK, trial.reason
    for name in ("iops", "vm.boot_s", "vm.writes", "guest.qemu_cpu_s", "guest.cpu_busy_pct", "host.cpu_busy_pct"):
        assert trial.metrics[name] > 0, name
    # Every write is flushed by QEMU, though nobody in the guest asked for it.
    assert trial.metrics["md.write_bytes"] > 0 and trial.metrics["disk.flushes"] > 0
    removed = {step.why: step.remove_s for step in view.steps}
    assert removed["start the guest"] is not None and "export the disk of the guest" not in removed
    assert view.facts is not None and not any("twice" in caveat for caveat in view.facts.caveats)
    assert nothing_left(tmp_path)


def test_two_tenants_work_at_the_same_time_in_guests_within_the_lab(tmp_path: Path) -> None:
    built("qemu")
    stack = "2*hdd | md(raid1) | lvmthin(zero=off) | tenants(2) | vm(nested) | xfs"
    loads = ("fio/randrw-75-25@1(runtime=60s, size=32M)", "filebench/varmail@2(runtime=60s, nfiles=200)")
    view = lab_run(tmp_path, [stack], loads[0], "-w", loads[1], "--size", "hdd=2G")
    assert not view.skipped and not view.failed
    assert len(view.trials) == 2
    for trial in view.trials:
        assert trial.outcome is Outcome.OK, trial.reason
        assert trial.metrics["tenants.overlap_pct"] >= 99
        assert trial.metrics["vm.boot_s"] > 0 and trial.metrics["guest.qemu_cpu_s"] > 0
    assert nothing_left(tmp_path)
