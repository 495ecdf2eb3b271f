"""What stacks can do, as it was tried, with what documents say otherwise: everything that is shown of it, frozen."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from strata.advice.judge import claimed
from strata.advice.tried import holds, printed, reason, trials
from strata.judge.risks import documented_risks
from strata.model import Kind, Stack, TrialResult, View
from strata.probes import PREFIX, probes
from strata.probes._undo import MAKE_NOTES, REMOVE_NOTES, UNDO
from strata.published.documented import Documents
from strata.published.tables import printed_of, tables
from strata.report.numbers import number, scale_for

VERSION = 1
_SAMPLED = " sample --out "  # in the command of a trial

_TITLES = {
    Kind.DIRECTORY: "Directories",
    Kind.BLOCK: "Block devices",
    Kind.IMAGE: "Disk images",
    Kind.ENGINE: "Container engines",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One feature of one stack."""

    feature: str
    holds: bool | None  # None: it was not tried, and nothing is known
    why: str  # what showed it, or why it was not tried
    figures: Mapping[str, float] = field(default_factory=dict)  # in the units that the probe declares
    texts: tuple[str, ...] = ()  # the same for people
    took_s: float | None = None
    printed: str = ""  # by the probe, NAME=VALUE, of which the answer was made
    earlier: bool = False  # another script tried it than the one that is shown

    @property
    def answer(self) -> str:
        return {True: "yes", False: "no", None: "not tried"}[self.holds]


@dataclass(frozen=True, slots=True)
class Risk:
    text: str
    source: str
    remedy: str = ""
    loses: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    key: str  # short, for tables: "a3"
    stack: str
    cells: tuple[Cell, ...]  # in the order of the group's features; none where it could not be built
    without: tuple[str, ...]  # why it could not be built, or what failed
    commands: tuple[str, ...]  # that built it and took it away, as typed
    risks: tuple[Risk, ...]  # that documents note


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    means: str
    how: str  # what the probe does
    script: str


@dataclass(frozen=True, slots=True)
class Group:
    """Stacks that end in the same kind of thing, and so were asked the same."""

    title: str
    where: str  # machine, kernel
    caveats: tuple[str, ...]
    features: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What was found of a stack, and what documents say of it."""

    stack: str
    feature: str
    found: bool
    why: str
    by: str  # who says otherwise
    says: str
    source: str


@dataclass(frozen=True, slots=True)
class Dispute:
    """The same answer of several stacks, where the same documents say otherwise."""

    feature: str
    found: bool
    seen: tuple[tuple[tuple[str, ...], str], ...]  # stacks, and what showed it of each of them
    documents: tuple[tuple[str, str, str], ...]  # who says otherwise, what, and the source


@dataclass(frozen=True, slots=True)
class Matrix:
    groups: tuple[Group, ...]
    features: tuple[Feature, ...]
    disagreements: tuple[Disagreement, ...]
    untried: tuple[str, ...]  # sentences: what tables say that nothing here tries
    agreements: int  # cells of which every table and document that says anything says what was found
    version: int = VERSION

    @property
    def disputes(self) -> tuple[Dispute, ...]:
        """Every disagreement once, in the order in which they were found."""
        said: dict[tuple[str, bool, str, str], dict[tuple[str, str, str], None]] = {}
        for each in self.disagreements:
            document = (each.by, each.says, each.source)
            said.setdefault((each.feature, each.found, each.stack, each.why), {})[document] = None
        alike: dict[tuple[str, bool, tuple[tuple[str, str, str], ...]], dict[str, list[str]]] = {}
        for (feature, found, stack, why), documents in said.items():
            alike.setdefault((feature, found, tuple(documents)), {}).setdefault(why, []).append(stack)
        return tuple(
            Dispute(feature, found, tuple((tuple(stacks), why) for why, stacks in seen.items()), documents)
            for (feature, found, documents), seen in alike.items()
        )


def build(views: Sequence[View], stacks: Mapping[str, Stack], known: Documents) -> Matrix:
    """`views`: runs of the workloads `feature/...`; `stacks`: by their texts, as they are parsed today."""
    groups = tuple(_group(view, "abcdefgh"[number], stacks, known) for number, view in enumerate(views))
    used = dict.fromkeys(name for group in groups for name in group.features)
    said_of: set[tuple[str, str]] = set()
    disagreed = []
    for group in groups:
        for row in group.rows:
            for feature, said in _said(row, stacks.get(row.stack), known):
                said_of.add((row.stack, feature))
                if said is not None:
                    disagreed.append(said)
    return Matrix(
        groups,
        tuple(_feature(name, known) for name in used),
        tuple(disagreed),
        tuple(
            f"{table.system} {table.version}, {row.printed}: {row.untried}"
            for table in tables()
            for row in table.rows
            if row.feature is None
        ),
        len(said_of - {(each.stack, each.feature) for each in disagreed}),
    )


def _feature(name: str, known: Documents) -> Feature:
    probe = probes().get(name)
    if probe is None:
        return Feature(name, "This Strata has no such probe", "The one that tried it has.", "")
    return Feature(probe.name, known.features.get(probe.name, probe.about), probe.about, probe.script)


def _group(view: View, key: str, stacks: Mapping[str, Stack], known: Documents) -> Group:
    names = [load.name.removeprefix(PREFIX) for load in view.workloads if load.name.startswith(PREFIX)]
    kinds = [kind for kind in _TITLES if all(kind in probes()[name].accepts for name in names if name in probes())]
    # of those the one that could not have been asked more
    kinds.sort(key=lambda kind: sum(kind in probe.accepts for probe in probes().values()))
    facts = view.facts
    return Group(
        title=_TITLES[kinds[0]] if kinds else view.campaign,
        where="" if facts is None else f"{facts.os}, kernel {facts.kernel_text}",
        caveats=() if facts is None else facts.caveats,
        features=tuple(names),
        rows=tuple(
            _row(f"{key}{number}", stack, view, names, stacks.get(stack), known)
            for number, stack in enumerate(view.stacks, 1)
        ),
    )


def _row(key: str, text: str, view: View, names: Sequence[str], stack: Stack | None, known: Documents) -> Row:
    found = trials(view).get(text, {})
    without = [reason for skip in (*view.skipped, *view.halted) if skip.stack == text for reason in skip.reasons]
    without += [failed.reason for failed in view.failed if failed.stack == text]
    # only what built it: the scripts of the probes are shown once
    of_probes = (_SAMPLED, *map(shlex.quote, (MAKE_NOTES, UNDO, REMOVE_NOTES)))
    commands = tuple(line for line in view.commands.get(text, ()) if not any(part in line for part in of_probes))
    ran = _scripts(view.commands.get(text, ()))
    risks = (
        ()
        if stack is None
        else tuple(Risk(f"{r.layer}: {r.text}", r.source, r.remedy, r.loses) for r in documented_risks(stack, known))
    )
    cells = tuple(_cell(name, found.get(name), ran) for name in names) if found else ()
    if not found and not without:
        without = ["it was not visited yet"]
    return Row(key, text, cells, tuple(without), commands, risks)


def _scripts(commands: Sequence[str]) -> set[str]:
    """Those that were carried out on a stack, from its commands as typed."""
    lines = [shlex.split(line) for line in commands if _SAMPLED in line]
    return {words[words.index("-c") + 1] for words in lines if "-c" in words[:-1]}


def _cell(name: str, trial: TrialResult | None, ran: Collection[str]) -> Cell:
    """`ran`: the scripts that were carried out on the stack."""
    if trial is None:
        return Cell(name, None, "the visit ended before it")
    answer = holds(trial)
    why = trial.reason if answer is None and trial.reason else reason(name, trial)
    metrics = {metric.name: metric for metric in probes()[name].metrics} if name in probes() else {}
    figures = {each: value for each, value in trial.metrics.items() if each in metrics}
    return Cell(
        name,
        answer,
        why,
        figures,
        tuple(f"{metrics[each].about}: {_text(metrics[each].unit, value)}" for each, value in figures.items()),
        trial.metrics.get("probe_s", trial.wall_s),
        printed(trial),
        name in probes() and bool(ran) and probes()[name].script not in ran,
    )


def _text(unit: str, value: float) -> str:
    scale = scale_for(unit, [value])
    return f"{number(scale.of(value))} {scale.unit}"


def _said(row: Row, stack: Stack | None, known: Documents) -> Iterator[tuple[str, Disagreement | None]]:
    """The feature of everything that is said of what was tried; None beside it where that is what was found."""
    cells = {cell.feature: cell for cell in row.cells if cell.holds is not None}
    for table in printed_of(row.stack):
        cell = cells.get(table.feature)
        if cell is None or cell.holds is None:
            continue
        condition = f" ({table.condition})" if table.condition else ""
        says = f"{table.printed}, {table.backend}: {'yes' if table.holds else 'no'}{condition}"
        by = f"{table.system}, {table.backend}"
        wrong = Disagreement(row.stack, table.feature, cell.holds, cell.why, by, says, table.source)
        yield table.feature, wrong if table.holds is not cell.holds else None
    for name, (says_so, source) in ({} if stack is None else claimed(stack, known)).items():
        cell = cells.get(name)
        if cell is None or cell.holds is None:
            continue
        says = "yes" if says_so else "no"
        wrong = Disagreement(row.stack, name, cell.holds, cell.why, "documents of its layers", says, source)
        yield name, wrong if says_so is not cell.holds else None
