"""A machine on which other people's things lie beside ours, and must still lie there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Foreign:
    """Somebody else's mounted loop device, and a file in it."""

    image: Path
    loop: str
    mount: Path

    def intact(self) -> bool:
        backing = Path(f"/sys/block/{Path(self.loop).name}/loop/backing_file")
        return (
            backing.exists()
            and backing.read_text().strip() == str(self.image)
            and os.path.ismount(self.mount)
            and (self.mount / "precious").read_text() == "precious"
        )


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Foreign]:
    image, mount = tmp_path / "foreign.img", tmp_path / "foreign"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    loop = output("losetup", "--find", "--show", str(image))
    try:
        output("mkfs.ext4", "-q", loop)
        output("mount", loop, str(mount))
        (mount / "precious").write_text("precious")
        try:
            yield Foreign(image, loop, mount)
        finally:
            output("umount", str(mount))
    finally:
        output("losetup", "--detach", loop)


@pytest.fixture(autouse=True)
def cleaned(tmp_path: Path) -> Iterator[None]:
    """A test that fails in the middle leaves nothing on the machine either."""
    yield
    for database in tmp_path.glob("**/strata.db"):
        strata = Path(sys.executable).with_name("strata")
        subprocess.run([strata, "clean", database.parent], check=False, capture_output=True)


@pytest.fixture(autouse=True)
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("fault tests build real stacks on loop devices: run them as root")
