"""What a format makes of a recipe: files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata.recipes.plan import Recipe


@dataclass(frozen=True, slots=True)
class File:
    """One file of a written recipe."""

    name: str
    text: str
    place: str = ""  # where it belongs on the machine, absolute; "": anywhere
    added: bool = False  # to what is at that place already, which stays


@dataclass(frozen=True, slots=True)
class Format:
    """How recipes are written for one program."""

    name: str
    about: str  # one sentence: what it writes, for what
    write: Callable[[Recipe], tuple[File, ...]]  # raises BadInput with the reason where it cannot express the stack
