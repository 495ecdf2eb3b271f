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

# By a program of the machine's, since busybox has none that writes many files of random content.
_SPLIT = "/usr/bin/split"

# $1 how many files of 4 KiB of random content, all on the disk at the end.
SMALL = f"""\
mkdir /small && head -c "$((4096 * $1))" /dev/urandom | {_SPLIT} --bytes=4096 --suffix-length=5 - /small/f &&
  sync -f /small/faaaaa"""

_COUNT = "find /small -type f -size 4096c | wc -l"

_OPERATIONS = {
    "copy_up": "adding a byte to a large file of the image, and forcing that to the disk",
    "small": "writing many small files in a container, and forcing them to the disk",
}


class Write(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/write",
        about=(
            "In running containers, one after another: a byte is added to a large file of the image, then many files "
            "of 4 KiB of random content are written; both to the container's own layer, and forced to the disk."
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
        tools={**_image.TOOLS, "split": "coreutils"},
    )

    def data_bytes(self, spec: Call) -> int:
        count = int(spec["count"] or 1)
        return int(spec["size"] or 0) + (1 + count) * int(spec["large"] or 0) + 8192 * count * int(spec["small"] or 1)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, count = target.path, int(spec["count"] or 1)
        names = [f"c{number}" for number in range(1, count + 1)]
        small = ("/bin/sh", "-c", SMALL, "sh", str(spec["small"]))
        count_files = [(client, "exec", name, "/bin/sh", "-c", _COUNT) for name in names]
        phases = (
            _on_engine.created(client, names, volumes=(_image.PROGRAMS,)),
            _on_engine.each(client, "start", names),
            # Read into memory before the clock: the program lies on the machine's own disk.
            Phase("ready", [(client, "exec", name, _SPLIT, "--version") for name in names]),
            Phase("copy_up", [(client, "exec", name, "/bin/sh", "-c", _COPY_UP) for name in names]),
            Phase("small", [(client, "exec", name, *small) for name in names]),
            Phase("check", count_files, expect=str(spec["small"])),
            _on_engine.each(client, "remove", names),
        )
        make = _image.make(client, scratch, spec, seed, int(spec["large"] or 0), programs=True)
        return _on_engine.trial(scratch, [make], phases, 600.0 + 600.0 * count)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, tuple(_OPERATIONS))
        figures = {"write_s": sum(done[name].wall_s for name in _OPERATIONS)}
        for name in _OPERATIONS:
            figures |= _batch.operation_figures(name, done[name])
        files = int(spec["count"] or 1) * int(spec["small"] or 1)
        return Measured(metrics={**figures, "small_files_per_s": files / done["small"].wall_s})


WORKLOADS: tuple[Workload, ...] = (Write(),)
