"""What a run tells whoever watches it. Carries nothing that anybody needs later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunStarted:
    stacks: int
    skipped: int
    visits_done: int
    visits_planned: int


@dataclass(frozen=True, slots=True)
class VisitStarted:
    stack: str
    round: int
    number: int  # 1-based, of this run and those it continues from
    planned: int


@dataclass(frozen=True, slots=True)
class StepStarted:
    what: str  # "make the ext4 file system", "fio/randrw-75-25", "remove: ..."


@dataclass(frozen=True, slots=True)
class TrialEnded:
    stack: str
    workload: str
    primary: tuple[str, float, str] | None  # metric, value, unit; None when it failed
    reason: str | None
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VisitEnded:
    stack: str
    failure: str | None
    took_s: float
    done: int
    planned: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Decided:
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something a person should know: leftovers removed, a stack skipped, a limit reached."""

    text: str


Progress = RunStarted | VisitStarted | StepStarted | TrialEnded | VisitEnded | Decided | Noted
Listener = Callable[[Progress], None]
