"""The changes that mutants are made of: which there are, and that each is a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.mutants import changes
from tests.mutants.__main__ import ROOT, equivalents, place_of

import strata


def after(text: str) -> list[str]:
    source = text.encode()
    return [change.applied(source).decode() for change in changes.all_of(source)]


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a in b", ["x = (a not in b)"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x = f'{a + b}'", []),
        ("x = 'a' + b", []),
        ("x = a and b", ["x = (a or b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = True", ["x = False"]),
        ("x = 4", ["x = 5"]),
        ("x = quote(y)", ["x = (y)"]),
        ("f(x, y)", ["pass"]),
        ("x = zip(y, z, strict=True)", []),
        ("x = f(y, z, other=True)", ["x = f(y, z, other=False)"]),
        ("raise E", ["pass"]),
        ("x: int | None = y", []),
        ("y = a if b else c", ["y = a if (not (b)) else c"]),
        ("def f() -> int | None:\n    return y", ["def f() -> int | None:\n    return None"]),
        ("for i in y:\n    continue", ["for i in y:\n    break"]),
        ("x = [i for i in y if i]", ["x = [i for i in y if (not (i))]"]),
        ("if TYPE_CHECKING:\n    f(x, y)", []),
    ],
)
def test_each_kind_of_change(text: str, changed: list[str]) -> None:
    assert after(text) == changed


def test_what_is_listed_as_equivalent_is_a_change_of_the_code_as_it_is() -> None:
    """Else it is out of date: the line has changed, or is gone."""
    listed = equivalents()
    made = {place for file in {file for file, _, _ in listed} for place in _places(file)}
    assert listed and listed - made == set()


def _places(file: str) -> set[tuple[str, str, str]]:
    source = (ROOT / file).read_bytes()
    return {place_of(file, source, change) for change in changes.all_of(source)}


def test_places_are_right_behind_letters_of_several_bytes() -> None:
    assert after("x = 'ä', 1") == ["x = 'ä', 2"]


def test_every_change_of_a_real_module_is_a_program() -> None:
    source = (Path(strata.__file__).parent / "units.py").read_bytes()
    found = changes.all_of(source)
    assert len(found) > 20
    for change in found:
        assert ast.dump(ast.parse(change.applied(source))) != ast.dump(ast.parse(source)), change
