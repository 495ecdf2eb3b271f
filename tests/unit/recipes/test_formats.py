"""Every format, kept in golden/FORMAT/CASE: refreshed with STRATA_REFRESH_GOLDEN=1, then read.

A case is a stack; a format that cannot express it keeps the reason.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.recipes import plan
from strata.recipes.formats import formats

HERE = Path(__file__).parent
REFRESH = bool(os.environ.get("STRATA_REFRESH_GOLDEN"))

CASES = {
    "file-system": ("disk | ext4(noatime)", ["disk"]),
    "engine": ("disk | partition | btrfs(noatime) | docker(btrfs)", ["disk"]),
    "thin": ("disk | lvmthin(zero=off) | incus(lvm, fs=xfs)", ["disk"]),
    "zfs": ("2*disk | zfs(mirror=2, compression=lz4)", ["disk", "disk"]),
    "guest": (
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs(compress=zstd) | qcow2(size=16G) | vm",
        ["hdd", "hdd", "ssd"],
    ),
    "device": ("2*disk | md(raid1)", ["disk", "disk"]),
}
# The whole script is long; what is in it is tested on real devices.
FORMATS = [name for name in formats() if name not in ("shell", "ansible")]


def written(name: str, case: str) -> str:
    text, roles = CASES[case]
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    try:
        files = formats()[name].write(plan.recipe(stack, drivers(), given))
    except BadInput as refusal:
        return f"refused: {refusal}\n"
    return "".join(f"==== {file.name} {file.place}\n{file.text}" for file in files)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_a_recipe_is_written_as_kept(name: str, case: str) -> None:
    path = HERE / "golden" / name / f"{case}.txt"
    now = written(name, case)
    if REFRESH:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now)
    assert path.read_text() == now


def test_a_refusal_names_another_way() -> None:
    for name in FORMATS:
        for case in CASES:
            text = written(name, case)
            if text.startswith("refused"):
                assert text.startswith(f"refused: --as {name}: ")
                assert ";" in text


def test_dockers_configuration_is_json() -> None:
    text = written("docker", "engine").split("\n", 1)[1].split("====")[0]
    assert json.loads(text) == {"storage-driver": "btrfs", "data-root": "/srv/data/docker"}


def test_every_format_says_what_it_writes() -> None:
    for name, form in formats().items():
        assert form.name == name
        assert form.about
        assert not form.about.endswith(".")
