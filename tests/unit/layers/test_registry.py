"""The registry finds drivers by looking, and every driver declares itself in full."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from strata import layers
from strata.layers import catalogue, drivers
from strata.layers._driver import Driver
from strata.model import Kind, Param, ParamType

from .layer_cases import CONDITIONS, LAYERS, facts, spec

FOLDER = Path(layers.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.name.startswith("_"))


def test_every_file_is_a_layer_of_its_name() -> None:
    assert list(drivers()) == MODULES
    assert {name: driver.info for name, driver in drivers().items()} == dict(catalogue())


def test_issue_a_is_covered() -> None:
    assert set(LAYERS) >= {
        "disk", "partition", "scheduler", "ext4", "xfs", "btrfs", "f2fs", "dir", "existing", "null",
    }  # fmt: skip


def test_a_new_layer_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FOLDER / "null.py").read_text().replace('name="null"', 'name="brandnew"')
    (tmp_path / "brandnew.py").write_text(text)
    monkeypatch.setattr(layers, "__path__", [*layers.__path__, str(tmp_path)])
    try:
        assert "brandnew" in drivers.__wrapped__()
    finally:
        sys.modules.pop("strata.layers.brandnew", None)


def test_drivers_do_not_know_each_other() -> None:
    for name in MODULES:
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("strata.layers"):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    assert full.startswith("strata.layers._"), f"{name} imports {full}"


@pytest.mark.parametrize("layer", LAYERS)
def test_a_driver_declares_itself(layer: str) -> None:
    info = drivers()[layer].info
    assert info.name == layer
    assert info.about.endswith(".")
    names = [param.name for param in info.params]
    assert len(names) == len(set(names))
    for param in info.params:
        check_param(param)
    assert (info.provides is None) is (layer in {"scheduler", "sysctl", "tenants", "limit", "vagrant"} | CONDITIONS)
    assert (Kind.GRANT in info.accepts) is (layer == "disk")
    assert all(tool and package for tool, package in info.tools.items())


def test_no_driver_repeats_an_answer_that_it_inherits() -> None:
    assert all(isinstance(driver, Driver) for driver in drivers().values())
    answer = "(self, spec: Call, inputs: int) -> list[str]:\n        return []\n"
    files = [path.name for path in FOLDER.glob("*.py") if answer in path.read_text()]
    assert files == ["_driver.py"], "leave out arity_reasons where it returns []: Driver has it"


def test_a_driver_without_steps_is_refused_when_it_is_loaded() -> None:
    class Unfinished(Driver):
        info = drivers()["dir"].info

    with pytest.raises(TypeError, match=r"differences.*plan_create.*plan_inspect.*provides"):
        Unfinished()  # type: ignore[abstract]


def check_param(param: Param) -> None:
    assert param.about and not param.about.endswith(".")
    assert bool(param.choices) is (param.type is ParamType.CHOICE)
    if param.type is ParamType.FLAG:
        assert param.default in {None, True, False}
    if param.choices and param.default is not None:
        assert param.default in param.choices
    assert not (param.required and param.default is not None)


def test_every_mount_option_excludes_its_opposite() -> None:
    pairs = []
    for name, driver in drivers().items():
        flags = {p.name for p in driver.info.params if p.type is ParamType.FLAG and p.group == "mount"}
        pairs += [(name, driver, positive) for positive in flags if f"no{positive}" in flags]
    assert {(name, positive) for name, _, positive in pairs} >= {
        *((name, "barrier") for name in ("btrfs", "ext4", "f2fs", "xfs")),
        *((name, "discard") for name in ("ext4", "f2fs", "xfs")),
    }
    for name, driver, positive in pairs:
        reasons = driver.reasons_not_to_run(spec(name, {positive: True, f"no{positive}": True}), facts())
        assert any("exclude each other" in reason for reason in reasons), (name, positive)


def test_layers_import_only_light_modules() -> None:
    """`strata --help` and `plan` load every layer: their time is the user's."""
    light = {"__future__", "collections", "dataclasses", "functools", "importlib", "itertools", "json", "pkgutil", "re"}
    light |= {"getopt", "shlex", "strata", "types", "xml"}
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= light, path.name
            elif isinstance(node, ast.ImportFrom):
                assert str(node.module).split(".")[0] in light, path.name
