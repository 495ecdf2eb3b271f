"""What `strata recipe` refuses before it writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.cli.recipe import Where, made_of, recipe
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


@pytest.mark.parametrize(("form", "said"), [("fstab", "is to be added to /etc/fstab"), ("systemd", "belongs at /etc/")])
def test_a_file_that_others_share_is_not_said_to_be_put_in_its_place(
    form: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe("disk | ext4", None, form, WHERE, None, tmp_path)
    assert said in capsys.readouterr().out
