"""Only `strata.cli.output` and the engine's `terminal` write to a terminal: they make foreign text visible first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python" / "strata"
# The writer; the picture of progress and the coloured verdict, whose texts are made visible before.
WRITERS = {"cli/output.py", "cli/watch.py", "report/terminal.py"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
# The writer, and the frames of the protocol, which are no text.
ENGINE = Path(__file__).parents[3] / "crates" / "engine" / "src"
ENGINE_WRITERS = {"terminal.rs", "serve/stdio.rs"}
ENGINE_WRITES = re.compile(
    r"\be?print(ln)?!|\bdbg!|\bstd(out|err)\(\)|/dev/std|\b[Ee]rr(or)?\.(print|exit)\(\)|Cli::parse\(\)"
)
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
        if calls and name not in WRITERS:
            found[name] = calls
    assert found == {}, "print with strata.cli.output, which makes foreign text visible"


@pytest.mark.parametrize(
    "line",
    ["print(1)", "sys.stdout.write(x)", "sys.stderr.writelines(x)", "typer.echo(x)", "rich.print(x)", "Console()"],
)
def test_the_rule_sees_every_way(line: str) -> None:
    assert list(writes(line))


def test_nothing_else_in_the_engine_writes_to_a_terminal() -> None:
    found = {
        f"{path.relative_to(ENGINE)}:{number}": line.strip()
        for path in ENGINE.rglob("*.rs")
        if str(path.relative_to(ENGINE)) not in ENGINE_WRITERS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ENGINE_WRITES.search(line)
    }
    assert found == {}, "print with terminal::say or terminal::warn, which make foreign text visible"


@pytest.mark.parametrize(
    "line",
    ['println!("{a}")', 'eprint!("a")', "io::stdout().lock()", "writeln!(stderr(), a)", "error.exit()", "Cli::parse()"],
)
def test_the_rule_sees_every_way_of_the_engine(line: str) -> None:
    assert ENGINE_WRITES.search(line)
