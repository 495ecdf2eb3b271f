"""The commands of every layer as they would be typed, kept in golden/LAYER/CASE.json.

A case file holds what was asked (`values`, `devices`, `claimed`, `image`, `thin_pool`) and the result of it. After a
change that is meant, run with STRATA_REFRESH_GOLDEN=1 and read the difference; to add a case, write its file with only
what is asked.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.layers import drivers
from strata.model import Command, Step

from .layer_cases import BESIDE, HERE, PLACE, below, spec

CASES = sorted((HERE / "golden").glob("*/*.json"))
REFRESH = bool(os.environ.get("STRATA_REFRESH_GOLDEN"))


def typed(command: Command | None) -> list[str] | None:
    """One command, a line of the file for each line of its script."""
    if command is None:
        return None
    return [*(["# beside"] if command.beside else []), *shlex.join(command.argv).split("\n")]


def as_json(step: Step) -> dict[str, Any]:
    return {"why": step.why, "do": typed(step.do), "undo": typed(step.undo)}


def produced(layer: str, asked: dict[str, Any]) -> dict[str, Any]:
    driver, call = drivers()[layer], spec(layer, asked.get("values"))
    under = below(layer, asked.get("devices", 1), claimed=asked.get("claimed", False), image=asked.get("image"),
                  thin_pool=asked.get("thin_pool", False))  # fmt: skip
    of_a_lab = {"beside", "nested"} & set(asked.get("values") or {})
    place = replace(PLACE, beside=BESIDE) if of_a_lab else PLACE
    provides = driver.provides(call, under, place)
    return {
        "provides": [str(provides.kind), provides.path, provides.size_bytes, provides.ours, provides.mount],
        "steps": [as_json(step) for step in driver.plan_create(call, under, place)],
        "inspect": [typed(command) for command in driver.plan_inspect(call, under, place)],
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_commands_are_as_kept(path: Path) -> None:
    kept = json.loads(path.read_text())
    asked = {name: kept[name] for name in ("values", "devices", "claimed", "image", "thin_pool") if name in kept}
    now = produced(path.parent.name, asked)
    if REFRESH:
        path.write_text(json.dumps(asked | now, indent=1, ensure_ascii=False) + "\n")
    assert {name: kept.get(name) for name in now} == now or REFRESH


def test_no_command_holds_the_directory_of_a_checkout() -> None:
    for path in CASES:
        assert str(Path(__file__).parents[3]) not in path.read_text()
