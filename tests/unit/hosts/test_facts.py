"""What a machine said of itself, read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata.hosts import facts

SAID = """@hostname
box
@kernel
6.12.107+deb13-amd64
@os
Debian GNU/Linux 13 (trixie)
@cpu_model
Some CPU
@cpus
4
@memory_kb
2048
@uid
0
@machine_id
abc
@free
 4096
@filesystems
ext4
nfs
xfs
@schedulers
[none] mq-deadline
none [bfq]
@cgroups
1:blkio
2:hugetlb
@id_maps
subuid
@without
xfs quotas
@tool fio
fio-3.39
@tool mkfs.xfs
mkfs.xfs version 6.13.0
@tool quiet
"""


def test_known_answer() -> None:
    found = facts.parse(SAID)
    assert (found.hostname, found.kernel, found.kernel_text) == ("box", (6, 12, 107), "6.12.107+deb13-amd64")
    assert (found.cpus, found.memory_bytes, found.root, found.free_bytes) == (4, 2048 * 1024, True, 4096)
    assert found.filesystems == {"ext4", "nfs", "xfs"}
    assert found.schedulers == {"none", "mq-deadline", "bfq"}
    assert found.tools == {"fio": "fio-3.39", "mkfs.xfs": "mkfs.xfs version 6.13.0", "quiet": "present"}
    assert (found.cgroups, found.id_maps) == ({"1:blkio", "2:hugetlb"}, {"subuid"})
    assert found.without == {"xfs quotas"}


def test_io_uring_is_off_where_the_kernel_says_so() -> None:
    assert facts.parse("@io_uring_disabled\n@without\n").io_uring_disabled == ""
    assert facts.parse("@io_uring_disabled\n2\n@without\n").io_uring_disabled == "2"


def test_ticks_are_known_only_where_the_machine_tells() -> None:
    assert facts.parse("@ticks_per_s\n250\n@without\n").ticks_per_s == 250
    assert facts.parse("@ticks_per_s\n@without\n").ticks_per_s is None


def test_kernels_with_short_versions() -> None:
    assert facts.parse("@kernel\n6.1-rc3\n").kernel == (6, 1, 3)
    assert facts.parse("@kernel\n7\n").kernel == (7, 0, 0)
    assert facts.parse("").kernel == (0, 0, 0)


def test_the_question_names_each_tool_once_with_how_it_tells_its_version() -> None:
    argv = facts.command(["fio", "mkfs.xfs", "fio", "sh"], "/srv").argv
    assert argv[4:] == ("/srv", "fio=--version", "mkfs.xfs=-V", "sh=")


@given(st.from_regex(r"(@[a-z_]+( [a-z.]+)?\n|[ -~]*\n){0,10}", fullmatch=True))
def test_odd_machines_are_read(said: str) -> None:
    assert facts.parse(said).memory_bytes >= 0
