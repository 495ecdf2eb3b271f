"""Only `strata.cli.page_file` writes files for commands, so that no link of another user is followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLI = Path(__file__).parents[3] / "python" / "strata" / "cli"
WRITER = "page_file.py"
CALLS = {"write_text", "write_bytes", "touch", "copy", "copy2", "copyfile", "copyfileobj", "NamedTemporaryFile"}


def writes(source: str) -> Iterator[str]:
    """Every call in `source` that would write to a file that has a name."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        of_module = called.value.id if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else ""
        if of_module == "os" and name == "open":
            wrong = _opens_to_write(node)
        elif name == "open":
            wrong = _mode_writes(node, at=0 if isinstance(called, ast.Attribute) and of_module != "io" else 1)
        else:
            wrong = name in CALLS
        if wrong:
            yield f"line {node.lineno}: {ast.unparse(node)[:60]}"


def _opens_to_write(call: ast.Call) -> bool:
    """Of `os.open`. /dev/null is nobody's file."""
    flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
    return ast.unparse(call.args[0]) != "os.devnull" and (
        "O_RDONLY" not in flags or any(flag in flags for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"))
    )


def _mode_writes(call: ast.Call, at: int) -> bool:
    """Of `open(PATH, MODE)` and `PATH.open(MODE)`. Mode x makes a new file only, and follows no link."""
    given = [call.args[at]] if len(call.args) > at else [word.value for word in call.keywords if word.arg == "mode"]
    if not given:
        return False
    mode = given[0]
    return not isinstance(mode, ast.Constant) or bool(set(str(mode.value)) & set("wa+"))


def test_commands_write_files_in_one_place() -> None:
    found = {}
    for path in CLI.rglob("*.py"):
        calls = list(writes(path.read_text()))
        if calls and path.name != WRITER:
            found[path.name] = calls
    assert found == {}, "write with strata.cli.page_file, which follows no link"


@pytest.mark.parametrize(
    "line",
    [
        "out.write_text(x)",
        "(out / name).write_bytes(x)",
        "open(path, 'w')",
        "open(path, mode='a')",
        "open(path, mode)",
        "path.open('r+')",
        "io.open(path, 'wb')",
        "os.open(path, os.O_WRONLY)",
        "os.open(path, flags)",
        "shutil.copyfile(a, b)",
        "path.touch()",
    ],
)
def test_the_rule_sees_every_way(line: str) -> None:
    assert list(writes(line))


@pytest.mark.parametrize(
    "line",
    ["open(path)", "path.open('rb')", "path.open('xb')", "os.open(path, os.O_RDONLY)", "os.open(os.devnull, 2)"],
)
def test_reading_and_new_files_are_allowed(line: str) -> None:
    assert not list(writes(line))
