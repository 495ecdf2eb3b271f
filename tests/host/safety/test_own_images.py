"""An image from a stranger names files of this machine: QEMU, which runs as root, would show them to the guest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.layers import drivers
from strata.model import Call, Kind, Place, Provides

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed"),
]

SECRET = b"root:$y$j9T$a-secret-of-this-machine:19000::::::\n"


def qemu_img(*words: str | Path) -> None:
    subprocess.run(["qemu-img", *map(str, words)], check=True, capture_output=True)


def taken(tmp_path: Path, image: Path) -> subprocess.CompletedProcess[str]:
    """What a visit does with the image before QEMU starts; its layer is then at `overlay`."""
    key, place = (
        tmp_path / "key",
        Place("strata-own-1", str(tmp_path / "place"), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90"),
    )
    key.touch()
    Path(place.dir).mkdir(exist_ok=True)
    defaults = {param.name: param.default for param in drivers()["vm"].info.params}
    spec = Call("vm", "vm", {**defaults, "image": str(image), "key": str(key)})
    below = [Provides(Kind.IMAGE, str(tmp_path / "disk.raw"), 8 << 20, name="raw")]
    make = drivers()["vm"].plan_create(spec, below, place)[0].do
    return subprocess.run(make.argv, capture_output=True, text=True)


def shown(tmp_path: Path) -> bytes:
    """What the guest would read on its system's disk."""
    (overlay,) = (tmp_path / "place").iterdir()
    qemu_img("convert", "-f", "qcow2", "-O", "raw", overlay, tmp_path / "shown.raw")
    return (tmp_path / "shown.raw").read_bytes()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "shadow"
    path.write_bytes(SECRET.ljust(65536, b"\n"))
    return path


def data_file(image: Path, secret: Path) -> None:
    shutil.copy(secret, image.with_name("copy"))
    qemu_img("create", "-f", "qcow2", "-o", f"data_file={image.with_name('copy')},data_file_raw=on", image, "64k")


IMAGES = {
    "qcow2 over a file": lambda image, secret: qemu_img("create", "-f", "qcow2", "-b", secret, "-F", "raw", image),
    "qcow2 over json": lambda image, secret: qemu_img(
        *("create", "-u", "-f", "qcow2", "-F", "raw", "-b"),
        f'json:{{"driver":"raw","file":{{"driver":"file","filename":"{secret}"}}}}',
        *(image, "64k"),
    ),
    "qcow2 with its data elsewhere": data_file,
    "qed": lambda image, secret: qemu_img("create", "-f", "qed", "-b", secret, "-F", "raw", image),
    "vmdk": lambda image, secret: image.write_text(
        '# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType="monolithicFlat"\n'
        f'RW 128 FLAT "{secret}" 0\nddb.adapterType = "ide"\n'
    ),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_that_names_a_file_of_this_machine_is_refused(tmp_path: Path, secret: Path, kind: str) -> None:
    image = tmp_path / "image.img"
    IMAGES[kind](image, secret)
    done = taken(tmp_path, image)
    if done.returncode == 0:
        assert SECRET in shown(tmp_path), "the attack itself does not work"
    assert done.returncode == 1, "the guest can read the file"
    assert str(image) in done.stderr and "qemu-img convert -O qcow2" in done.stderr
    assert not list((tmp_path / "place").iterdir())


@pytest.mark.parametrize("how", ["of another user", "writable by all", "of a group", "in his directory", "by his link"])
def test_an_image_that_another_user_can_exchange_is_refused(tmp_path: Path, how: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    image = tmp_path / "image.img" if how != "in his directory" else theirs / "image.img"
    image.write_bytes(bytes(1 << 16))
    named = image
    match how:
        case "of another user":
            os.chown(image, 65534, 65534)
        case "writable by all":
            image.chmod(0o666)
        case "of a group":
            os.chown(image, 0, 50)
            image.chmod(0o664)
        case "in his directory":
            os.chown(theirs, 65534, 65534)
        case _:
            named = theirs / "link"
            named.symlink_to(image)
            os.chown(named, 65534, 65534, follow_symlinks=False)
    done = taken(tmp_path, named)
    assert done.returncode == 1 and "can be exchanged by another user" in done.stderr, done.stderr
    assert not list((tmp_path / "place").iterdir())


@pytest.mark.parametrize("form", ["raw", "qcow2", "qcow2 of old", "vdi", "vhdx", "vpc"])
def test_an_image_by_itself_is_taken_whatever_its_name(tmp_path: Path, form: str) -> None:
    content = b"a system\n".ljust(8 << 20, b"\0")
    (tmp_path / "system.raw").write_bytes(content)
    image = tmp_path / "system.img"
    old = ("-o", "compat=0.10") if form == "qcow2 of old" else ()
    qemu_img("convert", "-f", "raw", "-O", form.split()[0], *old, tmp_path / "system.raw", image)
    done = taken(tmp_path, image)
    assert done.returncode == 0, done.stderr
    assert shown(tmp_path)[: len(content)] == content
