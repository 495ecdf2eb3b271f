"""strata recipe"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from strata import layers
from strata.campaign import parse_stacks
from strata.cli import kept, output, page_file
from strata.cli.written import existing, text_of
from strata.errors import BadInput, Problem
from strata.model import Stack, View
from strata.planning.plan import misplaced
from strata.recipes import plan, shell
from strata.recipes.formats import formats
from strata.recipes.plan import Recipe
from strata.recipes.written import File
from strata.run.session import as_role_sizes
from strata.store import ownership


@dataclass(frozen=True, slots=True)
class Where:
    """Where the stack is to stand."""

    devices: Sequence[str]  # ROLE=/dev/disk/by-id/...
    sizes: Sequence[str]  # ROLE=SIZE
    name: str = "data"
    mount: str | None = None
    accept_loss: bool = False  # a stack that can lose data that it acknowledged


def recipe(what: str, stack: str | None, form: str, where: Where, seen: Path | None, out: Path | None) -> None:
    known = formats()
    if form not in known:
        raise BadInput(f"--as {form}: no such format; they are {', '.join(known)}.")
    made = made_of(what, stack, where)
    if seen is not None:
        _judge(made, seen)
        return
    _print(known[form].write(made), out)


def made_of(what: str, stack: str | None, where: Where) -> Recipe:
    found, notes = _stack(what, stack)
    if reasons := misplaced(found, layers.drivers()):
        raise BadInput([Problem(reason) for reason in reasons])
    given = plan.mapped(where.devices, as_role_sizes(where.sizes))
    return plan.recipe(
        found,
        layers.drivers(),
        given,
        name=where.name,
        mount=where.mount,
        notes=notes,
        accept_loss=where.accept_loss,
    )


def _stack(what: str, name: str | None) -> tuple[Stack, tuple[str, ...]]:
    """The stack, and what is known of how it was measured. `what`: the directory of a run, or an expression."""
    if name is None and "|" in what and existing(what) is None:
        return _one(what), ("It was not measured: the expression was given as it stands.",)
    from strata.store import reader

    view = reader.view(Path(what))
    text = _best(view) if name is None else _named(view, name)
    (stack,) = kept.stacks(view, what, [text])
    return stack, _measured_on(view)


def _one(text: str) -> Stack:
    stacks = parse_stacks(text, layers.catalogue())
    if len(stacks) != 1:
        raise BadInput(f"a recipe is of one stack, and this expression is of {len(stacks)}; write out the one meant.")
    return stacks[0]


def _best(view: View) -> str:
    from strata.analysis import modelled

    ranking = modelled.ranking(view, metrics="primary")
    if ranking.best is not None and len(ranking.tied) == 1:
        return ranking.best
    said = ranking.sentences[0] if ranking.sentences else "Nothing is ranked."
    raise BadInput(f"{said} Say which stack the recipe is for: strata recipe DIR 'STACK' --as ...")


def _named(view: View, name: str) -> str:
    """A stack of the run by its whole text, or by a part of it that no other has."""
    match = [name] if name in view.stacks else [text for text in view.stacks if name in text]
    if len(match) != 1:
        what = "no stack" if not match else "several stacks"
        raise BadInput(f"'{name}' is {what} of this run; they are:\n  " + "\n  ".join(view.stacks))
    return match[0]


def _measured_on(view: View) -> tuple[str, ...]:
    if view.facts is None:
        return ()
    used = ", ".join(f"{tool} {version}" for tool, version in sorted(view.versions.items()) if tool.startswith("mkfs"))
    on = f"Measured in the campaign {view.campaign} on {view.facts.os}, kernel {view.facts.kernel_text}."
    return (on, *((f"Then: {used}.",) if used else ()), *view.facts.caveats)


def _judge(made: Recipe, seen: Path) -> None:
    text = sys.stdin.read() if str(seen) == "-" else text_of(seen, "give the file with what `inspect` printed")
    wrong = made.differences(shell.seen(made, text))
    output.out("\n".join(wrong) if wrong else "OK: the system matches the recipe.")
    if wrong:
        raise typer.Exit(1)


def _print(files: Sequence[File], out: Path | None) -> None:
    if out is None and len(files) == 1:
        output.out(files[0].text, end="")
        return
    if out is None:
        for file in files:
            output.out(f"# ---- {file.place or file.name}")
            output.out(file.text, end="")
        return
    _make(out)
    for file in files:
        page_file.write(out / file.name, file.text)
        where = f"   {'is to be added to' if file.added else 'belongs at'} {file.place}" if file.place else ""
        output.out(f"{out / file.name}{where}")


def _make(directory: Path) -> None:
    """Raises Refused when another user could change the files: root is to run them."""
    ownership.check_parents(directory)
    for path in reversed([path for path in (directory, *directory.parents) if not os.path.lexists(path)]):
        path.mkdir(mode=0o755, exist_ok=True)
    ownership.check_parents(directory)
    ownership.check_directory(directory)
