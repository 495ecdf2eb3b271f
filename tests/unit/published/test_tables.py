"""The feature tables of documentation: read whole, and of the stacks that they speak of."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue
from strata.probes import STACKS, probes
from strata.published.tables import printed_of, tables


def backends(stack: str) -> dict[str, str]:
    return {f"{table.system} {table.version}": found for table in tables() if (found := table.backend_of(stack))}


def test_every_table_names_its_source_and_only_features_that_are_tried_or_says_why_not() -> None:
    assert {table.system for table in tables()} == {"Incus", "LXD", "Docker", "Podman", "Proxmox VE"}
    for table in tables():
        assert table.source and table.rows
        assert set(table.conditions) <= set(table.backends)
        for row in table.rows:
            assert row.says and set(row.says) <= set(table.backends), row
            assert row.feature in probes() if row.feature else row.untried, row


@pytest.mark.parametrize(
    ("stack", "of"),
    [
        ("disk | ext4", {"Incus 7.3": "dir", "LXD 6.9": "dir"}),
        ("disk | lvmthin | xfs", {"Incus 7.3": "LVM", "Proxmox VE 9": "LVM-thin"}),
        ("2*disk | zfs(mirror=2)", {"Incus 7.3": "ZFS", "Proxmox VE 9": "ZFS (local)"}),
        ("disk | btrfs(quotas) | docker(btrfs, base_size=256M)", {"Docker 28": "btrfs"}),
        ("disk | ext4 | podman(user=tester)", {"Podman 5": "overlay, rootless"}),
        ("disk | zfs | incus(zfs)", {"Incus 7.3": "ZFS"}),
    ],
)
def test_a_stack_is_the_backend_that_a_table_means(stack: str, of: dict[str, str]) -> None:
    assert of.items() <= backends(stack).items()


def test_what_stands_on_something_else_is_not_taken_for_it() -> None:
    assert "Incus 7.3" not in backends("disk | vdo | xfs")
    assert "Docker 28" not in backends("disk | btrfs")


def test_conditions_stand_beside_what_is_printed() -> None:
    (quota,) = [each for each in printed_of("disk | btrfs(quotas)") if each.printed == "Storage quotas"]
    assert quota.holds and "escape" in quota.condition and quota.source.startswith("lxc/incus@")


def test_the_stacks_of_all_are_stacks_each_once() -> None:
    texts = [stack.text for text in STACKS for stack in parse_stacks(text, catalogue())]
    assert len(texts) == len(set(texts)) > 30
