"""`instance/NAME`: what LXD and Incus do with whole instances, each time of it timed by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata.model import (
    Call,
    Kind,
    Measured,
    Metric,
    Param,
    ParamType,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
    WorkloadInfo,
)
from strata.workloads import _batch, _image, _on_engine
from strata.workloads._batch import Phase

_FIRST = "first"
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class _Operation:
    name: str
    about: str  # completes "time of"
    words: Callable[[int, str], tuple[str, ...]]  # (number, scratch) -> verb of the client and its arguments
    before: Callable[[int, str], tuple[str, ...]] | None = None  # what has to be there for it


_OPERATIONS = (
    _Operation("copy", "copying an instance", lambda n, _: ("copy", _FIRST, f"copy{n}")),
    _Operation("snapshot", "taking a snapshot of an instance", lambda n, _: ("snapshot", _FIRST, f"snap{n}")),
    _Operation(
        "restore",
        "putting an instance back to its latest snapshot",
        lambda n, _: ("restore", _FIRST, "snap"),
        lambda n, _: ("snapshot", _FIRST, "snap"),
    ),
    _Operation("publish", "making an image of an instance", lambda n, _: ("publish", _FIRST, f"image{n}")),
    _Operation("export", "writing an instance to a file beside the stack",
               lambda n, scratch: ("export", _FIRST, f"{scratch}/export{n}.tar.gz")),
    _Operation("import", "making an instance from such a file",
               lambda n, scratch: ("import", f"{scratch}/export.tar.gz", f"import{n}"),
               lambda n, scratch: ("export", _FIRST, f"{scratch}/export.tar.gz")),
)  # fmt: skip


class InstanceOperation(_on_engine.OnEngine):
    def __init__(self, operation: _Operation) -> None:
        self._operation = operation
        self.info = WorkloadInfo(
            name=f"instance/{operation.name}",
            about=f"LXD or Incus: {operation.about}, again and again.",
            params=(
                Param("count", ParamType.INT, "how many times", default=5, minimum=1, maximum=1000, positional=True),
                _image.FILES,
                _image.SIZE,
            ),
            metrics=(
                Metric("median_s", "s", "lower", f"middle time of {operation.about}"),
                *_batch.operation_metrics(operation.name, operation.about),
            ),
            primary="median_s",
            accepts=frozenset({Kind.ENGINE}),
            tools=_image.TOOLS,
            asks=operation.name,
        )

    def data_bytes(self, spec: Call) -> int:
        return 2 * int(spec["size"] or 0)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, count, operation = target.path, int(spec["count"] or 1), self._operation
        before = [] if operation.before is None else [(client, *operation.before(0, scratch))]
        phases = (
            Phase("create", [(client, "create", _image.IMAGE, _FIRST, "--", *_image.STAY), *before]),
            Phase(operation.name, [(client, *operation.words(n, scratch)) for n in range(1, count + 1)]),
        )
        return _on_engine.trial(scratch, [_image.make(client, scratch, spec, seed)], phases, _PATIENCE_S * (1 + count))

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, (self._operation.name,))[self._operation.name]
        figures = _batch.operation_figures(self._operation.name, done)
        return Measured(metrics={"median_s": _batch.median(done.took_s), **figures})


WORKLOADS: tuple[Workload, ...] = tuple(InstanceOperation(operation) for operation in _OPERATIONS)
