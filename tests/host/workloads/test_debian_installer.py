"""debian-installer on an image: the server between it and the mirror, and (slow) a whole installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.model import Call, Kind, Outcome, Target
from strata.store import reader
from strata.workloads import workloads

pytestmark = pytest.mark.host

STRATA = str(Path(sys.executable).with_name("strata"))
INSTALLER = workloads()["guest/debian-installer"]
TEXT = "guest/debian-installer(debian=12)"
SPEC = Call(
    INSTALLER.info.name,
    TEXT,
    {**{param.name: param.default for param in INSTALLER.info.params}, "debian": "12"},
    None,
    None,
)


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """The directory of a trial, whose mirror is a folder beside it."""
    directory = tmp_path / "a trial"
    (tmp_path / "mirror" / "dists").mkdir(parents=True)
    (tmp_path / "mirror" / "dists" / "Release").write_text("Suite: strata\n")
    directory.mkdir()
    plan = INSTALLER.plan(SPEC, Target(Kind.IMAGE, "/no/image", None), str(directory), 1)
    for path, text in plan.put.items():
        Path(path).write_text(text)
    (directory / "mirror").write_text(f"copy:{tmp_path}/mirror\n")
    (directory / "kept").write_text(f"{tmp_path}/kept\n")
    for name in ("fetched", "installed"):
        (directory / name).touch()
    return directory


def asked(trial: Path, line: str) -> tuple[str, str]:
    """The first line of the answer, and what came after its headers."""
    request = f"{line}\r\nHost: 10.0.2.100\r\n\r\n".encode()
    done = subprocess.run(["sh", str(trial / "server"), str(trial)], input=request, capture_output=True, check=True)
    headers, _, body = done.stdout.decode().partition("\r\n\r\n")
    length = int(headers.partition("Content-Length: ")[2].split()[0])
    assert body == "" or len(body) == length
    return headers.splitlines()[0], body


def test_a_file_of_the_mirror_is_fetched_once_and_kept(trial: Path) -> None:
    # An index is asked for again a day after it was fetched, however old it is.
    os.utime(trial.parent / "mirror" / "dists" / "Release", (0, 0))
    for _ in range(2):
        assert asked(trial, "GET /debian/dists/Release HTTP/1.1") == ("HTTP/1.0 200 OK", "Suite: strata\n")
        assert len((trial / "fetched").read_text().splitlines()) == 1
    assert (trial.parent / "kept" / "debian" / "dists" / "Release").stat().st_mtime > 86400
    (trial.parent / "mirror" / "dists" / "Release").unlink()
    assert asked(trial, "GET /debian/dists/Release HTTP/1.1")[0] == "HTTP/1.0 200 OK"
    assert asked(trial, "HEAD /debian/dists/Release HTTP/1.1") == ("HTTP/1.0 200 OK", "")


def test_what_the_mirror_has_not_is_not_found_and_not_kept(trial: Path) -> None:
    assert asked(trial, "GET /debian/pool/none.deb HTTP/1.1")[0] == "HTTP/1.0 404 Not Found"
    assert not [path for path in (trial.parent / "kept").rglob("*") if path.is_file()]
    assert (trial / "missing").read_text() == "/debian/pool/none.deb\n"


@pytest.mark.parametrize("path", ["/debian/../../kept", "/../mirror", "/debian/$(id)", "/debian/a|b"])
def test_nothing_else_is_reached(trial: Path, path: str) -> None:
    assert asked(trial, f"GET {path} HTTP/1.1")[0] == "HTTP/1.0 400 Bad Request"


def test_the_preseed_is_served_and_the_end_of_the_installation_is_noted(trial: Path) -> None:
    status, body = asked(trial, "GET /preseed.cfg HTTP/1.1")
    assert status == "HTTP/1.0 200 OK" and "partman-auto/disk" in body
    assert not (trial / "asked-installed").exists()
    assert asked(trial, "GET /installed HTTP/1.0")[0] == "HTTP/1.0 200 OK"
    assert (trial / "asked-installed").exists()


# Stands for QEMU: the installer shows $SAYS and waits, or asks for what the last of its steps asks for; then it boots.
QEMU = """\
#!/bin/sh
for word; do
  case $word in file:*/on-*) console=${word#file:} ;; esac
done
case $console in
  */on-booted) echo "strata login:" >"$console"; exec sleep 60 ;;
esac
if [ -n "$SAYS" ]; then printf %s "$SAYS" >"$console"; exec sleep 60; fi
: >"${console%/*}/asked-installed"
"""


def installed(trial: Path, says: str) -> subprocess.CompletedProcess[str]:
    """The measured command, with QEMU stood for."""
    tools = trial.parent / "tools"
    tools.mkdir()
    (tools / "qemu-system-x86_64").write_text(QEMU)
    (tools / "qemu-system-x86_64").chmod(0o755)
    image = trial.parent / "image"
    image.write_bytes(bytes(4096))
    for name, text in (("accel", "tcg\n"), ("on-installer", ""), ("on-booted", "")):
        (trial / name).write_text(text)
    plan = INSTALLER.plan(SPEC, Target(Kind.IMAGE, str(image), None), str(trial), 1)
    environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SAYS": says}
    return subprocess.run(plan.measure.argv, env=environ, capture_output=True, text=True, timeout=30)


def test_an_installation_ends_at_the_login_of_what_was_installed(trial: Path) -> None:
    done = installed(trial, "")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["install_s", "mirror_s", "accel", "boot_s"]


@pytest.mark.parametrize(
    "says", ["Prompt: '?' for help> ", "[Press enter to continue] ", "failing step is: Partition disks", "Kernel panic"]
)
def test_an_installer_that_waits_for_someone_is_not_waited_for(trial: Path, says: str) -> None:
    done = installed(trial, f"No disk drive was detected.\n{says}")
    assert done.returncode == 1
    assert "the installer failed; the end of its console:\nNo disk drive was detected.\n" in done.stderr


def test_an_installer_that_is_not_there_is_said_before_anything_is_built() -> None:
    (check,) = INSTALLER.checks(SPEC)
    done = subprocess.run([*check.argv[:-1], "/no/such/folder"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "install debian-installer-12-netboot-amd64" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_a_whole_installation_is_timed_and_boots(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("building stacks needs root")
    (check,) = INSTALLER.checks(SPEC)
    if (looked := subprocess.run(check.argv, capture_output=True, text=True)).returncode != 0:
        pytest.skip(looked.stderr.strip())
    stack = "disk | xfs | qcow2(prealloc=metadata, size=4G)"
    argv = [STRATA, "run", stack, "-w", TEXT, "--size", "disk=6G", "--rounds", "1"]
    done = subprocess.run([*argv, "--out", str(tmp_path / "run")], capture_output=True, text=True)
    (trial,) = reader.view(tmp_path / "run").trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["install_s"] > trial.metrics["boot_s"] > 0, done.stdout
    assert trial.metrics["disk.write_bytes"] > 1 << 29
