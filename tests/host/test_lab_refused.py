"""A lab machine that cannot be: refused in a sentence before anything of the lab is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import Refused
from strata.lab import emulator, machine, qemu
from strata.lab.image import Image
from strata.lab.qemu import MachineSpec
from strata.lab.spec import LabSpec

NOWHERE = Path("/nowhere")
IMAGE = Image(
    spec=LabSpec(),
    directory=NOWHERE,
    root=NOWHERE,
    modules=NOWHERE,
    kernel=NOWHERE,
    kernel_version="6.12.1",
    boot=NOWHERE,
    key_file=NOWHERE,
    host_key_file=NOWHERE,
    host_key="ssh-ed25519 AAAA",
    packages={},
    hash="abc",
)
MARKER = "test-lab-refused"


def program(folder: Path, says: str | None) -> None:
    """In place of QEMU: a program that says this of itself; None: there is none."""
    if says is not None:
        path = folder / qemu.PROGRAM
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (None, ("no qemu-system-x86_64 here", "install the package qemu-system-x86")),
        ("QEMU emulator version 7.2.11 (Debian 1:7.2+dfsg-7)", ("7.2 is too old", "bookworm-backports")),
        ("a wrapper of mine", ("'a wrapper of mine'", "PATH")),
        ("", ("is no QEMU", "PATH")),
    ],
)
def test_a_qemu_that_will_not_do(
    says: str | None, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, says)
    monkeypatch.setenv("PATH", str(tmp_path) if says is None else f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Refused) as refused:
        machine.saved(MachineSpec(IMAGE, NOWHERE), MARKER, print)
    for word in words:
        assert word in str(refused.value)


def test_more_memory_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "QEMU emulator version 10.0.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    spec = MachineSpec(IMAGE, NOWHERE, memory_bytes=2 * emulator.available_memory())
    with pytest.raises(Refused, match="give it less, or end what uses the memory"):
        machine.saved(spec, MARKER, print)
