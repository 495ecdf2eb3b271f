"""The repository is written in plain words: no idioms of its own, docstrings with a verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

HERE = Path(__file__).parent
TOP = HERE.parents[2]
LIST = HERE / "idioms.yaml"
ENDINGS = {".py", ".rs", ".md", ".j2", ".yaml", ".toml", ".sh"}
ROOMS = ("python", "crates", "docs", "campaigns", "benchmarks", "tests", "scripts", "packaging")
# They quote the idioms.
QUOTES = {LIST, Path(__file__)}
# White space, or the end of one comment line and the start of the next.
GAP = r"(?:\s|#|//[/!]?)+"


def _rules() -> dict[str, list[dict[str, str]]]:
    rules: dict[str, list[dict[str, str]]] = YAML(typ="safe").load(LIST.read_text())
    return rules


def _pattern(find: str) -> re.Pattern[str]:
    """Compile `find` for text in lower case. A pattern that starts with a literal is searched 20 times faster."""
    return re.compile(rf"(?:{find.replace(' ', GAP)})\b")


IDIOMS = [(_pattern(idiom["find"]), idiom["write"]) for idiom in _rules()["idioms"]]


def idioms(text: str) -> Iterator[str]:
    """Yield one sentence for each idiom in `text`: its line, the words, and what to write instead."""
    text = text.lower()
    for pattern, write in IDIOMS:
        for match in pattern.finditer(text):
            if re.match(r"\w", text[match.start() - 1 : match.start()]):
                continue  # the end of a longer word
            line = text.count("\n", 0, match.start()) + 1
            yield f"line {line}: {' '.join(match[0].split())!r}: write {write}"


def texts() -> Iterator[Path]:
    """Yield every file that a person reads as text, but not captured output of other programs."""
    candidates = [*TOP.glob("*.md"), TOP / "Makefile", *(path for room in ROOMS for path in (TOP / room).rglob("*"))]
    for path in candidates:
        if path.is_file() and (path.suffix in ENDINGS or path.name == "Makefile") and path not in QUOTES:
            yield path


def test_texts_hold_no_banned_idiom() -> None:
    problems = [f"{path.relative_to(TOP)} {problem}" for path in texts() for problem in idioms(path.read_text())]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "text",
    [
        "It is as asked.",
        "Requests, many at\n    # a time.",
        "so many visits at once",
        "/// the same to the\n    /// last digit",
    ],
)
def test_an_idiom_is_found_across_lines_and_comments(text: str) -> None:
    assert list(idioms(text))


@pytest.mark.parametrize("text", ["a manewver", "the system matches the recipe", "N visits in parallel"])
def test_plain_words_are_not_reported(text: str) -> None:
    assert not list(idioms(text))
