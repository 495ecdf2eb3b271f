"""The lab for somebody who is not root: built in a user namespace, and a campaign run in it.

The user exists in a mount namespace of the test alone, where /etc/passwd and the ranges of user ids are files of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

import strata
from strata.hosts.local import engine_path
from strata.model import Outcome
from strata.store import reader

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

UID = 4242
INTERPRETER = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"

# $1 folder with files in place of those in /etc, $2 user, $3 its home, $4 PATH, $5 PYTHONPATH, then a command.
BECOME = """\
for file in passwd group subuid subgid; do mount --bind "$1/$file" "/etc/$file" || exit 1; done
user=$2 home=$3 path=$4 modules=$5; shift 5; cd "$home"
exec setpriv --reuid "$user" --regid "$user" --clear-groups \\
  env -i HOME="$home" PATH="$path" PYTHONPATH="$modules" "$@\""""


@pytest.fixture
def ordinary() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs a command as a user without rights, in a home of its own."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user runs all of tests/lab as one; this test becomes one from root")
    if not Path(INTERPRETER).exists():
        pytest.skip(f"this Python may lie where others cannot read, and there is no {INTERPRETER} of the same version")
    folder = Path(mkdtemp(prefix="strata-ordinary-", dir="/tmp"))  # pytest's own are closed to others
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    for name, line in {"passwd": f"tester:x:{UID}:{UID}::{home}:/bin/sh", "group": f"tester:x:{UID}:"}.items():
        (folder / name).write_text(Path("/etc", name).read_text() + line + "\n")
    for name in ("subuid", "subgid"):
        (folder / name).write_text("tester:700000:65536\n")
    # The interpreter, the packages and the engine may all lie in a home that is closed to others.
    source = Path(strata.__file__).parents[1]
    shutil.copytree(source, folder / "python", ignore=shutil.ignore_patterns("__pycache__"))
    packages = Path(pytest.__file__).parents[1]
    shutil.copytree(packages, folder / "packages", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()
    shutil.copy(engine_path(), folder / "bin" / "strata-engine")
    command = folder / "bin" / "strata"
    command.write_text(f"#!{INTERPRETER}\nfrom strata.cli import main\nmain()\n")
    command.chmod(0o755)
    subprocess.run(["chmod", "-R", "a+rX", folder / "python", folder / "packages", folder / "bin"], check=True)
    path, modules = f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"{folder}/python:{folder}/packages"

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        become = ["unshare", "--mount", "--propagation", "private", "sh", "-c", BECOME, "sh", str(folder), str(UID)]
        return subprocess.run(
            [*become, str(home), path, modules, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    yield run
    shutil.rmtree(folder)


def test_builds_the_lab_and_runs_a_campaign_in_it(ordinary: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert ordinary("id", "-u").stdout.strip() == str(UID)
    built = ordinary("strata", "lab", "build")
    assert built.returncode == 0, built.stderr
    done = ordinary(
        *("strata", "run", "--on", "lab", "2*disk | md(raid1) | ext4", "--rounds", "1", "--out", "run"),
        *("-w", "fio/randread-4k-qd32(runtime=2s, size=32M)"),
    )
    assert done.returncode == 0, done.stderr
    home = Path(ordinary("pwd").stdout.strip())
    (trial,) = reader.view(home / "run").trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert trial.metrics["iops"] > 0
    assert (home / "run").stat().st_uid == UID
    left = [path for path in Path("/tmp").glob("strata-*") if path.stat().st_uid == UID]
    assert not left, "what the build unpacked is removed"


def test_is_told_what_is_missing_without_ids_of_its_own(
    ordinary: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    folder = Path(ordinary("pwd").stdout.strip()).parent
    for name in ("subuid", "subgid"):
        (folder / name).write_text("")
    built = ordinary("strata", "lab", "build")
    assert built.returncode not in (0, 1), built.stdout
    assert "/etc/subuid" in built.stderr and "as root" in built.stderr, built.stderr
    assert "Traceback" not in built.stderr
