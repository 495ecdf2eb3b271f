"""Stacks of a run that was made before, perhaps by another version of Strata, as this one understands them."""

from __future__ import annotations

from collections.abc import Iterable

from strata import layers
from strata.campaign import parse_stacks
from strata.errors import BadInput, Problem
from strata.model import Stack, View


def stacks(view: View, where: str, texts: Iterable[str] | None = None) -> list[Stack]:
    """Of the run in the directory `where`; `texts`: some of its stacks only. Raises BadInput with every one that means
    nothing here."""
    found: list[Stack] = []
    problems: list[Problem] = []
    for text in view.stacks if texts is None else texts:
        try:
            parsed = parse_stacks(text, layers.catalogue())
            if len(parsed) != 1:
                raise BadInput(f"it is a matrix of {len(parsed)} stacks; it should be one")
            found += parsed
        except BadInput as error:
            why = error.problems[0].message.partition(";")[0]
            by = view.versions.get("strata", "an unknown version")
            problems.append(
                Problem(
                    f"this Strata does not know a stack of this run, which {by} made: {text}: {why}; ask the Strata "
                    "that made it, or run the campaign again with this one.",
                    where=where,
                )
            )
    if problems:
        raise BadInput(problems)
    return found
