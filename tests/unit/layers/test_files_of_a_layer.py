"""Every layer has the files that CONTRIBUTING asks for; for one that lacks some: which, and how to make them."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from .layer_cases import HERE, LAYERS

ROOT = HERE.parents[2]
WITHOUT_CAPTURE = {
    "f2fs": "no kernel at hand has it",
    "snapshot": "reads back only what its own steps wrote to a file",
}
WITHOUT_LIFECYCLE = {
    "container": "no stack of these tests names it yet",
    "vagrant": "no stack of these tests names it yet",
}


@cache
def lifecycle_texts() -> tuple[str, ...]:
    """The tests that build stacks on a real machine: by `bench.put("LAYER", ...)` or by an expression."""
    return tuple(path.read_text() for room in ("host/layers", "lab") for path in (ROOT / "tests" / room).glob("*.py"))


def is_built(layer: str) -> bool:
    put, on_another, source = rf'put\(\s*"{layer}"', rf"[|(]\s*{layer}\b", rf"[\"*{{ ]{layer}\b[^\"\n]* \|"
    return any(re.search(rf"{put}|{on_another}|{source}", text) for text in lifecycle_texts())


def missing(layer: str) -> list[str]:
    """Return what `layer` lacks, as sentences with the commands that make it; [] = nothing."""
    golden = f"tests/unit/layers/golden/{layer}"
    cases = sorted((ROOT / golden).glob("*.json"))
    problems = []
    if not cases:
        problems.append(
            f"{layer} has no golden case. Make one: mkdir -p {golden} && "
            f"""echo '{{"values": {{}}}}' > {golden}/plain.json && """
            "STRATA_REFRESH_GOLDEN=1 .venv/bin/pytest tests/unit/layers/test_golden.py"
        )
    # Without a golden case nobody knows yet whether anything is inspected.
    inspected = not cases or any(json.loads(case.read_text())["inspect"] for case in cases)
    captured = f"tests/unit/layers/captured/{layer}"
    if inspected and layer not in WITHOUT_CAPTURE and not list((ROOT / captured).glob("*.json")):
        problems.append(
            f"{layer} has no captured output. Build it in a machine (`strata lab shell`) by the commands of "
            f"`strata plan --commands`, run the commands under `inspect` in {golden}, and keep what they print in "
            f"{captured}/plain.json, written as tests/unit/layers/captured/dir/*.json are"
        )
    if layer not in WITHOUT_LIFECYCLE and not is_built(layer):
        problems.append(
            f"{layer} has no lifecycle case. Add one that builds it to tests/host/layers/test_lifecycle.py (then: make "
            "test-host), or to STACKS in tests/lab/test_layers.py if only the lab has it (then: make test-lab)"
        )
    return problems


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_has_all_its_files(layer: str) -> None:
    assert not (problems := missing(layer)), "\n".join(problems)


def test_a_new_layer_is_told_which_files_to_make_and_how() -> None:
    golden, captured, lifecycle = missing("brandnew")
    assert "golden/brandnew/plain.json && STRATA_REFRESH_GOLDEN=1" in golden
    assert "captured/brandnew/plain.json" in captured
    assert "tests/host/layers/test_lifecycle.py" in lifecycle


def test_an_exception_that_is_no_longer_one_is_named() -> None:
    assert not [layer for layer in WITHOUT_CAPTURE if (HERE / "captured" / layer).exists()]
    assert not [layer for layer in WITHOUT_LIFECYCLE if is_built(layer)]


@pytest.mark.parametrize("path", re.findall(r"tests/[\w/]+\.py", " ".join(missing("brandnew"))), ids=str)
def test_the_files_named_in_the_help_exist(path: str) -> None:
    assert (ROOT / path).is_file()
