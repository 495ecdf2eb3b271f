"""strata features"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from strata import layers, workloads
from strata.advice.judge import ends_in
from strata.campaign import parse_stacks
from strata.cli import kept as kept_stacks
from strata.cli import output, page_file, written
from strata.cli import run as running
from strata.errors import BadInput, Refused
from strata.model import Kind, Outcome, Stack, View
from strata.probes import PREFIX, STACKS
from strata.published.documented import documents
from strata.report import features as report
from strata.report import matrix, pages
from strata.run.safety import lock
from strata.run.sites import in_lab
from strata.store import reader

_PAGE = "features.html"
_KINDS = (Kind.DIRECTORY, Kind.BLOCK, Kind.IMAGE, Kind.ENGINE)  # of which there are probes, in the order of the runs


def features(
    what: Sequence[str], everything: bool, out: Path, sizes: list[str], where: written.Where, as_json: bool
) -> None:
    if bool(what) is everything:
        raise BadInput(
            "features takes expressions, the directory of what was tried before, or --all for the stacks that people "
            "choose among; give one of them."
        )
    shown = len(what) == 1 and _is_directory(what[0])
    if not shown:
        for text in what:
            _refuse_directory(text)
    if shown:
        out = Path(what[0])
    directories = kept(out) if shown else _try(what or STACKS, out, sizes, where)
    found = matrix_of(directories)
    page = out / _PAGE
    page_file.write(page, pages.features(found))
    if as_json:
        output.out(report.as_json(found), end="")
    else:
        output.out(report.render(found), end="")
        output.out(f"\nThe page, with the evidence: {page}")
    if not shown and any(_failed(reader.view(directory)) for directory in directories):
        raise typer.Exit(1)


def _is_directory(text: str) -> bool:
    path = written.existing(text)
    return path is not None and path.is_dir()


def _refuse_directory(text: str) -> None:
    """One word may be a disk role, and is more likely the directory of a run: nothing is built of it."""
    if _is_directory(text):
        raise BadInput(
            f"'{text}' is a directory: give it alone to see what was tried, or expressions and --out {text}."
        )
    if "|" not in text and "(" not in text:
        raise BadInput(
            f"'{text}' is no directory of what was tried; give that, or an expression with a layer on a disk, as in "
            "'disk | ext4'."
        )


def kept(out: Path) -> list[Path]:
    """The runs of what was tried before."""
    directories = runs_in(out)
    if not directories:
        raise BadInput(f"{out} holds nothing that `strata features` tried; give the directory of its --out.")
    return directories


def runs_in(out: Path) -> list[Path]:
    """`out` where it is a run, and those of each kind where it is what --out made. None: neither."""
    return [path for path in (out, *_of_kinds(out)) if (path / "strata.db").exists()]


def _try(expressions: Sequence[str], out: Path, sizes: list[str], where: written.Where) -> list[Path]:
    """One run for each kind, for a run has one set of workloads. A role that only some stacks have keeps its size.

    What was begun before goes on, for the runs are kept.
    """
    stacks = [stack for text in expressions for stack in parse_stacks(text, layers.catalogue())]
    known = {role for stack in stacks for role in stack.disks()}
    unused = [size for size in sizes if size.partition("=")[0] not in known]
    if unused:
        raise BadInput(
            f"--size {unused[0]}: no stack uses that disk role; the roles in use are {', '.join(sorted(known))}."
        )
    orders = []
    for kind, group in _by_kind(stacks).items():
        loads = [name for name, load in workloads.catalogue().items()
                 if name.startswith(PREFIX) and kind in load.accepts]  # fmt: skip
        roles = {role for stack in group for role in stack.disks()}
        here = [size for size in sizes if size.partition("=")[0] in roles]
        texts, once = [stack.text for stack in group], running.Decide(rounds=1)
        orders.append(running.Asked(texts, loads, out / str(kind), where, once, here, as_json=True))
    lock.check_group(out, [str(kind) for kind in _KINDS], _PAGE)
    _check_labs(orders)
    return [running.carry_out(order) for order in orders]


def _check_labs(orders: Sequence[running.Asked]) -> None:
    """Raises Refused before the first of them begins: hours later nobody looks."""
    campaigns = [written.campaign(order.what, order.loads, order.sizes, order.where) for order in orders]
    reasons = [reason for each in campaigns if each.testbed.kind == "lab" for reason in in_lab.unbuilt(each)]
    if reasons:
        raise Refused(list(dict.fromkeys(reasons)))


def _failed(view: View) -> bool:
    return bool(view.failed) or any(trial.outcome is not Outcome.OK for trial in view.trials)


def _of_kinds(out: Path) -> list[Path]:
    return [out / str(kind) for kind in _KINDS]


def matrix_of(directories: Sequence[Path]) -> matrix.Matrix:
    views = [reader.view(directory) for directory in directories]
    for view, directory in zip(views, directories, strict=True):
        if not any(load.name.startswith(PREFIX) for load in view.workloads):
            raise BadInput(f"{directory} is a run in which no feature was tried; give the --out of `strata features`.")
    stacks = {
        stack.text: stack
        for view, directory in zip(views, directories, strict=True)
        for stack in kept_stacks.stacks(view, str(directory))
    }
    return matrix.build(views, stacks, documents())


def _by_kind(stacks: Sequence[Stack]) -> dict[Kind, list[Stack]]:
    found: dict[Kind, list[Stack]] = {}
    for stack in stacks:
        kind = ends_in(stack, layers.drivers())
        if kind is None or kind not in _KINDS:
            raise BadInput(
                f"{stack.text} ends in a {kind}; features are tried on {', '.join(_KINDS[:-1])} and {_KINDS[-1]}."
            )
        found.setdefault(kind, []).append(stack)
    return {kind: found[kind] for kind in _KINDS if kind in found}
