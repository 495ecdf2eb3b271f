"""`strata disk probe` on a new file, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strata.lab import models

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

STRATA = str(Path(sys.executable).with_name("strata"))


def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STRATA, "disk", "probe", *arguments], capture_output=True, text=True)


def test_a_new_file_is_measured_and_removed(tmp_path: Path) -> None:
    scratch, out = tmp_path / "probe.img", tmp_path / "mine.yaml"
    done = probe("--scratch", str(scratch), "--size", "64M", "--seconds", "0.3", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert not scratch.exists()
    # what the fit does, by the engine, stands beside what was measured
    rows = {line[:24].strip(): line[24:].split() for line in done.stdout.splitlines()}
    for what in ("reads, depth 1", "reads, of 64 KiB", "in order, start", "a write, flushed"):
        measured, modelled, _ = rows[what]
        assert float(measured) > 0 and float(modelled) > 0
    assert float(rows["reads, depth 1"][1]) == pytest.approx(float(rows["reads, depth 1"][0]), rel=0.2)
    model = models.find(str(out), out.read_text())
    assert model.limits is not None and model.limits.read_iops > 1
    assert "flush_us" not in model.assumed and "block_bytes" in model.assumed
    again = probe("--scratch", str(scratch), "--size", "64M", "-o", str(out))
    assert again.returncode == 3 and "is there already" in again.stderr


def test_a_device_is_read_and_its_content_stays(tmp_path: Path) -> None:
    image, out = tmp_path / "disk.img", tmp_path / "mine.yaml"
    content = bytes(range(256)) * (1 << 17)
    image.write_bytes(content)
    loop = subprocess.run(
        ["losetup", "--find", "--show", "--read-only", str(image)], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        done = probe(loop, "--seconds", "0.3", "-o", str(out))
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)
    assert image.read_bytes() == content
    assert "write_latency_us" in models.find(str(out), out.read_text()).assumed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "name the device"),
        ((__file__,), 3, "is a file, and a probe reads a block device"),
        (("/dev/null", "--scratch", "x"), 2, "one of them"),
        (("/dev/nothing-here",), 3, "cannot be looked at"),
        (("/dev/null",), 3, "cannot be read, or is empty"),
        (("--scratch", "/proc/x"), 3, "cannot be made"),
        (("--scratch", "x", "--size", "1K"), 2, "a probe wants a file of"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = probe(*arguments, "-o", str(tmp_path / "out.yaml"))
    assert done.returncode == code, done.stderr
    assert said in done.stderr and not (tmp_path / "out.yaml").exists()


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    done = probe("--scratch", str(tmp_path / "x"), "-o", str(tmp_path / "nowhere" / "out.yaml"))
    assert done.returncode == 3 and "cannot be written" in done.stderr and not (tmp_path / "x").exists()


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.write_text("mine")
    done = probe("--scratch", str(held), "-o", str(tmp_path / "out.yaml"))
    assert done.returncode == 3 and "is there already" in done.stderr
    assert held.read_text() == "mine"
