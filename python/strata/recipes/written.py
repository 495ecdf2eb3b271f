"""What a format makes of a recipe: files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata.errors import BadInput
from strata.recipes.plan import Recipe
from strata.text import visible


@dataclass(frozen=True, slots=True)
class File:
    """One file of a written recipe."""

    name: str
    text: str
    place: str = ""  # where it belongs on the machine, absolute; "": anywhere
    added: bool = False  # to what is at that place already, which stays

    def __post_init__(self) -> None:
        """Raises BadInput: a file that root runs holds no character that a reader does not see."""
        line = next((each for each in self.text.split("\n") if visible(each) != each), None)
        if line is not None:
            raise BadInput(
                f"no recipe is made: {self.name} would hold a character that cannot be seen, in the line "
                f"'{visible(line)[:200]}'; change what it comes from."
            )


@dataclass(frozen=True, slots=True)
class Format:
    """How recipes are written for one program."""

    name: str
    about: str  # one sentence: what it writes, for what
    write: Callable[[Recipe], tuple[File, ...]]  # raises BadInput with the reason where it cannot express the stack
