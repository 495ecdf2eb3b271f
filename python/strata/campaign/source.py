"""Where a piece of text came from, and the collecting of everything that is wrong with it.

Every tree node and value keeps an `At`, so that a problem found late (a layer that cannot sit there, a level
of a factor) still points at the character the user typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.errors import BadInput, Problem

# What a terminal or a browser obeys instead of showing it: control characters, and those that reverse the direction of
# writing, so that a reader sees another text than the program. Half a surrogate pair cannot be written as UTF-8 at all.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def unprintable(text: str, but: str = "") -> int | None:
    """Where the first character stands that no name, number or expression holds; None when there is none."""
    return next((match.start() for match in _UNPRINTABLE.finditer(text) if match[0] not in but), None)


def named(character: str) -> str:
    """ "control character U+001B", for people: it cannot be shown."""
    return f"control character U+{ord(character):04X}"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A text that a person wrote.

    `line` and `column` say where it starts in `host_lines`, the file it is a verbatim, one-line part of; without
    `host_lines` places are counted in the text itself.
    """

    text: str
    where: str | None = None
    line: int = 1
    column: int = 1
    host_lines: Sequence[str] | None = None

    def problem(self, offset: int, message: str) -> Problem:
        before = self.text[:offset]
        line = before.count("\n")
        column = offset - (before.rfind("\n") + 1)
        if self.host_lines is not None:
            row, column = self.line, self.column + column
            excerpt = self.host_lines[row - 1]
        else:
            row, column = line + 1, column + 1
            excerpt = self.text.split("\n")[line]
        shown = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", excerpt.replace("\t", " ").rstrip())
        return Problem(message, self.where, row, column, shown)


class At(NamedTuple):
    """A character of a source, 0-based; the end of the text counts as a place."""

    source: Source
    offset: int


@dataclass(slots=True)
class Problems:
    """Collects problems. A matrix finds the same one in many stacks: it is kept once."""

    found: dict[Problem, None] = field(default_factory=dict)

    def add(self, at: At, message: str) -> None:
        self.found.setdefault(at.source.problem(at.offset, message))

    def extend(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.found.setdefault(problem)

    def raise_if_any(self) -> None:
        """Raises BadInput with everything found, in the order in which it is written."""
        if not self.found:
            return
        places = {problem.where: None for problem in self.found}
        rank = {where: number for number, where in enumerate(places)}
        raise BadInput(sorted(self.found, key=lambda p: (rank[p.where], p.line or 0, p.column or 0)))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " (did you mean 'ext4'?)", or nothing when no known name is close."""
    import difflib  # only where something is already wrong

    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return f" (did you mean '{lower[close[0]]}'?)" if close else ""
