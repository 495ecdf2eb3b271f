"""What a workload asks of an engine, and which engine has it not: said in the plan."""

from __future__ import annotations

import pytest

from strata import campaign as campaigns
from strata import layers, workloads
from strata.model import Facts
from strata.planning import skip_reasons


def reasons(stack: str, load: str, *tools: str, **versions: str) -> list[str]:
    asked = campaigns.from_expressions(
        [stack], [load], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=lambda name: ""
    )
    loads = [(call, workloads.find(call)) for call in asked.workloads]
    facts = Facts(
        hostname="h",
        kernel=(6, 1, 0),
        kernel_text="6.1.0",
        os="Debian 12",
        cpu_model="cpu",
        cpus=2,
        memory_bytes=1 << 30,
        root=True,
        filesystems=frozenset(),
        tools=dict.fromkeys(tools, "1") | versions,
        schedulers=frozenset(),
        free_bytes=1 << 30,
    )
    return skip_reasons.of_asked(asked.stacks[0], loads, layers.drivers(), facts)


@pytest.mark.parametrize(
    ("stack", "load", "words"),
    [
        ("disk | ext4 | podman", "instance/copy", "keeps containers of images and no instances"),
        ("disk | ext4 | containerd", "instance/export", "no instances"),
        ("disk | ext4 | lxc", "instance/publish", "measure it with incus or lxd"),
        ("disk | ext4 | lxc", "container/build", "builds no images"),
        ("disk | btrfs | incus(btrfs)", "container/build", "measure building with podman or docker"),
        ("disk | ext4 | containerd", "container/build", "takes buildah; install the Debian package buildah"),
        ("disk | ext4 | podman(user=ann)", "container/neighbours(2, bps=1M)", "a user's own Podman may not limit I/O"),
        ("disk | ext4 | podman(user=ann)", "container/neighbours(2, iops=9)", "leave out the limit, or user="),
    ],
)
def test_an_engine_that_cannot_is_told_of(stack: str, load: str, words: str) -> None:
    (reason,) = reasons(stack, load)
    assert words in reason


@pytest.mark.parametrize(
    ("stack", "load"),
    [
        ("disk | ext4 | podman", "container/build"),
        ("disk | ext4 | podman", "container/neighbours(2, bps=1M)"),
        ("disk | ext4 | podman(user=ann)", "container/neighbours(2)"),
        ("disk | ext4 | containerd", "container/build"),
        ("disk | ext4 | lxc", "instance/restore"),
        ("disk | ext4 | lxd", "instance/publish"),
        ("disk | ext4 | containerd", "container/lifecycle"),
        ("disk | ext4", "null"),
    ],
)
def test_one_that_can_is_not(stack: str, load: str) -> None:
    assert reasons(stack, load, "buildah") == []


@pytest.mark.parametrize(
    ("version", "drops"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", False),
        ("Docker version 24.0.9, build 2936816", False),
        ("Docker version 25.0.0, build e758fe5", True),
        ("Docker version 25.0.7, build 0", False),
        ("Docker version 26.1.5+dfsg1, build a72d7cd", True),
        ("Docker version 27.1.1, build 6312585", True),
        ("Docker version 27.1.2, build d01f264", False),
        ("Docker version 28.2.2, build 0", False),
        ("", False),
    ],
)
def test_versions_of_docker_that_drop_limits_are_told_of(version: str, drops: bool) -> None:
    for stack, load in (
        ("disk | ext4 | docker | container(write_bps=1M)", "fio/randwrite-4k-qd32"),
        ("disk | ext4 | docker", "container/neighbours(2, bps=1M)"),
    ):
        found = reasons(stack, load, docker=version)
        assert len(found) == drops
        assert all("takes limits and drops them" in reason for reason in found)
    assert not reasons("disk | ext4 | docker", "container/neighbours(2)", docker=version)
