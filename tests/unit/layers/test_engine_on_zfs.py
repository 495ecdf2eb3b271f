"""The ZFS drivers of engines make datasets in the pool below them, so it has to be one of ours."""

from __future__ import annotations

import pytest

from strata.errors import BadInput
from strata.layers._engine import Root, in_pool, needs_filesystem
from strata.model import Kind, Provides


def test_a_pool_of_ours_will_do() -> None:
    needs_filesystem("podman", "zfs", Provides(Kind.DIRECTORY, "/mnt", name="tank", filesystem="zfs"), "zfs")


@pytest.mark.parametrize(
    "below",
    [
        Provides(Kind.DIRECTORY, "/srv/user", ours=False),
        Provides(Kind.DIRECTORY, "/srv/user", ours=False, name="tank", filesystem="zfs"),
        Provides(Kind.DIRECTORY, "/mnt", filesystem="ext4"),
    ],
)
def test_what_is_the_users_is_refused(below: Provides) -> None:
    with pytest.raises(BadInput, match="zfs"):
        needs_filesystem("docker", "zfs", below, "zfs")


@pytest.mark.parametrize(
    ("root", "ours"),
    [
        (Root("/", "zfs", "tank/docker/0a1b", {}), True),
        (Root("/", "zfs", "other/docker/0a1b", {}), False),
        (Root("/", "zfs", "tank", {}), False),
        (Root("/docker/zfs/0a1b", "zfs", "tank/data", {}), False),
        (Root("/", "overlay", "tank/docker/0a1b", {}), False),
    ],
)
def test_the_root_of_a_container_is_a_data_set_of_the_pool_below(root: Root, ours: bool) -> None:
    assert in_pool(root, Provides(Kind.DIRECTORY, "/mnt", name="tank", filesystem="zfs")) is ours
