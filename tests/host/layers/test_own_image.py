"""A guest from an image of the user's own: QEMU takes what it is given, ssh is asked, the image stays as it was.

No such image is at hand, so the guest never answers, and a stand-in for ssh shows what would reach it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from strata.layers import drivers
from strata.model import Call, Completed, GuestImage, Kind, Place, Provides, Value

pytestmark = [pytest.mark.host, pytest.mark.timeout(180)]


def asked(**values: Value) -> Call:
    defaults = {param.name: param.default for param in drivers()["vm"].info.params}
    return Call("vm", "vm", {**defaults, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"os": "windows", "bus": "sata", "cache": "writeback"},
        {"os": "linux", "bus": "virtio-scsi", "iothread": True, "write_iops": 100, "user": "me"},
        {"os": "linux", "bus": "nvme", "machine": "pc"},
    ],
    ids=lambda values: str(values["bus"]),
)
def test_it_starts_and_ends_and_the_image_is_as_it_was(tmp_path: Path, values: Mapping[str, Value]) -> None:
    if missing := [tool for tool in ("qemu-system-x86_64", "qemu-img") if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    image, disk = tmp_path / "own.qcow2", tmp_path / "disk.raw"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(image), "64M"], check=True)
    disk.write_bytes(b"\0" * (8 << 20))
    key = tmp_path / "key"
    key.write_text("no key that anything would take\n")
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    place = Place("strata-own-1", str(tmp_path / "place"), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90", GuestImage("/none"))
    Path(place.dir).mkdir()
    spec = asked(**values, image=str(image), key=str(key))
    below = [Provides(Kind.IMAGE, str(disk), 8 << 20, name="raw")]
    overlay, start, wait = drivers()["vm"].plan_create(spec, below, place)
    shown = drivers()["vm"].plan_inspect(spec, below, place)[0]
    assert start.undo is not None
    try:
        subprocess.run(overlay.do.argv, check=True)
        subprocess.run(start.do.argv, check=True)
        done = subprocess.run(shown.argv, capture_output=True, text=True)
        looked = Completed(shown.argv, done.returncode, done.stdout, done.stderr, 0.0)
        assert drivers()["vm"].differences(spec, below, place, [looked]) == [], looked.stdout
        otherwise = asked(**{**values, "memory": 384 << 20}, image=str(image), key=str(key))
        assert len(drivers()["vm"].differences(otherwise, below, place, [looked])) == 1
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(wait.do.argv, timeout=3, capture_output=True)
    finally:
        subprocess.run(start.undo.argv, check=True)
    gone = subprocess.run(shown.argv, capture_output=True, text=True)
    assert gone.returncode != 0
    # what waited for it ends with its reason
    ended = subprocess.run(wait.do.argv, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1 and "ended before it answered by ssh" in ended.stderr
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    subprocess.run(start.undo.argv, check=True)


def test_a_command_reaches_the_guest_s_shell_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("20123\n")
    (tmp_path / "ssh").write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done\n')
    (tmp_path / "ssh").chmod(0o755)
    call = asked(image="/win.qcow2", os="windows", key="/root/key")
    below = Provides(Kind.BLOCK, "/device", 1 << 30)
    inside = drivers()["vm"].provides(call, [below], Place("name", str(tmp_path), "0" * 32)).inside
    argv = [*inside, "fio", r"--filename=\\.\PhysicalDrive1", "--thread"]
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(argv, env=path, capture_output=True, text=True, check=True).stdout.splitlines()
    # the last word is what the shell there reads
    assert said[-1] == r"fio --filename=\\.\PhysicalDrive1 --thread"
    assert said[-2] == "Administrator@127.0.0.1" and said[said.index("-p") + 1] == "20123"
    assert said[said.index("-i") + 1] == "/root/key"
