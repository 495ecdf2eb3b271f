"""strata features"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from strata import layers, workloads
from strata.advice.judge import documented
from strata.campaign import parse_stacks
from strata.cli import run as running
from strata.cli import written
from strata.errors import BadInput
from strata.model import Kind, Stack
from strata.probes import PREFIX
from strata.published.documented import documents
from strata.report import features as report
from strata.store import reader

# What is asked of every one of them, by --all. Blocks by themselves too: some features are of volumes.
ALL = (
    "disk | {ext4, xfs, xfs(pquota), btrfs, btrfs(quotas), zfs}",
    "disk | {lvm(snapshots=256M), lvmthin} | {ext4, xfs}",
    "2*disk | {md(raid1) | xfs, btrfs(raid1), zfs(mirror=2)}",
    'disk | vdo | xfs(mkfs="-K")',
    "disk | {lvm(size=256M), lvmthin, lvmthin(zero=off), vdo, zfs | zvol(sparse)}",
)


def features(what: Sequence[str], everything: bool, out: Path, sizes: list[str], where: written.Where) -> None:
    if bool(what) is everything:
        raise BadInput(
            "features takes expressions, or --all for the stacks that people choose among; give one of them."
        )
    stacks = [stack for text in (ALL if everything else what) for stack in parse_stacks(text, layers.catalogue())]
    known = documents()
    for kind, group in _by_kind(stacks).items():
        loads = [name for name, load in workloads.catalogue().items()
                 if name.startswith(PREFIX) and kind in load.accepts]  # fmt: skip
        directory = out / str(kind)
        texts, once = [stack.text for stack in group], running.Decide(rounds=1)
        running.carry_out(running.Asked(texts, loads, directory, where, once, sizes, as_json=True))
        view = reader.view(directory)
        said = {stack.text: documented(stack, known) for stack in group}
        sys.stdout.write(report.render(view, said))


def _by_kind(stacks: Sequence[Stack]) -> dict[Kind, list[Stack]]:
    """Directories and devices are asked different things, and a run has one set of workloads."""
    found: dict[Kind, list[Stack]] = {}
    for stack in stacks:
        node = stack.top
        while (kind := layers.catalogue()[node.call.name].provides) is None:
            node = node.inputs[0]
        if kind not in (Kind.DIRECTORY, Kind.BLOCK):
            raise BadInput(f"{stack.text} ends in neither a directory nor a device; features are tried on these.")
        found.setdefault(kind, []).append(stack)
    return found
