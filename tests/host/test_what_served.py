"""A figure that memory decided is marked by what reached the disks, and one that the disks decided is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata.store import reader

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="building stacks needs root"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; apt-get install fio"),
]

STRATA = str(Path(sys.executable).with_name("strata"))


def test_a_load_that_the_page_cache_serves_is_marked_and_one_past_it_is_not(tmp_path: Path) -> None:
    # Else fio empties the page cache of its file before every pass.
    job = tmp_path / "kept.fio"
    job.write_text("[kept]\nrw=randread\nbs=4k\nsize=1M\ninvalidate=0\n")
    loads = [f"fio:{job}(runtime=2s)", "fio/randread-4k-qd32(runtime=2s, size=1M)"]
    argv = [STRATA, "run", "disk | ext4", "-w", loads[0], "-w", loads[1], "--size", "disk=256M", "--rounds", "1"]
    done = subprocess.run([*argv, "--out", str(tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    buffered, direct = reader.view(tmp_path / "run").trials
    assert "cache" in buffered.flags and "cache" not in direct.flags
    assert any("reached the disks as reads (the page cache)" in note for note in buffered.notes), buffered.notes
    assert buffered.metrics["disk.read_ratio"] < 0.5 < 0.99 < direct.metrics["disk.read_ratio"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-storage-daemon") is None, reason="apt-get install qemu-system-common")
def test_a_direct_load_is_marked_where_the_page_cache_below_it_serves(tmp_path: Path) -> None:
    stack, load = "disk | xfs | raw(size=256M) | qsd(cache=writeback)", "fio/randread-4k-qd32(size=1M, runtime=3s)"
    argv = [STRATA, "run", stack, "-w", load, "--size", "disk=1G", "--rounds", "1", "--out", str(tmp_path / "run")]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = reader.view(tmp_path / "run").trials
    assert "cache" in trial.flags and trial.metrics["disk.read_ratio"] < 0.5, (trial.notes, trial.metrics)
    assert any("the page cache below qsd" in note for note in trial.notes), trial.notes
