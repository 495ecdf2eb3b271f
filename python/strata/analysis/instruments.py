"""Stacks that hold an instrument of measurements: they are compared with, and never chosen. Pure.

A RAM disk, a delay or a limit is known by the layer's name in the text of the stack, for a view has no more than that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from strata.analysis.estimate import Metrics, estimates
from strata.analysis.rank import Ranking, Unranked
from strata.model import View
from strata.published.documented import documents
from strata.text import some_of


def instrument_in(stack: str) -> str | None:
    """The first instrument in the canonical text of a stack; None: it has none."""
    outside = re.sub(r'"[^"]*"', "", stack)  # quoted values may hold any word
    for word in re.finditer(r"(?:^|[|+*(]) *([a-z_]\w*)", outside):
        if word[1] in documents().instruments and not _is_argument(outside, word.start()):
            return word[1]
    return None


def only(view: View, stacks: Collection[str]) -> View:
    """The view as if no other stack had run."""
    return replace(
        view,
        stacks=tuple(text for text in view.stacks if text in stacks),
        trials=tuple(trial for trial in view.trials if trial.stack in stacks),
        failed=tuple(visit for visit in view.failed if visit.stack in stacks),
        skipped=tuple(skip for skip in view.skipped if skip.stack in stacks),
        halted=tuple(skip for skip in view.halted if skip.stack in stacks),
        steps=tuple(step for step in view.steps if step.stack in stacks),
    )


def choosable(view: View) -> View:
    """The view without stacks that hold an instrument; the whole of it where no other stack is in it."""
    held = {stack for stack in view.stacks if instrument_in(stack)}
    rest = [stack for stack in view.stacks if stack not in held]
    return only(view, rest) if held and rest else view


def compared(found: Ranking, view: View, metrics: Metrics) -> Ranking:
    """`found`, of the stacks that may be chosen, with the instruments of the view beside them."""
    held = {stack: name for stack in view.stacks if (name := instrument_in(stack))}
    if not held:
        return found
    if len(held) == len(view.stacks):
        said = (
            f"Every stack here holds an instrument ({some_of(sorted(set(held.values())))}): the figures compare them, "
            "and none is a choice."
        )
        return replace(found, sentences=(*found.sentences, said))
    return replace(
        found,
        unranked=(*found.unranked, *_unranked(held, view, metrics)),
        sentences=(*found.sentences, f"Instruments, to compare with and never to choose: {some_of(list(held))}."),
    )


def _unranked(held: Mapping[str, str], view: View, metrics: Metrics) -> Sequence[Unranked]:
    skipped = {skip.stack for skip in view.skipped}
    figures = estimates(only(view, held), metrics)
    return [
        Unranked(
            stack,
            f"{name} is an instrument of measurements: its figures are to compare with, and it is never the choice.",
            figures.get(stack, {}),
        )
        for stack, name in held.items()
        if stack not in skipped
    ]


def _is_argument(text: str, place: int) -> bool:
    """Whether a word at `place` stands in the brackets of a layer: a bracket that a name precedes."""
    depth: list[bool] = []
    for at, letter in enumerate(text[: place + 1]):
        if letter == "(":
            depth.append(at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_"))
        elif letter == ")" and depth:
            depth.pop()
    return any(depth)
