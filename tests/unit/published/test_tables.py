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
            assert set(row.only) <= {backend for backend, said in row.says.items() if said}, row
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
        ("disk | zfs | incus(zfs, base_size=256M)", {"Incus 7.3": "ZFS"}),
        ("disk | btrfs(quotas) | lxd(btrfs, base_size=256M)", {"LXD 6.9": "Btrfs"}),
        ("disk | ext4(prjquota) | incus(base_size=256M)", {"Incus 7.3": "dir"}),
    ],
)
def test_a_stack_is_the_backend_that_a_table_means(stack: str, of: dict[str, str]) -> None:
    assert of.items() <= backends(stack).items()


def test_what_stands_on_something_else_is_not_taken_for_it() -> None:
    assert "Incus 7.3" not in backends("disk | vdo | xfs")
    assert "Docker 28" not in backends("disk | btrfs")


def test_conditions_stand_beside_what_is_printed() -> None:
    quota = next(each for each in printed_of("disk | btrfs(quotas)") if each.printed == "Storage quotas")
    assert quota.holds and "escape" in quota.condition and quota.source.startswith("lxc/incus@")


@pytest.mark.parametrize(
    ("stack", "printed", "said"),
    [
        ("disk | btrfs(quotas)", "Storage quotas", True),
        ("disk | btrfs", "Storage quotas", False),
        ("disk | ext4(prjquota)", "Storage quotas", True),
        ("disk | ext4", "Storage quotas", False),
        ("disk | ext4", "Instant cloning", True),
        ("disk | lvmthin | ext4", "Instant cloning", True),
        ("disk | lvm(snapshots=256M) | ext4", "Instant cloning", False),
    ],
)
def test_what_is_said_under_a_condition_is_said_of_no_other_stack(stack: str, printed: str, said: bool) -> None:
    assert any(each.printed == printed for each in printed_of(stack)) is said


def test_every_engine_of_all_is_held_against_the_table_of_its_system() -> None:
    texts = [stack.text for text in STACKS for stack in parse_stacks(text, catalogue())]
    for engine, system in (("incus", "Incus 7.3"), ("lxd", "LXD 6.9")):
        ours = [text for text in texts if f"| {engine}" in text]
        assert len(ours) >= 4
        assert [text for text in ours if system not in backends(text)] == []


def test_the_stacks_of_all_are_stacks_each_once() -> None:
    texts = [stack.text for text in STACKS for stack in parse_stacks(text, catalogue())]
    assert len(texts) == len(set(texts)) > 30
