"""What a machine says of a directory of the user's."""

from __future__ import annotations

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers
from strata.errors import CommandTimedOut
from strata.model import Command, Completed
from strata.run import directories
from strata.run.directories import Directory


def test_what_it_lies_on_and_its_room() -> None:
    said = "free=  1048576\nfilesystem=btrfs\ndevice=/dev/sda\ndevice=/dev/sdb\n"
    assert directories.read("/srv", said) == Directory((), 1048576, "btrfs", ("/dev/sda", "/dev/sdb"))


def test_what_the_machine_does_not_say_is_not_known() -> None:
    assert directories.read("/srv", "free=-\nfilesystem=\n") == Directory()
    assert directories.read("/srv", "") == Directory()


def test_a_directory_that_is_missing_or_closed_has_a_reason() -> None:
    assert "/srv" in directories.read("/srv", "missing=yes\n").reasons[0]
    closed = directories.read("/srv", "closed=yes\nfree=5\nfilesystem=ext4\n")
    assert "cannot write" in closed.reasons[0] and closed.free_bytes == 5


def test_a_machine_that_hangs_on_it_is_a_reason_and_not_a_crash() -> None:
    class Hanging(FakeHost):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            raise CommandTimedOut(command.argv, None, "", "", "did not end within 30 s and was stopped")

    assert "did not end" in directories.look(Hanging(), "/net/share").reasons[0]


def test_the_directory_that_a_stack_stands_on() -> None:
    own, built = campaigns.parse_stacks("{existing(/srv) | dir(a), disk | ext4}", layers.catalogue())
    assert directories.of(own) == "/srv"
    assert directories.of(built) is None
    text = "(existing(/a) | raw(size=1G) | qsd) + (existing(/b) | raw(size=1G) | qsd) | md(raid1) | ext4"
    (joined,) = campaigns.parse_stacks(text, layers.catalogue())
    assert directories.all_of(joined) == ["/a", "/b"]


@pytest.mark.parametrize("filesystem", ["proc", "sysfs", "cgroup2", "configfs", "tracefs", "devtmpfs", "autofs"])
def test_a_file_system_that_the_kernel_makes_up_is_refused(filesystem: str) -> None:
    (reason,) = directories.read("/x", f"free=5\nfilesystem={filesystem}\nmounted=/x\n").reasons
    assert f"lies on {filesystem}" in reason and reason.endswith("name a directory on a disk.")


def test_the_memory_of_services_is_refused_and_other_memory_is_not() -> None:
    (reason,) = directories.read("/var/run/x", "free=5\nfilesystem=tmpfs\nmounted=/run\n").reasons
    assert "keep their sockets and state" in reason
    for mounted in ("/dev/shm", "/run/user/1000", "/run/media/stick", "/"):
        assert directories.read("/x", f"free=5\nfilesystem=tmpfs\nmounted={mounted}\n").reasons == ()


def reasons(way: str, trusted: str = "0 0 ") -> tuple[str, ...]:
    return directories.read("/srv", f"trusted={trusted}\nway={way}\nway=0 0 41ed /\nfree=5\n").reasons


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("65534 65534 41ed /srv", "existing(/srv) is a directory that belongs to user 65534"),
        ("1000 1000 41ed /home", "is reached by /home, which belongs to user 1000"),
        ("1000 1000 a1ff /link", "is reached by /link, which belongs to user 1000"),
        ("0 0 41ff /srv", "is writable by every user (mode 0777)"),
        ("0 50 41fd /srv", "is writable by a group (mode 0775)"),
        ("0 0. 41fd /srv", "is writable by a group (mode 0775)"),
        ("stat said nothing", "cannot be looked at"),
    ],
)
def test_a_directory_in_which_another_user_can_put_links_is_refused(way: str, why: str) -> None:
    (reason,) = reasons(way)
    assert why in reason


@pytest.mark.parametrize("way", ["0 0 43ff /tmp", "0 0 41fd /srv", "0 0 a1ff /link", "0 50 43fd /srv"])
def test_a_directory_in_which_nobody_else_can_replace_entries_is_taken(way: str) -> None:
    assert reasons(way) == ()


def test_an_ordinary_user_takes_directories_of_his_own() -> None:
    assert reasons("1000 1000 41fd /home/me", "0 1000 ") == ()
    assert reasons("1000 1000 41ed /home/me", "0 0 1000") == (), "by sudo"
    assert reasons("1001 1001 41ed /home/me", "0 1000 ")
    assert reasons("65534 65534 43ff /tmp", "0 0 \ntrusted=65534") == (), "root's, seen from a user namespace"
