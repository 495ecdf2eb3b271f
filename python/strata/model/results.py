"""What a run stored: trials, visits, events, and the view of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from strata.model.hardware import Disk, Facts, Testbed
from strata.model.metric import Metric


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"  # no figure
    INVALID = "invalid"  # a figure that an instrument check rejects; kept, never ranked


@dataclass(frozen=True, slots=True)
class TrialResult:
    visit: int
    stack: str
    round: int  # 0-based; every stack is visited once in a round
    order: int  # position in the whole run, 0-based
    workload: str  # canonical text of the workload's call
    outcome: Outcome
    reason: str | None  # why it failed or is invalid
    started_at: float  # Unix time by the host, seconds
    wall_s: float | None
    metrics: Mapping[str, float]
    series: Mapping[str, tuple[tuple[float, float], ...]]  # 1 s series of workload and machine figures
    flags: tuple[str, ...]  # names of `flags.FLAGS`, or those of another version
    notes: tuple[str, ...]
    number: int = 0  # of its files in samples/


@dataclass(frozen=True, slots=True)
class StepTime:
    visit: int
    stack: str
    layer: str  # canonical text of the layer's call
    why: str
    create_s: float | None
    remove_s: float | None


@dataclass(frozen=True, slots=True)
class WorkloadView:
    text: str
    name: str
    primary: Metric
    metrics: Mapping[str, Metric]


@dataclass(frozen=True, slots=True)
class Skipped:
    stack: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedVisit:
    visit: int
    stack: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Loss:
    """An attempt at a visit that ended with its machine. It says nothing of the stack, and does not count."""

    visit: int
    stack: str
    round: int
    reason: str
    console: str  # the last lines that the machine wrote; "" when there are none


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a program of a failed trial said, or a file that it left (as if typed out). Long texts by their end."""

    visit: int
    stack: str
    workload: str
    command: str  # as typed
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Event:
    at: float  # Unix time, seconds
    kind: str  # "decision", "quarantine", "warning", "interrupted", "resumed", "budget" ...
    text: str


Design = Literal["auto", "rounds", "race", "adaptive"]
"""How visits are chosen; "auto": by the number of stacks and what they have in common (`design.choice`)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How the campaign decides."""

    rounds: int = 5
    within: float = 0.03  # stacks closer than this fraction are as good as each other
    confidence: float = 0.95
    budget_s: float | None = None
    design: Design = "rounds"
    certify: bool = False  # after the design is sure: fresh rounds of the shortlist, judged without the model
    objective: str = ""  # as written (`analysis.objective`); "": all workloads weigh the same


@dataclass(frozen=True, slots=True)
class View:
    """Everything stored about one run, frozen: what analysis and reports get, and all they get."""

    campaign: str
    about: str
    seed: int
    rule: Rule
    stacks: tuple[str, ...]  # canonical, in the order of the campaign; skipped ones too
    workloads: tuple[WorkloadView, ...]
    trials: tuple[TrialResult, ...]  # of visits that are done
    steps: tuple[StepTime, ...]
    skipped: tuple[Skipped, ...]
    failed: tuple[FailedVisit, ...]
    events: tuple[Event, ...]
    visits_planned: int
    visits_done: int
    facts: Facts | None
    versions: Mapping[str, str]  # strata, engine, and every tool used
    commands: Mapping[str, tuple[str, ...]]  # stack -> the commands of its first visit, as typed
    disks: tuple[Disk, ...]
    machine_metrics: Mapping[str, Metric] = field(default_factory=dict)  # recorded beside every trial
    halted: tuple[Skipped, ...] = ()  # visited before, but cannot run any more; these are not in `skipped`
    testbed: Testbed = field(default_factory=Testbed)
    losses: tuple[Loss, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # only where it was asked for: it can be long
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # stack -> factor -> level
    open_visits: tuple[tuple[int, str], ...] = ()  # (round, stack), planned and not done, in order
    profile: str | None = None  # of the campaign file
