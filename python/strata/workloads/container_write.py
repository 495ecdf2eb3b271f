"""`container/write`: what writing to a container's own layer costs."""

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

_MIB = 1 << 20

# One byte more in a file of the image: what keeps whole files copies all of it first.
_COPY_UP = "echo >>/large && sync /large"

# $1 how many files of 4 KiB, all on the disk at the end.
SMALL = """\
mkdir /small && number=0
block=$(dd if=/dev/zero bs=4096 count=1 2>/dev/null | tr '\\0' x)
while [ "$number" -lt "$1" ]; do printf %s "$block" >"/small/$number" || exit 1; number=$((number + 1)); done
sync -f /small/0 && [ "$(wc -c </small/0)" -eq 4096 ]"""

_OPERATIONS = {
    "copy_up": "adding a byte to a large file of the image, and forcing that to the disk",
    "small": "writing many small files in a container, and forcing them to the disk",
}


class Write(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/write",
        about=(
            "In running containers, one after another: a byte is added to a large file of the image, then many files "
            "of 4 KiB are written; both to the container's own layer, and forced to the disk."
        ),
        params=(
            Param("count", ParamType.INT, "how many containers", default=3, minimum=1, maximum=1000, positional=True),
            Param("large", ParamType.SIZE, "size of the large file", default=128 * _MIB, minimum=_MIB),
            Param("small", ParamType.INT, "how many small files", default=1000, minimum=1, maximum=1_000_000),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric("write_s", "s", "lower", "time of both in all containers", merge="largest"),
            *(metric for name, about in _OPERATIONS.items() for metric in _batch.operation_metrics(name, about)),
            Metric("small_files_per_s", "1/s", "higher", "small files written per second", merge="sum"),
        ),
        primary="write_s",
        accepts=frozenset({Kind.ENGINE}),
        tools=_image.TOOLS,
    )

    def data_bytes(self, spec: Call) -> int:
        count = int(spec["count"] or 1)
        return int(spec["size"] or 0) + (1 + count) * int(spec["large"] or 0) + 8192 * count * int(spec["small"] or 1)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, count = target.path, int(spec["count"] or 1)
        names = [f"c{number}" for number in range(1, count + 1)]
        small = ("/bin/sh", "-c", SMALL, "sh", str(spec["small"]))
        phases = (
            _on_engine.created(client, names),
            _on_engine.each(client, "start", names),
            Phase("copy_up", [(client, "exec", name, "/bin/sh", "-c", _COPY_UP) for name in names]),
            Phase("small", [(client, "exec", name, *small) for name in names]),
            _on_engine.each(client, "remove", names),
        )
        return _on_engine.trial(
            scratch, [_image.make(client, scratch, spec, seed, int(spec["large"] or 0))], phases, 600.0 + 600.0 * count
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, tuple(_OPERATIONS))
        figures = {"write_s": sum(done[name].wall_s for name in _OPERATIONS)}
        for name in _OPERATIONS:
            figures |= _batch.operation_figures(name, done[name])
        files = int(spec["count"] or 1) * int(spec["small"] or 1)
        return Measured(metrics={**figures, "small_files_per_s": files / done["small"].wall_s})


WORKLOADS: tuple[Workload, ...] = (Write(),)
