"""What `strata recipe` refuses before it writes anything."""

from __future__ import annotations

import pytest

from strata.cli.recipe import Where, made_of
from strata.errors import BadInput

WHERE = Where(["disk=/dev/disk/by-id/wwn-0"], ["disk=100G"])


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("disk | lxd", "needs a directory"),
        ("disk | ext4 | docker(btrfs)", "needs btrfs below it"),
        ("disk | ext4 | incus(zfs)", "needs zfs below it"),
        ("disk | ext4 | podman(base_size=1G)", "quotas of xfs"),
        ("disk | docker", "needs a directory"),
    ],
)
def test_no_recipe_is_made_of_what_no_machine_can_build(stack: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        made_of(stack, None, WHERE)


def test_what_can_be_built_has_one() -> None:
    made = made_of("disk | btrfs | docker(btrfs)", None, WHERE)
    assert [node.call.name for node in made.above] == ["docker"]
