"""Only `strata.cli.output` writes to a terminal, so that foreign text is made visible first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python" / "strata"
# The writer; the picture of progress and the coloured verdict, whose texts are made visible before; and programs for
# developers, which show figures of their own.
WRITERS = {"cli/output.py", "cli/watch.py", "report/terminal.py"}
DEVELOPERS = {"design/replay.py", "design/simulate/__main__.py", "design/simulate/bound.py"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
CALLS = {"print", "echo", "secho", "Console", "pprint", "rprint"}


def writes(source: str) -> Iterator[str]:
    """Every call in `source` that would write to a terminal."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        of_stream = (
            isinstance(called, ast.Attribute)
            and isinstance(called.value, ast.Attribute)
            and called.value.attr in STREAMS
            and name.startswith("write")
        )
        if name in CALLS or of_stream:
            yield f"line {node.lineno}: {ast.unparse(node)[:60]}"


def test_nothing_else_writes_to_a_terminal() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        calls = list(writes(path.read_text()))
        if calls and name not in WRITERS | DEVELOPERS:
            found[name] = calls
    assert found == {}, "print with strata.cli.output, which makes foreign text visible"


@pytest.mark.parametrize(
    "line",
    ["print(1)", "sys.stdout.write(x)", "sys.stderr.writelines(x)", "typer.echo(x)", "rich.print(x)", "Console()"],
)
def test_the_rule_sees_every_way(line: str) -> None:
    assert list(writes(line))
