"""`container/density`: what one more container takes."""

from __future__ import annotations

from strata.errors import WorkloadFailed
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

_PATIENCE_S = 60.0
_MEMORY = ("awk", '$1 == "MemAvailable:" { print $2 * 1024 }', "/proc/meminfo")


class Density(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/density",
        about=(
            "Containers of one local image are started side by side, after one that is not counted: how much room, how "
            "many inodes and how much memory each of them takes, all together by their number."
        ),
        params=(
            Param("count", ParamType.INT, "how many containers", default=10, minimum=1, maximum=1000, positional=True),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric("bytes_per_container", "bytes", "lower", "room that one more running container takes"),
            Metric("inodes_per_container", "count", "lower", "inodes that it takes, where the file system counts them"),
            Metric("memory_per_container", "bytes", "lower", "memory that it takes of the machine, its engine's too"),
            *_batch.operation_metrics("start", "starting a container"),
        ),
        primary="bytes_per_container",
        accepts=frozenset({Kind.ENGINE}),
        tools={**_image.TOOLS, "awk": "mawk"},
    )

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, count = target.path, int(spec["count"] or 1)
        names = [f"c{number}" for number in range(1, count + 1)]
        phases = (
            # What an engine makes once, for its first container, is not what one more of them takes.
            Phase("first", [(client, "create", _image.IMAGE, "first", "--", *_image.STAY), (client, "start", "first")]),
            Phase("memory before", [_MEMORY], keep=True),
            Phase("room before", [(client, "room")], keep=True),
            _on_engine.created(client, names),
            _on_engine.each(client, "start", names),
            Phase("check", [(client, "count")], expect=str(1 + count)),
            Phase("room after", [(client, "room")], keep=True),
            Phase("memory after", [_MEMORY], keep=True),
            _on_engine.each(client, "remove", ["first", *names]),
        )
        return _on_engine.trial(
            scratch, [_image.make(client, scratch, spec, seed)], phases, 600.0 + _PATIENCE_S * count
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        wanted = ("memory before", "room before", "start", "room after", "memory after")
        done = _batch.read(output, wanted)
        numbers = {name: done[name].printed[0].split() for name in wanted if name != "start"}
        count = int(spec["count"] or 1)

        def grown(name: str, place: int) -> float | None:
            try:
                return float(numbers[f"{name} after"][place]) - float(numbers[f"{name} before"][place])
            except (IndexError, ValueError):
                return None

        room, inodes, memory = grown("room", 0), grown("room", 1), grown("memory", 0)
        if room is None:
            raise WorkloadFailed("the engine does not say how much room it takes; report this as a bug")
        figures = {"bytes_per_container": room / count, **_batch.operation_figures("start", done["start"])}
        # A file system that makes inodes as it needs them says 0 or nothing of them.
        if inodes is not None and inodes != 0:
            figures["inodes_per_container"] = inodes / count
        if memory is not None:
            figures["memory_per_container"] = -memory / count
        return Measured(metrics=figures)


WORKLOADS: tuple[Workload, ...] = (Density(),)
