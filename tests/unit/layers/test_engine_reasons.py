"""What an engine says where it is missing, too old or refuses its driver, and of control groups and ids of users."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.layers import drivers
from strata.model import Facts, Value

from .layer_cases import captured, facts, spec

V1 = frozenset({"1:blkio", "1:memory", "1:devices", "1:pids"})


def reasons(layer: str, machine: Facts, **values: Value) -> str:
    return " ".join(drivers()[layer].reasons_not_to_run(spec(layer, dict(values)), machine))


def with_tool(name: str, version: str | None, **more: object) -> Facts:
    machine = facts()
    tools = {tool: text for tool, text in machine.tools.items() if tool != name}
    return replace(machine, tools=tools | ({name: version} if version else {}), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "program", "package"),
    [("podman", "podman", "podman"), ("docker", "dockerd", "docker.io"), ("containerd", "ctr", "containerd"),
     ("lxd", "lxd", "lxd"), ("incus", "incus", "incus")],
)  # fmt: skip
def test_one_that_is_missing_names_its_package(layer: str, program: str, package: str) -> None:
    assert f"The program {program} is not installed; install the Debian package {package}" in reasons(
        layer, with_tool(program, None)
    )


@pytest.mark.parametrize(
    ("layer", "program", "said", "sentence"),
    [
        ("podman", "podman", "podman version 3.0.1", "Podman 3.0 is older than 4.0"),
        ("docker", "dockerd", "Docker version 18.09.1, build x", "Docker 18.09 is older than 19.3"),
        ("containerd", "containerd", "containerd github.com/containerd/containerd 1.4.13~ds1", "1.4 is older than 1.6"),
        ("lxd", "lxd", "3.0.3", "LXD 3.0 is older than 4.0"),
    ],
)
def test_one_that_is_too_old_says_so(layer: str, program: str, said: str, sentence: str) -> None:
    assert sentence in reasons(layer, with_tool(program, said))


def test_crun_and_control_groups_of_both_versions() -> None:
    hybrid = replace(facts(), cgroups=V1 | {"2:hugetlb"})
    assert "(version 2: hugetlb); use podman(runtime=runc)" in reasons("podman", hybrid, runtime="crun")
    assert "control groups" not in reasons("podman", hybrid, runtime="runc")
    for one in (V1, frozenset({"2:io", "2:memory"}), frozenset[str]()):
        assert "control groups" not in reasons("podman", replace(facts(), cgroups=one), runtime="crun")


def test_an_old_lxc_and_version_2() -> None:
    machine = with_tool("lxc-start", "3.1.0", cgroups=frozenset({"2:io"}))
    assert "lxc-start 3.1 knows only version 1 of control groups" in reasons("lxc", machine)
    assert "control groups" not in reasons("lxc", replace(machine, cgroups=V1))
    assert "control groups" not in reasons("lxc", with_tool("lxc-start", "4.0.6", cgroups=frozenset({"2:io"})))


def test_an_old_docker_and_version_2() -> None:
    machine = with_tool("dockerd", "Docker version 19.03.13", cgroups=frozenset({"2:io"}))
    assert "dockerd 19.03 knows only version 1 of control groups" in reasons("docker", machine)
    assert "knows only" not in reasons("docker", replace(machine, cgroups=V1))
    assert "knows only" not in reasons("docker", with_tool("dockerd", "Docker version 26.1", cgroups=machine.cgroups))


def test_docker_without_the_control_group_of_devices() -> None:
    assert "needs the control group devices" in reasons("docker", replace(facts(), cgroups=V1 - {"1:devices"}))


def test_a_user_without_ids() -> None:
    nobody = replace(facts(), root=False)
    said = reasons("podman", nobody)
    assert "needs root" in said and "newuidmap and newgidmap" in said and "/etc/subuid and /etc/subgid" in said
    half = reasons("podman", replace(nobody, id_maps=frozenset({"newuidmap", "newgidmap", "subuid"})))
    assert "uidmap" not in half and "and /etc/subgid give this user none" in half
    assert "Without root" not in reasons("podman", facts())


IDS = frozenset({"newuidmap", "newgidmap", "subuid:ann", "subgid:ann"})


def test_a_user_whose_podman_it_is_to_be() -> None:
    machine = replace(facts(), id_maps=IDS)
    assert reasons("podman", machine, user="ann") == reasons("podman", machine)
    poor = reasons("podman", machine, user="bob")
    assert "The user bob has no ids for containers in /etc/subuid and /etc/subgid" in poor and "bob` gives some" in poor
    assert "leave user out" in reasons("podman", replace(facts(), id_maps=IDS | {"subuid:root"}), user="root")
    assert "'a b' is no name of a user" in reasons("podman", machine, user="a b")
    half = reasons("podman", replace(machine, id_maps=IDS - {"subgid:ann", "newuidmap"}), user="ann")
    assert "needs newuidmap to give" in half and "in /etc/subgid;" in half


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"driver": "zfs"}, "podman(zfs) makes data sets, which only root may"),
        ({"driver": "btrfs"}, "podman(btrfs) removes subvolumes, which only root may"),
        ({"base_size": 1 << 30}, "sets quotas, which only root may"),
    ],
)
def test_what_a_user_may_not(values: dict[str, Value], sentence: str) -> None:
    assert sentence in reasons("podman", replace(facts(), id_maps=IDS), user="ann", **values)


def test_root_s_own_podman_instead_of_a_user_s_is_a_difference() -> None:
    seen = captured("podman", "overlay")
    seen = replace(seen, spec=spec("podman", {"user": "ann"}))
    assert seen.differences() == ["podman: the engine runs as root instead of as ann."]
    assert seen.differences(seen.with_stdout(0, '"rootless": false', '"rootless": true')) == []
