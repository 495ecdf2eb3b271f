"""`existing(/)` and `existing(/etc)`: a fresh directory is made and removed there, and nothing else is touched.

The machine's own root is never at risk: the command runs in a mount namespace of its own whose root is an overlay over
it, so that the upper directory holds exactly what was written, removed or renamed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

STRATA = str(Path(sys.executable).with_name("strata"))

# $1: a tmpfs of our own; the rest: the command. /dev, /proc and the directory of the tests are the machine's.
_INSIDE = """\
set -e
mount -t tmpfs strata-test "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" strata-test "$1/root"
for place in /proc /sys /dev "$2"; do mount --rbind "$place" "$1/root$place"; done
set +e
chroot "$1/root" "$@" 3>&- || status=$?
echo "status ${status-0}"
find "$1/upper" -mindepth 1 -printf '%y %P\\n'
"""


def on_an_overlay(tmp_path: Path, script: str) -> tuple[int, set[str]]:
    """Exit code of `script`, and what it changed: "f etc/x" is a file, "c etc/x" one that was removed."""
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    inside = _INSIDE.replace('"$@"', 'sh -c "$3"')
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            inside,
            "sh",
            place,
            tmp_path,
            script,
        ],
        capture_output=True,
        text=True,
        # Temporary files of its own, for Strata removes those that killed runs left among the machine's; and a key.
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(temporary),
            "STATE_DIRECTORY": str(temporary),
        },
    )
    assert "status " in done.stdout, done.stderr
    before, _, after = done.stdout.rpartition("status ")
    status, *lines = after.splitlines()
    print(before, done.stderr)
    own = str(tmp_path).lstrip("/")
    # A directory that was only passed through is copied up, empty; those down to the mounts were made for them.
    # The lock of the machine stays until it restarts.
    passing = (own, "run/strata/")
    return int(status), {line for line in lines if not line.startswith("d ") and not line[2:].startswith(passing)}


def run(directory: Path, loads: Sequence[str]) -> list[str]:
    argv = [STRATA, "run", "existing(/)", "existing(/etc)", "--rounds", "1", "--out", str(directory)]
    return argv + [word for load in loads for word in ("-w", load)]


@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_nothing_but_the_fresh_directory_is_touched(tmp_path: Path, ends: str) -> None:
    """What is written below / and /etc is gone again, and no file of theirs is changed, removed or renamed."""
    directory, script = tmp_path / "run", tmp_path / "load.sh"
    wait = "touch '%s/ready'; sleep 60" % tmp_path if ends == "killed" else "true"  # noqa: UP031 - braces are the shell's
    script.write_text(f'#!/bin/sh\nmkdir "$STRATA_TARGET/sub"; ln -s /etc/passwd "$STRATA_TARGET/link"; {wait}\n')
    script.chmod(0o755)
    argv = run(directory, [f"command:{script}", "fio/randrw-75-25(runtime=1s, size=4M)"])
    quoted = " ".join(f"'{word}'" for word in argv)
    if ends == "killed":
        # In a session of its own, killed with all that it started; then cleaned up.
        waiting = f"while [ ! -e '{tmp_path}/ready' ]; do sleep 0.1; done"
        quoted = f"setsid {quoted} & pid=$!; {waiting}; kill -9 -$pid; wait; '{STRATA}' clean '{directory}'"
    status, changed = on_an_overlay(tmp_path, quoted)
    assert status == 0
    assert changed == set()
    if ends == "by itself":
        view = reader.view(directory)
        assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 4, [trial.reason for trial in view.trials]
