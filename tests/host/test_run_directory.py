"""The directory that --out names, and runs that go on in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.store import reader

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

STRATA = str(Path(sys.executable).with_name("strata"))


@pytest.fixture(autouse=True)
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")


def run(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STRATA, "run", *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd)


def test_somebody_s_directory_is_refused(tmp_path: Path) -> None:
    thesis = tmp_path / "work" / "1" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("precious")
    done = run("disk | ext4", "-w", "null", "--out", str(tmp_path))
    assert done.returncode == 3 and "--out" in done.stderr
    assert thesis.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


@pytest.mark.parametrize("place", ["a-file", "/proc/none"])
def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").write_text("x")
    done = run("disk | ext4", "-w", "null", "--out", str(tmp_path / place))
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr and place in done.stderr


def test_a_script_s_own_figure_decides(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text('#!/bin/sh\necho \'{"requests": 5}\' >"$STRATA_OUTPUT"\n')
    script.chmod(0o755)
    out = str(tmp_path / "run")
    load = "command:s.sh(primary=requests, unit=req/s, better=higher)"
    done = run("disk | ext4", "-w", load, "--rounds", "1", "--size", "disk=64M", "--out", out, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["ranking"]
    (metrics,) = row["metrics"].values()
    assert (metrics["requests"]["point"], metrics["requests"]["unit"]) == (5, "req/s")


def test_rounds_asked_for_once_are_kept(tmp_path: Path) -> None:
    argv = ("disk | ext4", "-w", "null", "--size", "disk=64M", "--out", str(tmp_path / "run"))
    assert run(*argv, "--rounds", "2").returncode == 0
    again = run(*argv)
    assert again.returncode == 0 and "--rounds" in again.stderr
    assert reader.status(tmp_path / "run").visits_done == 2


def test_an_edited_file_s_rule_holds_and_rounds_asked_for_stay(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = "stacks: [disk | ext4]\ndisks: {disk: {size: 64M}}\nworkloads: ['null']\nrule: {rounds: 1, within: 3%}\n"
    file.write_text(text)
    argv = (str(file), "--out", str(tmp_path / "run"))
    assert run(*argv).returncode == 0
    file.write_text(text.replace("rounds: 1, within: 3%", "rounds: 2, within: 9%, budget: 1ms"))
    assert run(*argv, "--budget", "1h").returncode == 0
    view = reader.view(tmp_path / "run")
    assert (view.rule.rounds, view.rule.within, view.visits_done) == (2, 0.09, 2)
    file.write_text(text)
    again = run(*argv)
    assert again.returncode == 0 and "continuing to 2 rounds" in again.stderr


def test_a_guess_of_the_time_keeps_no_campaign_from_beginning(tmp_path: Path) -> None:
    script = tmp_path / "quick.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)
    argv = ("disk | ext4", "-w", "command:quick.sh", "--size", "disk=64M", "--rounds", "5", "--budget", "2s")
    done = run(*argv, "--out", str(tmp_path / "run"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert reader.status(tmp_path / "run").visits_done >= 1


def test_out_may_be_relative_and_have_spaces_and_lie_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "real place").mkdir()
    (tmp_path / "link").symlink_to("real place")
    load = "dd/seqwrite-sync(size=1M)"
    argv = ("disk | ext4", "-w", load, "--rounds", "1", "--size", "disk=64M", "--out")
    done = run(*argv, "link", cwd=tmp_path)
    assert done.returncode == 3 and "a symbolic link to real place" in done.stderr
    assert list((tmp_path / "real place").iterdir()) == []
    done = run(*argv, "link/a run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "real place" / "a run" / "report.html").exists()
    assert not any((tmp_path / "real place" / "a run" / "work").iterdir())


def test_the_question_before_overwriting_goes_beside_the_answer(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    loop = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        done = run("disk | ext4", "-w", "null", "--device", f"disk={image}", "--out", str(tmp_path / "run"), "--json")
        assert done.returncode == 3
        assert done.stdout == "" and "64.0 MiB" in done.stderr and "--yes" in done.stderr
        assert not (tmp_path / "run").exists()
        campaign = tmp_path / "c.yaml"
        campaign.write_text("stacks: [disk | ext4]\ndisks: {disk: {size: 10G}}\nworkloads: ['null']\n")
        done = run(str(campaign), "--device", f"disk={image}", "--out", str(tmp_path / "run"))
        assert done.returncode == 3
        assert "disk: the campaign's size 10G is not used: its disks are the devices given\n" in done.stderr
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


def test_a_claimed_loop_device_that_goes_through_memory_is_told(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    for direct, told in (("off", True), ("on", False)):
        attach = ["losetup", "--find", "--show", f"--direct-io={direct}", image]
        loop = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        try:
            out = tmp_path / f"run-{direct}"
            argv = (
                "disk | ext4",
                "-w",
                "null",
                "--device",
                f"disk={image}",
                "--rounds",
                "1",
                "--yes",
                "--out",
                str(out),
            )
            done = run(*argv, "--json")
            assert done.returncode == 0, done.stderr
            kinds = {warning["kind"] for warning in json.loads(done.stdout)["warnings"]}
            assert ("caching" in kinds) is told
        finally:
            subprocess.run(["losetup", "--detach", loop], check=True)
