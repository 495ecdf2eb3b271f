"""strata advise"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from strata import layers, published, workloads
from strata.advice import advise as choosing
from strata.advice import requirements
from strata.advice.requirements import Requirements
from strata.campaign import parse_stacks
from strata.cli import features, kept, output
from strata.cli.written import text_of
from strata.errors import BadInput, NothingToRun
from strata.model import Stack, View
from strata.planning import plan
from strata.published import Study
from strata.published.documented import documents
from strata.report import advice
from strata.store import reader


@dataclass(frozen=True, slots=True)
class Flags:
    """Requirements on the command line."""

    needs: str | None = None
    max_memory: str | None = None
    capacity: str | None = None
    survive: str | None = None
    no_writeback_risk: bool = False
    disks: Sequence[str] = ()
    weights: str | None = None


def advise(file: Path | None, runs: Sequence[Path], flags: Flags, as_json: bool) -> None:
    found, wanted = answer(file, runs, flags)
    if as_json:
        output.json({"version": 3, **asdict(found)})
    else:
        output.out(advice.render(found, wanted), end="")
    if found.conflicts:
        raise typer.Exit(NothingToRun.exit_code)


def answer(file: Path | None, runs: Sequence[Path], flags: Flags) -> tuple[choosing.Advice, list[str]]:
    """The advice, and the requirements in words."""
    known = documents()
    base = (
        Requirements()
        if file is None
        else requirements.read(text_of(file, "give a file of requirements"), str(file), known.features)
    )
    wanted = requirements.with_flags(
        base,
        known.features,
        needs=flags.needs,
        max_memory=flags.max_memory,
        capacity=flags.capacity,
        survive=flags.survive,
        no_writeback_risk=flags.no_writeback_risk,
        disks=flags.disks,
        weights=flags.weights,
    )
    # what `strata features` made is a run for each kind; a directory without any is refused by the reader
    each = [run for path in runs for run in features.runs_in(path) or [path]]
    views = {str(path): reader.view(path) for path in each}
    stacks, drivers = _candidates(views, wanted, "candidates" if file is None else str(file)), layers.drivers()
    misplaced = {stack.text: reasons for stack in stacks if (reasons := plan.misplaced(stack, drivers))}
    found = choosing.advise(stacks, views, wanted, drivers, known, _studies(), misplaced)
    return found, requirements.described(wanted)


def _studies() -> list[Study]:
    layer, workload = layers.catalogue(), workloads.catalogue()
    return [published.study(name, layer, workload) for name in published.names()]


def _candidates(views: dict[str, View], wanted: Requirements, written: str) -> list[Stack]:
    """The stacks of all runs, then those that the file names; each once."""
    found: dict[str, Stack] = {}
    stacks = [stack for where, view in views.items() for stack in kept.stacks(view, where)]
    stacks += [stack for text in wanted.candidates for stack in parse_stacks(text, layers.catalogue(), where=written)]
    for stack in stacks:
        found.setdefault(stack.text, stack)
    if not found:
        raise BadInput("there is nothing to choose from: give the directory of a run with --from, or `candidates:`.")
    return list(found.values())
