"""What an engine left on btrfs goes: subvolumes in each other, read-only ones, and some with deceptive names."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.layers import drivers
from strata.model import Call, Kind, Place, Provides

pytestmark = pytest.mark.skipif(
    "btrfs" not in Path("/proc/filesystems").read_text().split() or shutil.which("mkfs.btrfs") is None,
    reason="this kernel has no btrfs (or its module is not loaded), or btrfs-progs is not installed",
)

SHAPES = {
    "none": "mkdir -p libpod/locks",
    "layers": """
        make layers/base && touch layers/base/file
        snapshot layers/base layers/one && snapshot -r layers/base layers/two
    """,
    "in-each-other": "make a && mkdir -p a/var/lib && make a/var/lib/b && make a/var/lib/b/c && make a/d",
    # A snapshot of a subvolume that holds another has an empty directory in its place.
    "snapshot-of-nested": "make a && make a/b && touch a/b/file && snapshot -r a s && snapshot a t",
    "nested-in-read-only": "make a && make a/b && make a/b/c && lock a/b/c && lock a/b && lock a",
    "writable-in-read-only": "make a && mkdir a/x && make a/x/b && make a/x/b/c && touch a/x/b/c/file && lock a",
    # As LXD makes them of a container that has subvolumes of its own.
    "snapshots-in-read-only-snapshots": """
        make a && mkdir a/x && make a/x/b && snapshot a s && rmdir s/x/b && snapshot -r a/x/b s/x/b && lock s
    """,
    "received": "make a && touch a/file && lock a && btrfs -q send a | btrfs -q receive layers",
    "names": r"""
        for name in "$(printf 'two\nlines')" ' blanks ' -rf -- '%s\' "quo'\"te" '$(touch /precious)' "$(printf 'b\351')"
        do make "./$name" && lock "./$name"; done
    """,
    "many": "for name in $(seq 60); do make layers/$name; done",
}

_FUNCTIONS = r"""
set -e
make() { btrfs -q subvolume create -- "$1"; }
snapshot() { btrfs -q subvolume snapshot "$@"; }
lock() { btrfs property set -f -ts "$1" ro true; }
cd "$1" && mkdir layers
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "stack"
    point.mkdir()
    with (tmp_path / "image").open("wb") as image:
        image.truncate(256 << 20)
    run("mkfs.btrfs", "-q", tmp_path / "image")
    run("mount", "-o", "loop", tmp_path / "image", point)
    yield point
    run("umount", point)


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def undo(mount: Path) -> tuple[tuple[str, ...], Path]:
    """What removes the engine's directory, and that directory, made beside a subvolume of the user's."""
    place = Place("strata-btrfs-1", str(mount.parent / "place"), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
    driver, root = drivers()["podman"], mount / "podman"
    values = {param.name: param.default for param in driver.info.params} | {"driver": "btrfs"}
    below = [Provides(Kind.DIRECTORY, str(mount), 1 << 30, filesystem="btrfs")]
    planned = driver.plan_create(Call("podman", "podman", values), below, place)
    step = next(step for step in planned if step.why == "make a directory for podman")
    assert step.undo is not None
    for path in (root, Path(place.dir)):
        path.mkdir()
    run("btrfs", "-q", "subvolume", "create", mount / "precious")
    return step.undo.argv, root


def subvolumes(mount: Path) -> list[str]:
    return run("btrfs", "subvolume", "list", mount).splitlines()


@pytest.mark.parametrize("shape", SHAPES)
def test_all_of_it_goes_and_nothing_else(shape: str, mount: Path) -> None:
    argv, root = undo(mount)
    (root / "link").symlink_to(mount / "precious")
    run("sh", "-c", _FUNCTIONS + SHAPES[shape], "sh", root)
    for _ in range(2):  # the second time after a kill -9 between the removal and its entry in the journal
        run(*argv)
        assert not root.exists()
        (left,) = subvolumes(mount)
        assert left.endswith(" precious")


def test_no_subvolume_goes_whose_path_the_user_hides_in_a_name(mount: Path) -> None:
    argv, root = undo(mount)
    hidden = Path(f"{root}/a\n{mount}/precious")
    hidden.parent.mkdir(parents=True)
    for path in (root / "a", hidden):  # the first line of that path, without which the undo would stop there
        run("btrfs", "-q", "subvolume", "create", path)
    run(*argv)
    assert (mount / "precious").is_dir() and not root.exists()
