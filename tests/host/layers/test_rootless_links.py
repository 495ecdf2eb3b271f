"""podman(user=...) against that user: links that the user puts where root is about to work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from strata.layers import drivers
from strata.model import Call, Kind, Place, Provides, Step

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to a user")]

USER, UID = "nobody", 65534
NAME = f"strata-links-{os.getpid()}"

# Stands in for a program that makes or gives away several files: does so one by one. After each the user puts a link
# to $VICTIM at $LINK, if permissions allow it.
_ONE_BY_ONE = r"""#!/bin/sh
PATH=${PATH#*:}
words=
while [ $# -gt 0 ]; do
  case $1 in
    --owner|--mode|-m) words="$words $1 $2"; shift 2 ;;
    --) shift; break ;;
    -*) words="$words $1"; shift ;;
    *) break ;;
  esac
done
case ${0##*/}:$words in
  chown:*) words="$words $1"; shift ;;
esac
for each; do
  ${0##*/} $words -- "$each" || exit 1
  become="setpriv --reuid 65534 --clear-groups --"
  [ "$(id -u)" = 0 ] || become=
  $become sh -c 'rmdir "$LINK"; ln -s "$VICTIM" "$LINK"' 2>/dev/null
done
exit 0
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with ExitStack() as stack:
        made = Path(stack.enter_context(TemporaryDirectory(prefix="strata-links-", dir="/tmp")))
        made.chmod(0o755)  # pytest's own are closed to others
        yield made


def steps(folder: Path) -> tuple[list[Step], Path]:
    driver, place = drivers()["podman"], Place(NAME, str(folder / "place"), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
    values = {param.name: param.default for param in driver.info.params} | {"user": USER}
    below = [Provides(Kind.DIRECTORY, str(folder / "stack"), 1 << 30)]
    return driver.plan_create(Call("podman", "podman", values), below, place), folder / "stack/podman"


def configure(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the step that writes the configuration, without the link in /run."""
    planned, storage = steps(folder)
    step = next(step for step in planned if step.why == "write the configuration of this podman")
    for path in (folder / "place", storage):
        path.mkdir(parents=True)
    argv = [str(folder / "place") if word == f"/run/{NAME}" else word for word in step.do.argv]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)


def test_directories_are_made_for_the_user(folder: Path) -> None:
    done = configure(folder, dict(os.environ))
    assert done.returncode == 0, done.stderr
    own, storage = folder / "place/own", folder / "stack/podman"
    owned = {path: path.stat().st_uid for path in (own, own / "home", own / "run", storage, storage / "copies")}
    assert owned == dict.fromkeys(owned, UID)
    assert {path.stat().st_mode & 0o777 for path in (own, own / "home", own / "run")} == {0o700}
    assert (folder / "place").stat().st_uid == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("place/own/home", "directory"), ("place/own/run", "directory"), ("stack/podman/copies", "file")]
)
def test_a_link_that_the_user_plants_between_two_commands_gives_nothing_away(
    folder: Path, name: str, kind: str
) -> None:
    precious, link, stubs = folder / "precious", folder / name, folder / "bin"
    if kind == "directory":
        precious.mkdir(mode=0o711)
    else:
        precious.touch(mode=0o600)
    before = precious.stat()
    stubs.mkdir()
    for program in ("install", "chown", "mkdir"):
        (stubs / program).write_text(_ONE_BY_ONE)
        (stubs / program).chmod(0o755)
    path = f"{stubs}:{os.environ['PATH']}"
    configure(folder, {**os.environ, "PATH": path, "LINK": str(link), "VICTIM": str(precious)})
    assert link.is_symlink(), "no link was planted, so nothing was attacked"
    after = precious.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


# $1 folder, $2 and $3 the place and the directory on the stack, then the undo. In a mount namespace of its own, with a
# /run of its own. What the user can make, or have made by fusermount, is made by root here.
_LEFT_BY_THE_USER = r"""
folder=$1 place=$2 storage=$3; shift 3
end='
'
mount -t tmpfs none /run && mkdir -p /run/containerd/s /run/runc/other "$folder/precious" &&
  mount -t tmpfs none "$folder/precious" && echo kept >"$folder/precious/file" || exit 90
echo nobody >"$place/user"
task="$place/own/io.containerd.runtime.v2.task/x"
mkdir -p "$task" "$storage/overlay-containers/other" "$storage/a$end$folder/precious" "$storage/b 1%s\\" || exit 91
echo "unix:///run/containerd/s/../../..$folder/precious/file" >"$task/address"
mount --bind "$storage/overlay-containers" "$storage/a$end$folder/precious" || exit 92
mount --bind "$storage/overlay-containers" "$storage/b 1%s\\" || exit 93
"$@" || exit 94
cat "$folder/precious/file" && ls /run/runc && ! grep -F "$storage" /proc/self/mountinfo && [ ! -e "$storage" ]
"""


def undo(folder: Path) -> tuple[tuple[str, ...], Path]:
    planned, storage = steps(folder)
    for path in (folder / "place", storage):
        path.mkdir(parents=True)
    step = next(step for step in planned if step.why == "make a directory for podman")
    assert step.undo is not None
    return tuple(step.undo.argv), storage


def test_the_undo_ends_nothing_that_the_user_only_names(folder: Path) -> None:
    argv, storage = undo(folder)
    apart = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _LEFT_BY_THE_USER, "sh")
    done = subprocess.run(
        (*apart, folder, folder / "place", storage, *argv), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "kept\nother\n"), done.stderr
