"""The interface of workload drivers, and a trial as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from strata.model.hardware import Facts
from strata.model.kinds import Kind
from strata.model.layer_info import Work
from strata.model.metric import Metric
from strata.model.stack import Call
from strata.model.step import Command, Step
from strata.model.workload_info import WorkloadInfo


@dataclass(frozen=True, slots=True)
class Target:
    """Where a trial runs. `path` is a fresh directory, or a block device whose content may be overwritten."""

    kind: Kind
    path: str
    size_bytes: int | None
    on_existing: bool = False  # what lies below belongs to the user: nothing but `path` may be touched


@dataclass(frozen=True, slots=True)
class TrialOutput:
    """What a workload left behind, for its `read`."""

    exit_code: int
    wall_s: float  # of the measured command, by the host's monotonic clock
    stdout: str
    stderr: str
    files: Mapping[str, str]  # name in `collect` -> content; absent when the file was not written


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """What a workload did to its target in a trial, where that is one plain pattern."""

    random: bool  # at even random places; else in order
    block_bytes: int
    span_bytes: int  # of the target that it reaches; less than that where it is not known exactly
    depth: int  # requests at a time, of all jobs together
    direct: bool  # bypassing the page cache
    durable: bool  # each write is acknowledged when it is on stable storage (O_DSYNC, or an fsync after it)
    seconds: float
    reads_per_s: float
    writes_per_s: float


LARGEST_FIGURE = 1e30
"""What is stored of a figure at most: products and quotients of a few stay finite."""


@dataclass(frozen=True, slots=True)
class Measured:
    metrics: Mapping[str, float]  # names that the workload declared, or that are in `extra`
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)  # metric -> (s, value) at 1 s
    groups: tuple[int, ...] = ()  # places in the series where a further group of jobs begins, after the one before
    bytes_read: int | None = None  # by the application
    bytes_written: int | None = None
    extra: tuple[Metric, ...] = ()  # figures a user's script named itself
    notes: tuple[str, ...] = ()  # shown beside the trial
    pattern: AccessPattern | None = None
    raw: Mapping[str, Any] | None = None  # what it was read from, by strata/run/records.py


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A trial as data: nothing in it depends on talking to the machine while it runs."""

    prepare: tuple[Command, ...]  # off the clock; caches are dropped after it
    measure: Command  # on the clock
    collect: Mapping[str, str]  # name -> path of a file to bring back
    put: Mapping[str, str] = field(default_factory=dict)  # path on the host -> content, before `prepare`
    expect_s: float | None = None  # how long `measure` should take, when that is known and the same on every machine
    work: Work = field(default_factory=Work)  # what it takes beyond that, by the machine
    buffered: bool = False  # goes through the page cache: marked as cached unless the data set is large enough
    unsynced: bool = False  # the figure that decides ends before the sync: it is that of the page cache
    uses_up: bool = False  # `measure` needs what was prepared as it was, and changes it: prepared again before another
    earlier: bool = False  # the figure is of what was done before: what machines did meanwhile says nothing of it
    cleanup: Step | None = (
        None  # of what `measure` changes beside its directories: `do` goes before it, `undo` after it
    )
    gated: Command | None = None  # `measure` has a start of its own, and so passes the gate of strata/gate.py after it


class Workload(Protocol):
    info: WorkloadInfo

    def primary_of(self, spec: Call) -> Metric:
        """The metric that decides: `info.primary`, but for `@study`, which its run time decides."""

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        """As for layers."""

    def checks(self, spec: Call) -> list[Command]:
        """Commands that touch nothing and must succeed before a campaign starts (a job file that fio accepts)."""

    def data_bytes(self, spec: Call) -> int:
        """How much room it needs in the target; 0 if little."""

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        """`scratch` is an empty directory outside the target for job files and logs."""

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        """Raises WorkloadFailed with the reason when there is no figure to trust."""


@runtime_checkable
class Hungry(Protocol):
    """A workload whose program takes so much memory for itself that a guest may not have it, or a layer that keeps its
    data in memory."""

    def memory_bytes(self, spec: Call) -> int:
        """All of its threads together, the page cache left out; of a layer, what it keeps when it is full."""
