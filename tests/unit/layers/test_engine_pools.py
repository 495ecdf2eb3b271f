"""Engines on thin pools: which pool, which file system, what a silent fall-back would look like; and what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import BadInput
from strata.layers import drivers
from strata.model import Completed

from .layer_cases import PLACE, SNAPSHOTS, below, captured, facts, spec


@pytest.mark.parametrize(
    ("index", "old", "new", "word"),
    [
        (0, '"driver": "lvm"', '"driver": "dir"', "keeps instances by dir instead of lvm"),
        (0, '"lvm.thinpool_name": "pool"', '"lvm.thinpool_name": "IncusThinPool"', "in the pool strata-5f8e1c-1-1/Inc"),
        (0, '"lvm.vg_name": "strata-5f8e1c-1-1"', '"lvm.vg_name": "users"', "in the pool users/pool and not in"),
        (1, "- xfs ", "- ext4 ", "the root of a container is ext4 instead of xfs"),
        (1, "/dev/strata-5f8e1c-1-1/containers_", "/dev/users/containers_", "which is not what lvm makes"),
        (1, "/dev/strata-5f8e1c-1-1/containers_", "/dev/loop3 ", "which is not what lvm makes"),
    ],
)
def test_another_pool_or_file_system_is_a_difference(index: int, old: str, new: str, word: str) -> None:
    answers = captured("incus", "lvm")
    assert word in " ".join(answers.differences(answers.with_stdout(index, old, new)))


@pytest.mark.parametrize(
    ("index", "old", "new", "word"),
    [
        (0, '"Driver":"devicemapper"', '"Driver":"vfs"', "keeps layers by vfs instead of devicemapper"),
        (0, "/1/mnt/docker/devicemapper/devicemapper/data", "/users/data", "its pool is in /run/strata-work/"),
        (0, '"Data loop file"', '"Data"', "its pool is in no file instead of files in"),
        (1, "/dev/mapper/docker-", "/dev/mapper/users-", "which is not what devicemapper makes"),
    ],
)
def test_another_pool_of_docker_is_a_difference(index: int, old: str, new: str, word: str) -> None:
    answers = captured("docker", "loop-lvm")
    assert word in " ".join(answers.differences(answers.with_stdout(index, old, new)))


@pytest.mark.parametrize(
    ("index", "old", "new", "word"),
    [
        (
            0,
            '"Pool Name","strata--5f8e1c--1--1-',
            '"Pool Name","users-',
            "in the pool users-pool-tpool instead of strata",
        ),
        (0, '"Library Version"', '"Data loop file"', "instead of strata--5f8e1c--1--1-pool-tpool"),
        (1, "- xfs ", "- ext4 ", "the root of a container is ext4 instead of xfs"),
    ],
)
def test_docker_on_another_pool_than_the_one_below_is_a_difference(index: int, old: str, new: str, word: str) -> None:
    answers = captured("docker", "direct-lvm")
    assert word in " ".join(answers.differences(answers.with_stdout(index, old, new)))


@pytest.mark.parametrize(
    ("file", "fallen_back"), [("/below/containerd/blockfile/snapshots/1", False), ("/home/users/disk.img", True)]
)
def test_a_loop_device_is_the_root_of_a_container_only_if_its_file_is_ours(file: str, fallen_back: bool) -> None:
    ground = replace(below("containerd")[0], path="/below", mount="/below")
    said = (
        '{"state": "ok", "root": "/below/containerd"}',
        f"backing {file}\n9 1 7:3 / / rw - ext4 /dev/loop3 rw\n",
        "/below",
    )
    seen = [Completed((), 0, text, "", 0.1) for text in said]
    wrong = drivers()["containerd"].differences(spec("containerd", {"snapshotter": "blockfile"}), [ground], PLACE, seen)
    assert any("which is not what blockfile makes" in sentence for sentence in wrong) is fallen_back
    assert len(wrong) == fallen_back


def test_a_directory_with_a_blank_in_its_name_is_where_the_containers_are() -> None:
    ground = replace(below("containerd")[0], path="/my disk", mount="/my disk")
    upper = "/my\\040disk/containerd/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs"
    said = (
        '{"state": "ok", "root": "/my disk/containerd"}',
        f"9 1 0:3 / / rw - overlay overlay rw,upperdir={upper}\n",
        "/my disk",
    )
    seen = [Completed((), 0, text, "", 0.1) for text in said]
    assert drivers()["containerd"].differences(spec("containerd"), [ground], PLACE, seen) == []


@pytest.mark.parametrize(
    ("layer", "how", "thin_pool", "sentence"),
    [
        ("incus", "lvm", False, "put it right on lvmthin"),
        ("lxd", "dir", True, "put a file system below it, or choose lvm"),
        ("docker", "overlay2", True, "put a file system below it"),
    ],
)
def test_an_engine_on_what_it_cannot_use_is_refused(layer: str, how: str, thin_pool: bool, sentence: str) -> None:
    name = drivers()[layer].info.params[0].name
    with pytest.raises(BadInput, match=sentence):
        drivers()[layer].provides(spec(layer, {name: how}), below(layer, thin_pool=thin_pool), PLACE)


@pytest.mark.parametrize(
    ("driver", "version", "runs"),
    [
        ("devicemapper", "Docker version 20.10.24+dfsg1, build 297e128", True),
        ("devicemapper", "Docker version 24.0.7, build x", True),
        ("devicemapper", "Docker version 26.1.5+dfsg1, build a72d7cd", False),
        ("overlay", "Docker version 23.0.1, build x", True),
        ("overlay", "Docker version 24.0.7, build x", False),
        ("aufs", "Docker version 20.10.24+dfsg1, build 297e128", False),
    ],
)
def test_a_driver_that_docker_dropped_runs_with_an_older_one(driver: str, version: str, runs: bool) -> None:
    machine = facts(tools=dict(facts().tools) | {"dockerd": version})
    reasons = drivers()["docker"].reasons_not_to_run(spec("docker", {"driver": driver}), machine)
    assert (reasons == []) is runs
    assert runs or "cannot run here" in reasons[0]


@pytest.mark.parametrize(("layer", "how"), [("docker", "devicemapper"), ("incus", "lvm"), ("containerd", "devmapper")])
def test_snapshots_of_the_empty_volume_beside_the_containers_are_refused(layer: str, how: str) -> None:
    driver, pool = drivers()[layer], below(layer, thin_pool=True)
    call = spec(layer, {driver.info.params[0].name: how})
    engine = driver.provides(call, pool, PLACE)
    with pytest.raises(BadInput, match="keeps its containers in volumes of their own"):
        engine.can["snapshot"](1)
    (volume,) = pool
    able = replace(volume, can={"snapshot": lambda count: []}, snapshots=SNAPSHOTS)
    held = drivers()["snapshot"].provides(spec("snapshot", {}), [able], PLACE)
    with pytest.raises(BadInput, match="right on lvmthin"):
        driver.provides(call, [held], PLACE)
