"""Debian is installed onto a file system of the lab, and what is there afterwards is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.model import Outcome

from .lab_runs import built, lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

# 128 MiB lie there in the end.
LEAST_WRITTEN_BYTES = 100 << 20


def test_an_installation_is_timed_and_reaches_the_disk(tmp_path: Path) -> None:
    built("install")
    view = lab_run(tmp_path / "run", ["disk | ext4"], "guest/install(minimal)")
    (trial,) = view.trials
    assert (trial.outcome, trial.reason) == (Outcome.OK, None)
    assert trial.metrics["install_s"] > 0
    assert trial.metrics["disk.write_bytes"] > LEAST_WRITTEN_BYTES
    assert not view.failed


@pytest.mark.timeout(7200)
def test_an_installation_in_a_guest_that_was_booted(tmp_path: Path) -> None:
    built("install")
    built("qemu")
    (trial,) = lab_run(tmp_path / "run", ["disk | vm | ext4"], "guest/install(minimal)", "--size", "disk=2G").trials
    assert (trial.outcome, trial.reason) == (Outcome.OK, None)
    assert trial.metrics["install_s"] > 0 and trial.metrics["vm.boot_s"] > 0
    # Through the file system of the guest and the export to the disk of the lab.
    for name in ("vm.write_bytes", "disk.write_bytes"):
        assert trial.metrics[name] > LEAST_WRITTEN_BYTES, name
