"""`container/lifecycle`: containers created, started, stopped and removed, every one of them timed."""

from __future__ import annotations

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

_OPERATIONS = {
    "create": "making a container",
    "start": "starting it, until its first program runs",
    "stop": "asking it to stop, which it does at once",
    "remove": "removing it with what it wrote",
}
# Slower than this per container and operation is not a result any more.
_PATIENCE_S = 60.0


class Lifecycle(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/lifecycle",
        about=(
            "Containers from a local image, unpacked before, are created, then started, then stopped, then removed, "
            "each timed by itself, and the end of what is deleted in the background is waited for; all of them run at "
            "once in between, which is checked."
        ),
        params=(
            Param("count", ParamType.INT, "how many containers", default=10, minimum=1, maximum=1000, positional=True),
            Param("parallel", ParamType.INT, "how many operations at a time", default=1, minimum=1, maximum=1000),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric(
                "lifecycle_s",
                "s",
                "lower",
                "time of creating, starting, stopping and removing all of them, until nothing of them is left",
                merge="largest",
            ),
            *(metric for name, about in _OPERATIONS.items() for metric in _batch.operation_metrics(name, about)),
            Metric(
                "settle_s",
                "s",
                "lower",
                "time until nothing of what was removed is left on the stack",
                merge="largest",
            ),
        ),
        primary="lifecycle_s",
        accepts=frozenset({Kind.ENGINE}),
        tools=_image.TOOLS,
    )  # fmt: skip

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, count, parallel = target.path, int(spec["count"] or 1), int(spec["parallel"] or 1)
        names = [f"c{number}" for number in range(1, count + 1)]
        phases = (
            _on_engine.created(client, names, parallel),
            _on_engine.each(client, "start", names, parallel),
            Phase("check", [(client, "count")], expect=str(count)),
            _on_engine.each(client, "stop", names, parallel),
            _on_engine.each(client, "remove", names, parallel),
            Phase("settle", [(client, "settle")]),
        )
        return _on_engine.trial(
            scratch, [_image.make(client, scratch, spec, seed)], phases, 600.0 + _PATIENCE_S * count
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, (*_OPERATIONS, "settle"))
        figures = {
            "lifecycle_s": sum(done[name].wall_s for name in (*_OPERATIONS, "settle")),
            "settle_s": done["settle"].wall_s,
        }
        for name in _OPERATIONS:
            figures |= _batch.operation_figures(name, done[name])
        return Measured(metrics=figures)


WORKLOADS: tuple[Workload, ...] = (Lifecycle(),)
