"""The repository is written in plain words: no idioms of its own, docstrings with a verb, short commit subjects."""

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
# They quote the idioms; and records of runs stay as they were written down.
QUOTES = {LIST, Path(__file__), TOP / "docs" / "results.md"}
# How many of the last moves of HEAD are checked.
LAST_COMMITS = 50
# White space, or the end of one comment line and the start of the next.
GAP = r"(?:\s|#|//[/!]?)+"


def _rules() -> dict[str, list[dict[str, str]]]:
    rules: dict[str, list[dict[str, str]]] = YAML(typ="safe").load(LIST.read_text())
    return rules


def _pattern(find: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{find.replace(' ', GAP)})\b", re.IGNORECASE)


IDIOMS = [(_pattern(idiom["find"]), idiom["write"]) for idiom in _rules()["idioms"]]


def idioms(text: str) -> Iterator[str]:
    """Yield one sentence for each idiom in `text`: its line, the words, and what to write instead."""
    for pattern, write in IDIOMS:
        for match in pattern.finditer(text):
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


def test_recent_commit_subjects_have_at_most_72_characters() -> None:
    """Read git's own files, since a unit test starts no process: HEAD's last commits are in its log of moves."""
    log = _head_log()
    if log is None:
        pytest.skip("no git history here")
    subjects = [line.partition("\t")[2] for line in log.read_text(errors="replace").splitlines()[-LAST_COMMITS:]]
    written = [subject.partition(": ")[2] for subject in subjects if subject.startswith("commit")]
    assert [subject for subject in written if len(subject) > 72] == []


def _head_log() -> Path | None:
    git = TOP / ".git"
    if git.is_file():  # a worktree names its directory there
        git = Path(git.read_text().partition("gitdir: ")[2].strip())
    log = git / "logs" / "HEAD"
    return log if log.is_file() else None
