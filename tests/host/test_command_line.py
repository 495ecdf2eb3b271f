"""The command line as a person types it, wrong things included."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

STRATA = str(Path(sys.executable).with_name("strata"))


def strata(*argv: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STRATA, *argv],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **environment},
    )


BAD_JOB = "[job]\nrw=sideways\nsize=1M\n"

WRONG = [
    # what is typed, exit code, what the answer must name
    (("disk | ext5",), 2, ["ext5", "ext4", "^"]),
    (("disk | ext4(noatme)",), 2, ["noatme", "noatime"]),
    (("disk | ext4 | xfs",), 2, ["xfs", "directory"]),
    (("ext4 | xfs",), 2, ["ext4", "disk | ext4"]),
    (("disk | {ext4, nonesuch} | other",), 2, ["nonesuch", "other"]),
    (("disk |",), 2, ["|"]),
    (("disk | ext4", "-w", "fio/nothing"), 2, ["fio/nothing", "fio/rand"]),
    (("disk | ext4", "-w", "null(x=1)"), 2, ["x"]),
    (("disk | ext4", "-w", "fio:missing.fio"), 2, ["missing.fio"]),
    (("disk | ext4", "-w", "fio:bad.fio"), 2, ["sideways"]),
    (("missing.yaml",), 2, ["missing.yaml"]),
    (("disk | ext4", "--size", "disk=500T"), 2, ["500", "free"]),
    (("disk | ext4", "--size", "disk=big"), 2, ["big", "20G"]),
    (("disk | ext4", "--budget", "soon"), 2, ["soon", "20m"]),
    (("disk | ext4", "--device", "nonsense"), 2, ["ROLE=STABLE-ID"]),
    (("disk | ext4", "--device", "hdd=/dev/disk/by-id/none"), 3, ["/dev/disk/by-id/none"]),
    (("disk | ext4", "--device", "disk=/dev/vda"), 3, ["/dev/vda", "stable"]),
    (("disk | ext4", "--wipe", "/dev/disk/by-id/x"), 2, ["--device"]),
    (("existing(/nonesuch/at/all)",), 4, ["/nonesuch/at/all", "no such directory"]),
    (("disk | partition(size=8G) | ext4", "--size", "disk=300M"), 4, ["does not fit", "300M"]),
    (("2*disk | btrfs(raid1)", "-w", "dd/seqwrite-sync(size=700M)", "--size", "disk=500M"), 4, ["room for 500"]),
    (("disk | scheduler(nonesuch) | ext4",), 4, ["nonesuch", "none"]),
]


@pytest.mark.parametrize(("typed", "code", "named"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_wrong_things_get_a_sentence_and_leave_nothing(
    tmp_path: Path, typed: tuple[str, ...], code: int, named: list[str]
) -> None:
    (tmp_path / "bad.fio").write_text(BAD_JOB)
    done = strata("run", *typed, "--out", str(tmp_path / "run"), "--yes", cwd=tmp_path)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    said = done.stderr + done.stdout
    assert all(word in said for word in named), said
    backing = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [path for path in backing if str(tmp_path) in path]
    if code != 4:  # that nothing can run is a result, and kept
        assert not (tmp_path / "run").exists()


def test_a_missing_and_an_old_fio(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sed", "uname", "nproc", "id", "cat", "df", "tail", "head", "ls", "dirname", "readlink"):
        (programs / name).symlink_to(Path("/usr/bin") / name)
    missing = strata("plan", "disk | ext4", PATH=str(programs))
    # /usr/sbin is always looked in: there is where mkfs.ext4 is, but no fio
    assert missing.returncode == 2
    assert "fio" in missing.stderr and "install" in missing.stderr
    old = programs / "fio"
    old.write_text("#!/bin/sh\necho fio-2.2.10\n")
    old.chmod(0o755)
    too_old = strata("plan", "disk | ext4", PATH=str(programs))
    assert too_old.returncode == 2
    assert "fio 2.2 is older" in too_old.stderr


def test_plan_touches_nothing_and_says_all(tmp_path: Path) -> None:
    done = strata("plan", "disk | {ext4, xfs(nobarrier)}", "-w", "null", "--json", cwd=tmp_path)
    plain = json.loads(done.stdout)
    assert plain["runnable"] == ["disk | ext4"]
    assert plain["skipped"][0]["stack"] == "disk | xfs(nobarrier)"
    assert plain["visits"] == plain["rounds"] * 1
    assert not any(tmp_path.iterdir())
    commands = strata("plan", "disk | ext4", "-w", "null", "--commands", cwd=tmp_path).stdout
    assert "mkfs.ext4" in commands


def test_a_run_from_first_to_last_for_programs(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")
    run = str(tmp_path / "run")
    done = strata("run", "disk | ext4 | {null(a), null(b)}", "-w", "null", "--rounds", "2", "--out", run, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"best", "tied", "undecided", "ranking", "skipped", "failed"} <= found.keys()
    # Two rounds of nothing may well differ by chance.
    assert found["tied"] and set(found["tied"]) <= {"disk | ext4 | null(a)", "disk | ext4 | null(b)"}
    assert [row["visits"] for row in found["ranking"]] == [2, 2]
    for row in found["ranking"]:
        assert {"point", "low", "high", "unit", "better"} <= row["metrics"]["null"]["duration_s"].keys()
    assert json.loads(strata("verdict", run, "--json").stdout) == found
    assert json.loads(strata("status", run, "--json").stdout)["visits_done"] == 4
    html = (tmp_path / "run" / "report.html").read_text()
    assert "null(a)" in html and "<script" not in html
    assert "null(b)" in strata("report", run, "--markdown").stdout
    assert json.loads(strata("report", run, "--json").stdout)
    assert "left" in strata("clean", run).stdout


def test_existing_directories_are_measured_and_left_as_they_were(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_text("precious")
    done = strata(
        "run", f"existing({mine})", "-w", "dd/seqwrite-sync(size=1M)", "--rounds", "1", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in mine.iterdir()] == ["precious"]
    assert (mine / "precious").read_text() == "precious"


def test_a_directory_of_the_user_s_without_room_or_disk(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mine = tmp_path / "mine"
    mine.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", str(mine)], check=True)
    try:
        planned = json.loads(strata("plan", f"existing({mine})", "-w", "dd/seqwrite-sync(size=1G)", "--json").stdout)
        assert planned["runnable"] == [] and "room for 62" in planned["skipped"][0]["reasons"][0]
        assert planned["directories"][str(mine)]["filesystem"] == "tmpfs"
        run = str(tmp_path / "run")
        done = strata("run", f"existing({mine})", "-w", "dd/seqwrite-sync(size=4M)", "--rounds", "1", "--out", run)
        assert done.returncode == 0, done.stderr
        marks = strata("report", run, "--markdown").stdout
        assert "memory" in marks and "no block device is known below this tmpfs" in marks
    finally:
        subprocess.run(["umount", str(mine)], check=True)


def test_the_disk_below_a_directory_of_the_user_s_is_sampled(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    planned = json.loads(strata("plan", f"existing({mine})", "-w", "null", "--json").stdout)
    devices = planned["directories"][str(mine)]["devices"]
    if not devices:
        pytest.skip("no block device is known below the directory of this test")
    run = tmp_path / "run"
    done = strata(
        "run", f"existing({mine})", "-w", "dd/seqwrite-sync(size=32M)", "--rounds", "1", "--out", str(run), "--json"
    )
    assert done.returncode == 0, done.stderr
    sql = sqlite3.connect(run / "strata.db")
    ((written,),) = sql.execute("SELECT value FROM figure WHERE metric = 'disk.write_bytes'").fetchall()
    sql.close()
    assert written >= 32 << 20


def test_a_failed_trial_leaves_what_it_said_and_every_command(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "bad.sh").write_text("#!/bin/sh\necho to the one; echo to the other >&2; exit 3\n")
    run = tmp_path / "run"
    done = strata("run", f"existing({mine})", "-w", "command:bad.sh", "--rounds", "1", "--out", str(run), cwd=tmp_path)
    assert done.returncode == 1
    sql = sqlite3.connect(run / "strata.db")
    rows = sql.execute("SELECT exit_code, stdout, stderr FROM evidence WHERE layer LIKE 'command:%'").fetchall()
    sql.close()
    assert rows == [(3, "to the one\n", "to the other\n")]
    shown = strata("report", str(run), "--markdown").stdout
    for part in ("echo to the other", "strata-trial", "drop_caches", "strata-engine", "chmod"):
        assert part in shown, part


def test_a_stated_memory_is_said_not_to_be_enforced(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("stacks: [disk | ext4]\nworkloads: ['null']\nmemory: 1M\n")
    said = strata("plan", "c.yaml", cwd=tmp_path).stdout
    assert "1.0 MiB" in said and "nothing enforces" in said


@pytest.mark.parametrize("what", ["layers", "workloads", "metrics"])
def test_the_reference(what: str) -> None:
    listed = json.loads(strata("show", what, "--json").stdout)[what]
    assert listed
    name = listed[0]["name"]
    assert name in strata("show", what, name).stdout
    wrong = strata("show", what, "nonesuch")
    assert wrong.returncode == 2 and name in wrong.stderr


def test_doctor_gives_reasons() -> None:
    done = strata("doctor", "--json")
    found = json.loads(done.stdout)
    assert found["machine"]["kernel_text"] == os.uname().release
    assert set(found) == {"version", "machine", "layers", "choices", "workloads", "brought"}
    assert all(isinstance(reasons, list) for reasons in found["layers"].values())
    # No Linux has aufs.
    assert any("aufs was never part of Linux" in reason for reason in found["choices"]["docker(aufs)"])
    told = strata("doctor").stdout
    assert "ext4" in told and "no   docker(aufs)" in told


def test_advice_and_recipe_join_the_report(tmp_path: Path) -> None:
    run, wanted, page = str(tmp_path / "run"), tmp_path / "wanted.yaml", tmp_path / "page.html"
    done = strata("run", "disk | {ext4, btrfs}", "-w", "null", "--rounds", "2", "--size", "disk=256M", "--out", run)
    assert done.returncode == 0, done.stderr
    wanted.write_text("needs: [snapshot]\n")
    asked = ("report", run, "--requirements", str(wanted), "--out", str(page))
    done = strata(*asked, "--map", "disk=/dev/disk/by-id/ata-MINE")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "Choose: disk | btrfs" in text and "mkfs.btrfs" in text and "/dev/disk/by-id/ata-MINE" in text
    page.unlink()
    wanted.write_text("needs: [snapshot, block]\n")
    for argv, told in (
        ((*asked, "--map", "disk=/dev/disk/by-id/ata-MINE"), "lead to no stack"),
        ((*asked, "--map", "disk=/dev/sda"), "lead to no stack"),
        ((*asked, "--json"), "are for the page"),
        (("report", run, "--size", "disk=1G"), "give that with --map"),
        (("report", run, "--features", str(tmp_path)), "holds nothing that `strata features` tried"),
        (("report", run, run, "--map", "disk=/dev/sda"), "page of one run"),
    ):
        done = strata(*argv)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
        assert told in done.stderr
    # Of two stacks that do nothing one may be called the best by chance; then only the name of the disk is wrong.
    refused = strata("report", run, "--map", "disk=/dev/sda")
    assert refused.returncode == 2, refused
    assert "Say which stack" in refused.stderr or "may mean another disk tomorrow" in refused.stderr
    assert not page.exists()


@pytest.mark.parametrize("command", ["status", "verdict", "report", "clean"])
def test_a_directory_that_holds_no_run(tmp_path: Path, command: str) -> None:
    done = strata(command, str(tmp_path / "none"))
    assert done.returncode == 2
    assert "holds no run" in done.stderr
    assert not (tmp_path / "none").exists()
