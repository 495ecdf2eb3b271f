"""Recipes in a fresh lab machine: what the layers say of what the script built, before and after a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.advice import requirements
from strata.advice.advise import advise
from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.published.documented import documents
from strata.recipes import plan, shell
from strata.recipes.plan import Recipe

from .lab_runs import STRATA

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

_MARK = "==== answers"

# Applies, asks, ends what a restart ends, applies again, asks, and takes it away.
_WORK = """\
set -e
PATH=$PATH:/usr/sbin
cat >/root/recipe.sh <<'RECIPE_OF_STRATA'
{script}
RECIPE_OF_STRATA
sh /root/recipe.sh apply >&2
echo '{mark}'; sh /root/recipe.sh inspect
{{ {stop}; }} >&2
sh /root/recipe.sh check >&2 && {{ echo "what was ended is not noticed" >&2; exit 1; }}
sh /root/recipe.sh apply >&2
echo '{mark}'; sh /root/recipe.sh inspect
sh /root/recipe.sh remove >&2 && {{ echo "data are given up without a word" >&2; exit 1; }}
sh /root/recipe.sh remove --destroy-data >&2
echo '{mark}'
for device in {devices}; do wipefs --noheadings --output TYPE "$device"; done
lsblk --noheadings --list --output TYPE | sort -u
"""


@dataclass(frozen=True)
class Case:
    stack: str
    disks: tuple[tuple[str, str], ...]  # role, size
    stop: str  # what a restart of the machine does to it
    features: str = ""


def first_of(requirements_file: str) -> str:
    """The first candidate that has all that the file requires."""
    path = Path(__file__).parents[2] / "campaigns" / "requirements" / requirements_file
    known = documents()
    wanted = requirements.read(path.read_text(), path.name, known.features)
    stacks = [stack for text in wanted.candidates for stack in parse_stacks(text, catalogue())]
    return advise(stacks, {}, wanted, drivers(), known).unmeasured[0].stack


CASES = {
    # an SSD cache, deduplication with little memory, compression
    "study 4": Case(
        first_of("proxmox-2019.yaml"),
        (("hdd", "1G"), ("hdd", "1G"), ("ssd", "512M")),
        "umount /srv/data; dmsetup remove_all; mdadm --stop /dev/md/data-2",
    ),
    "vdo": Case('disk | vdo | xfs(mkfs="-K")', (("disk", "6G"),), "umount /srv/data; dmsetup remove_all"),
    "pool": Case(
        "2*disk | zfs(mirror=2, compression=lz4, prefetch=off)",
        (("disk", "1G"), ("disk", "1G")),
        "zpool export data-2; echo 0 >/sys/module/zfs/parameters/zfs_prefetch_disable",
        "zfs",
    ),
}


def links(disks: Sequence[tuple[str, str]]) -> list[str]:
    """How the lab names its disks: see `strata lab shell --disk`."""
    return [f"/dev/disk/by-id/virtio-{role}{number}" for number, (role, _) in enumerate(disks)]


def made(case: Case) -> Recipe:
    (stack,) = parse_stacks(case.stack, catalogue())
    words = [f"{role}={link}" for (role, _), link in zip(case.disks, links(case.disks), strict=True)]
    return plan.recipe(stack, drivers(), plan.mapped(words, {}))


@pytest.mark.parametrize("name", CASES)
def test_a_fresh_machine_gets_the_stack_that_was_measured(name: str) -> None:
    case = CASES[name]
    recipe = made(case)
    text = _WORK.format(script=shell.render(recipe), mark=_MARK, stop=case.stop, devices=" ".join(links(case.disks)))
    argv = [STRATA, "lab", "shell", *(["--with", case.features] if case.features else [])]
    argv += [word for role, size in case.disks for word in ("--disk", f"{role}={size}")]
    done = subprocess.run(argv, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, first, again, after = done.stdout.split(f"{_MARK}\n")
    assert recipe.differences(shell.seen(recipe, first)) == []
    assert recipe.differences(shell.seen(recipe, again)) == []
    assert after.split() == ["disk"], "something of it is left"
