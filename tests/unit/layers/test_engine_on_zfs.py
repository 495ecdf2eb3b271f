"""The ZFS drivers of engines make datasets in the pool below them, so it has to be one of ours."""

from __future__ import annotations

import pytest

from strata.errors import BadInput
from strata.layers._engine import needs_filesystem
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
