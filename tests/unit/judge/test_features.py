"""Features judged level by level, and held to what the lab's probes found (docs/concepts/features.md)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.advice.judge import judge
from strata.advice.requirements import Requirements
from strata.campaign import parse_stacks
from strata.errors import StrataError
from strata.judge.features import documented
from strata.layers import catalogue, drivers
from strata.model import Kind, Node, Stack
from strata.published.documented import documents

KNOWN = documents()
_MATRIX = Path(__file__).parents[3] / "docs" / "concepts" / "features.md"


def stack(text: str) -> Stack:
    (found,) = parse_stacks(text, catalogue())
    return found


def holds(text: str, feature: str) -> bool | None:
    return documented(stack(text), feature, KNOWN).holds


@pytest.mark.parametrize(
    ("text", "feature", "expected"),
    [
        ("disk | lvm | xfs", "shrink", False),  # lvreduce would destroy the XFS
        ("disk | lvm | ext4", "shrink", True),
        ("disk | lvm | btrfs", "shrink", True),
        ("disk | xfs", "shrink", False),
        ("disk | zfs", "shrink", False),  # the only disk of a pool
        ("2*disk | zfs(mirror=2)", "shrink", False),
        ("4*disk | zfs(mirror=2)", "shrink", True),
        ("3*disk | zfs(raidz1)", "shrink", False),
        ("3*disk | md(raid5) | ext4", "discard", False),
        ("2*disk | md(raid1) | ext4", "discard", True),
        ("3*disk | lvm(raid5) | ext4", "discard", False),
        ("disk | xfs | qcow2 | vm | ext4", "discard", False),
        ("disk | xfs | qcow2 | vm(discard) | ext4", "discard", True),
        ("disk | f2fs", "shrink", None),
        ("disk + ssd | bcache | ext4", "discard", None),
        ("nullblk | ext4", "discard", None),
        ("disk | btrfs(nodatasum)", "checksums", False),
        ("2*disk | btrfs(raid1, nodatasum)", "self-healing", False),
        ("2*disk | btrfs(raid1)", "self-healing", True),
        ('disk | zfs(set="checksum=off")', "checksums", False),
        ('2*disk | zfs(mirror=2, set="checksum=off")', "self-healing", False),
        ("disk | zfs", "checksums", True),
        ("disk | lvmthin | ext4", "snapshot", True),
        ("disk | xfs(pquota) | qcow2 | vm | ext4", "quota", None),
        ("disk | xfs(pquota)", "quota", True),
        ("disk | lvm | ext4", "quota", True),
        ("disk | lvm | ext4 | docker", "quota", None),
    ],
)
def test_the_levels_of_a_stack_combine_as_each_feature_declares(text: str, feature: str, expected: bool | None) -> None:
    assert holds(text, feature) is expected, documented(stack(text), feature, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "nullblk | ext4",
        "disk | ext4(journal=off)",
        "disk | ext4(journal_async_commit, data=writeback)",
        "3*disk | btrfs(raid1, metadata=raid5)",
        "3*disk | md(raid5) | ext4",
        "disk | dm(delay, read=1ms) | ext4",
        "disk | debian(12) | ext4 | docker(devicemapper, base_size=512M)",
    ],
)
def test_nothing_flushed_is_lost_is_met_only_where_every_layer_is_documented_to_keep_it(text: str) -> None:
    (answer,) = judge(stack(text), Requirements(no_writeback_risk=True), drivers(), KNOWN).answers
    assert not answer.met, answer


@pytest.mark.parametrize(
    "text",
    [
        "disk | ext4",
        "2*disk | md(raid1) | lvmthin | xfs | qcow2 | vm | ext4",
        "disk | zfs",
        "disk + ssd | lvmcache | btrfs",
        "disk | xfs | docker",
        "disk | ext4 | dir(a)",
    ],
)
def test_nothing_flushed_is_lost_is_met_where_every_layer_keeps_it(text: str) -> None:
    (answer,) = judge(stack(text), Requirements(no_writeback_risk=True), drivers(), KNOWN).answers
    assert answer.met, answer


@pytest.mark.parametrize(
    ("text", "most", "met"),
    [
        ("disk | zfs", 1 << 30, False),
        ("disk | zfs(arc_max=256M)", 1 << 30, True),
        ("disk + ssd | lvmcache | ext4", 1 << 20, False),
        ("disk + ssd | lvmcache | ext4", 1 << 30, True),
        ("disk | ext4", 1 << 20, True),
        ("disk | ext4 | docker", 1 << 30, False),
    ],
)
def test_memory_that_no_document_bounds_is_not_known_to_be_little(text: str, most: int, met: bool) -> None:
    (answer,) = judge(stack(text), Requirements(max_memory_bytes=most), drivers(), KNOWN).answers
    assert answer.met is met, answer


def test_every_feature_declares_how_its_levels_combine() -> None:
    assert set(KNOWN.combines) == set(KNOWN.features)


# ---------------------------------------------------------------- against the recorded matrix of the lab


def recorded() -> dict[tuple[str, str], bool]:
    """(stack, feature) -> what the probe found; where it could not tell there is nothing."""
    found: dict[tuple[str, str], bool] = {}
    for block in re.findall(r"```text\n(.*?)```", _MATRIX.read_text(), re.DOTALL):
        for part in block.split("\n\n"):
            lines = part.splitlines()
            keys = lines[1].split()
            texts = dict(re.findall(r"^ +([a-d]\d+)  (\S.*)$", part, re.MULTILINE))
            for line in lines[2:]:
                name, *cells = line.split()
                if name in KNOWN.features and len(cells) == len(keys):
                    found |= {
                        (stack(texts[key]).text, name): cell == "yes"
                        for key, cell in zip(keys, cells, strict=True)
                        if cell in ("yes", "no")
                    }
    return found


RECORDED = recorded()

_EXPLAINED = {
    # The probe takes one of two files out of a pool that it makes; the pools of these stacks have a single group.
    ("disk | zfs", "shrink"),
    ("disk | zfs(dedup)", "shrink"),
    ("2*disk | md(raid1) | zfs", "shrink"),
    ("2*disk | zfs(mirror=2)", "shrink"),
    ("2*disk | zfs(l2arc=1)", "shrink"),
    # Docker's documents know whole copies only; on XFS these are reflinks.
    ("disk | xfs(pquota) | docker(vfs, base_size=256M)", "shared-images"),
    # Documents say the same of ext4, where the probe found that the size does not hold: so nothing is claimed of `dir`.
    ("disk | xfs(pquota) | incus(base_size=256M)", "base-size"),
}
"""What the lab found and documents deny, each with its reason."""


def test_the_matrix_of_the_lab_is_read_whole() -> None:
    assert len({text for text, _ in RECORDED}) == 52
    assert len({feature for _, feature in RECORDED}) >= 20


def test_no_feature_is_met_that_the_lab_refuted() -> None:
    wrong = [
        (text, feature, documented(stack(text), feature, KNOWN).why)
        for (text, feature), found in RECORDED.items()
        if not found and feature != "disk-loss" and holds(text, feature)
    ]
    assert not wrong


def test_what_the_lab_found_and_documents_deny_is_explained() -> None:
    denied = {
        (text, feature)
        for (text, feature), found in RECORDED.items()
        if found and feature != "disk-loss" and holds(text, feature) is False
    }
    assert denied == _EXPLAINED


_BASES = ("disk", "2*disk | md(raid1)", "3*disk | md(raid5)", "disk + disk | lvmcache")
_VOLUMES = ("", "lvm(snapshots=256M)", "lvmthin", "lvmthin(zero=off)", "vdo", "zfs | zvol(sparse)")
_FILE_SYSTEMS = ("ext4", "ext4(prjquota)", "xfs(pquota)", "btrfs(quotas)", "btrfs(compress=zstd)", "zfs", "zfs(dedup)")
_TOPS = ("", "", "raw", "qcow2", "qcow2 | vm | ext4", "docker(vfs, base_size=256M)", "podman(user=nobody)",
         "podman(vfs)")  # fmt: skip


def random_stacks(amount: int) -> Iterator[Stack]:
    choose = random.Random(7)
    seen: set[str] = set()
    while len(seen) < amount:
        parts = [choose.choice(each) for each in (_BASES, _VOLUMES, _FILE_SYSTEMS, _TOPS)]
        try:
            found = stack(" | ".join(part for part in parts if part))
        except StrataError:
            continue
        if found.text not in seen:
            seen.add(found.text)
            yield found


def levels(node: Node) -> list[str]:
    """Texts of the layers, the top first; disks apart."""
    return [each.call.text for each in reversed(list(node.walk())) if each.call.name != "disk"]


def above_the_pool(mine: list[str]) -> list[str]:
    """The levels down to the first that gives out the room of a pool, from which the ones above it grow."""
    ends = [place for place, text in enumerate(mine) if text.partition("(")[0] in KNOWN.pools]
    return mine[: ends[0] + 1] if ends else mine


REFUTED = {
    feature: [levels(stack(text).top) for (text, name), yes in RECORDED.items() if name == feature and not yes]
    for feature in KNOWN.features
}


def refuted(found: Stack, feature: str) -> bool:
    """Whether what the lab refuted of other stacks says the same of this one, by how the feature combines."""
    mine, theirs = levels(found.top), REFUTED[feature]
    way = KNOWN.combines[feature]
    if way == "every":  # a level that does not pass it on does so wherever it stands
        above = mine if feature == "discard" else above_the_pool(mine)
        return any(len(each) == 1 and each[0] in above for each in theirs)
    if way == "any":  # a level of a stack that has it not gives it to no other
        return set(mine) <= {level for each in theirs for level in each}
    return mine[:2] in [each[:2] for each in theirs]


def test_no_feature_of_200_random_stacks_is_met_that_recorded_evidence_refutes() -> None:
    cases = [(found, feature) for found in random_stacks(200) for feature in KNOWN.features if refuted(found, feature)]
    for found, feature in cases:
        assert not documented(found, feature, KNOWN).holds, (found.text, feature)
    assert len(cases) > 200, "the evidence says something of many of them"


def test_every_level_of_a_conjunction_is_named_where_it_is_met() -> None:
    said = documented(stack("disk | lvm | ext4"), "shrink", KNOWN)
    assert "lvm:" in said.why and "ext4:" in said.why
    assert drivers()["ext4"].info.provides is Kind.DIRECTORY
