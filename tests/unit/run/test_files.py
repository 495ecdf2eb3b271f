"""Which files arguments of layers name, and what a machine says of them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers
from strata.errors import CommandTimedOut
from strata.model import Command, Completed, Stack
from strata.run import files

OWN = "disk | vm(image=/a.qcow2, key=/k)"


def stacks(text: str) -> Sequence[Stack]:
    return campaigns.parse_stacks(text, layers.catalogue())


def test_the_files_that_a_stack_names() -> None:
    (own,) = stacks("disk | vm(image=/a.qcow2, key=k)")
    assert [(call.name, name, path) for call, name, path in files.named(own, layers.drivers())] == [
        ("vm", "image", "/a.qcow2")  # a relative path is the driver's to refuse
    ]


def test_the_machine_is_asked_of_each_once_and_not_at_all_without_any() -> None:
    host = FakeHost(respond=lambda command: "/k\n")
    assert files.unreadable(host, [*stacks(OWN), *stacks(f"{OWN} | warm(1)")], layers.drivers()) == {"/k"}
    (asked,) = host.commands
    assert asked.argv[-2:] == ("/a.qcow2", "/k")
    assert not files.unreadable(host, stacks("disk | ext4"), layers.drivers()) and len(host.commands) == 1


def test_what_a_machine_hangs_on_it_cannot_read() -> None:
    class Hanging(FakeHost):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            raise CommandTimedOut(command.argv, None, "", "", "did not end within 30 s and was stopped")

    assert files.unreadable(Hanging(), stacks(OWN), layers.drivers()) == {"/a.qcow2", "/k"}
