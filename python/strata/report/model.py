"""Everything a report shows, as plain frozen data that turns into JSON. Renderers lay it out and add nothing.

A number is held once as `value` in the unit named beside it (None: missing) and once as the `text` that people read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERSION = 1  # of the JSON forms; raised when a field changes its meaning or goes

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Cell:
    """`span` is the interval or range as people read it, with `low` and `high` as its ends; "" where there is none."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    span: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str = ""
    about: str = ""
    numeric: bool = True
    better: Better = "neither"


@dataclass(frozen=True, slots=True)
class Row:
    head: str
    cells: tuple[Cell, ...]
    key: str = ""  # the number by which charts call this stack
    mark: str = ""  # "best" or "leads": shown as a badge
    tied: bool = False  # in the group that may be the best


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    id: str
    title: str
    head: str  # title of the row heads
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class IntervalMark:
    key: str
    label: str
    point: float | None
    low: float | None
    high: float | None
    text: str
    tied: bool = False


@dataclass(frozen=True, slots=True)
class IntervalChart:
    """A point and its interval for each stack."""

    id: str
    title: str
    unit: str
    alt: str
    marks: tuple[IntervalMark, ...]
    reference: float | None = None  # drawn as a line
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    visit: int
    round: int
    value: float
    flagged: bool


@dataclass(frozen=True, slots=True)
class DotRow:
    key: str
    label: str
    dots: tuple[Dot, ...]
    middle: float | None = None  # the stack's estimate, where there is one


@dataclass(frozen=True, slots=True)
class DotChart:
    """Each visit a dot, each stack a row."""

    id: str
    title: str
    unit: str
    alt: str
    rows: tuple[DotRow, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    key: str  # the stack's number
    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class PercentileChart:
    """A line for each stack; x is the percentile (50, 99, 99.9), y the latency."""

    id: str
    title: str
    unit: str
    alt: str
    percentiles: tuple[float, ...]
    lines: tuple[Line, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """One stack's visits over time; x in seconds since the trial began. `key` of a line is the visit's number."""

    key: str
    label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class SeriesChart:
    """Small multiples with the same axes."""

    id: str
    title: str
    unit: str
    alt: str
    panels: tuple[SeriesPanel, ...]
    longest_s: float
    largest: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    id: str
    text: str
    about: str
    figures: tuple[Fact, ...]  # what each metric is
    tables: tuple[Table, ...]
    dots: DotChart | None
    percentiles: tuple[PercentileChart, ...]
    percentile_tables: tuple[Table, ...]
    series: tuple[SeriesChart, ...]
    layers: tuple[Table, ...]  # what the layers report of themselves: bytes before and after compression, hits ...
    machine: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """In the metric's declared unit."""

    point: float | None
    low: float | None
    high: float | None
    unit: str
    better: Better
    n: int  # visits behind it; for a ratio, rounds that both stacks have


@dataclass(frozen=True, slots=True)
class Standing:
    """One ranked stack.

    `metrics` is workload -> metric -> estimate; `against_leader` is workload -> ratio, above 1 better than the leader.
    """

    key: str
    stack: str
    visits: int
    tied: bool
    decision: str  # "leader", "better", "worse", "equivalent" or "undecided", against the leader
    score: float  # above 1: better than the mean of the stacks
    ratio: Estimate | None  # of its score to the leader's
    against_leader: dict[str, Estimate]
    metrics: dict[str, dict[str, Estimate]]
    best: float | None = None  # P(this is the best), where a model says


@dataclass(frozen=True, slots=True)
class Verdict:
    sentence: str
    more: tuple[str, ...]
    best: str | None
    tied: tuple[str, ...]
    undecided: bool
    sure: float | None = None  # P(the stack named is within the margin of the best), where a model says


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A stack that was skipped, or that could run and has no place in the ranking."""

    stack: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Risk:
    """A documented risk of a stack as it is written."""

    layer: str
    text: str
    source: str
    remedy: str  # how to lessen it
    severity: int  # 5: the gravest
    loses: str  # by what acknowledged data can be lost, "power" or "device"; "": by nothing that is documented

    @property
    def sentence(self) -> str:
        return f"{self.layer}: {self.text} ({self.source}). To lessen it: {self.remedy}."


@dataclass(frozen=True, slots=True)
class StackRisks:
    """The documented risks of one stack, the gravest first."""

    key: str  # in the ranking; "": it has no place there
    stack: str
    risks: tuple[Risk, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a program of a failed trial wrote, or a file that it left."""

    command: str
    exit_code: int
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A visit that failed, or (with `workload`) a trial that failed or was not to be trusted."""

    visit: int
    stack: str
    workload: str | None
    outcome: str  # "failed" or "invalid"
    what: str  # what and when, for people
    reason: str
    evidence: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt at a visit that ended with its machine."""

    visit: int
    stack: str
    what: str  # which visit, and what became of it, for people
    reason: str
    console: str  # the last lines that the machine wrote


@dataclass(frozen=True, slots=True)
class DiskUsed:
    """Machine-readable; `text` is for people."""

    role: str
    size_bytes: int
    device: str | None
    model: str | None
    write_cache: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    about: str
    trials: int
    count: str  # `trials` for people
    stacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warned:
    kind: str
    stack: str | None  # None: it concerns all of them
    workload: str | None
    text: str


@dataclass(frozen=True, slots=True)
class StackCommands:
    key: str
    stack: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrialNote:
    visit: int
    stack: str
    workload: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportModel:
    version: int
    campaign: str
    about: str
    verdict: Verdict
    weights: dict[str, float]  # of the workloads, that decided
    caveats: tuple[str, ...]  # stand beside every figure
    testbed: str
    progress: str
    standings: tuple[Standing, ...]
    ranking: Table
    ranking_chart: IntervalChart | None
    leading: str  # said where charts leave stacks out; "" when they hold all
    unranked: tuple[LeftOut, ...]
    risks: tuple[StackRisks, ...]  # of stacks that have any, in the order of the ranking
    workloads: tuple[WorkloadSection, ...]
    provisioning: Table | None
    steps: Table | None
    warnings: tuple[Warned, ...]
    flags: tuple[Flag, ...]
    failed: tuple[Failure, ...]
    lost: tuple[Lost, ...]
    skipped: tuple[LeftOut, ...]
    notes: tuple[TrialNote, ...]
    method: tuple[Fact, ...]
    events: tuple[Fact, ...]
    machine: tuple[Fact, ...]
    disks: tuple[DiskUsed, ...]
    versions: tuple[Fact, ...]
    seed: int  # of the order of visits, and on the virtual clock of the first round
    commands: tuple[StackCommands, ...]
    glossary: tuple[Fact, ...]
    machine_figures: tuple[Fact, ...]  # what each metric recorded beside a trial is
    footer: str
