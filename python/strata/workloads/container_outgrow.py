"""`container/outgrow`: a container that writes until it is refused, and whether base size and storage path hold."""

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
from strata.units import human_size
from strata.workloads import _batch, _image, _on_engine
from strata.workloads._batch import Phase

_MIB = 1 << 20
# Of random content, written again and again: nothing compresses it.
_BLOCK = 4 * _MIB

# $1 how many blocks at most. What was refused must not be written to the same root, so it is kept in a variable.
# Prints how many bytes are there, all of them on the disk, and why there are no more.
_GROW = """\
number=0 said=
while [ "$number" -lt "$1" ]; do
  said=$(cat /large 2>&1 >>/grown) || { said=${said:-refused}; break; }
  number=$((number + 1))
done
sync /grown || said=${said:-not written}
wc -c </grown; echo "$said\""""

# Engines write to the root of a container as they stop and remove it, which some cannot where it is full: Podman under
# quotas, Incus on ZFS. ZFS gives room back a while later.
_EMPTY = "rm -f /grown || (: >/grown); sync; sync; true"

# Where refusal says something of the base size: it counts the image too, and what the file system keeps for itself.
_NEAR = 0.5
# What a container wrote must be found where the engine was told to keep it; a file system may have had some room
# allocated before.
_FOUND = 0.8
_LOOKS = ("without", "before", "after")
_SLOWEST = 1 * _MIB


class Outgrow(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/outgrow",
        about=(
            "A container writes to its own root until it is refused or has written a stated amount: whether its base "
            "size and the engine's storage path are honoured at all."
        ),
        params=(
            Param("most", ParamType.SIZE, "where it stops if nothing stops it; more than the base size to see whether "
                  "that holds", default=1536 * _MIB, minimum=_BLOCK, positional=True),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric("grown_bandwidth", "MiB/s", "higher", "bytes per second that the container could write, all of them "
                   "on the disk", merge="sum"),
            Metric("grown_bytes", "bytes", "neither", "what it could write", merge="sum"),
            Metric("refused", "ratio", "neither", "1: it was refused more; 0: it stopped by itself", merge="none"),
            Metric("base_size_bytes", "bytes", "neither", "how large the engine was told to let a container's root be",
                   merge="none"),
            Metric("base_size_honoured", "ratio", "higher", "1: it was refused at its base size; 0: it grew beyond it"),
            Metric("storage_path_honoured", "ratio", "higher", "1: what it wrote was found where the engine was told "
                   "to keep containers; 0: it is elsewhere"),
        ),
        primary="grown_bandwidth",
        accepts=frozenset({Kind.ENGINE}),
        tools=_image.TOOLS,
    )  # fmt: skip

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, most = target.path, int(spec["most"] or 0)
        blocks = -(-most // _BLOCK)
        grow = (client, "exec", "c1", "/bin/sh", "-c", _GROW, "sh", str(blocks))
        phases = (
            Phase("room without", [(client, "room")], keep=True),
            _on_engine.created(client, ["c1"]),
            _on_engine.each(client, "start", ["c1"]),
            Phase("base", [(client, "base")], keep=True),
            Phase("room before", [(client, "room")], keep=True),
            Phase("grow", [grow], keep=True),
            Phase("room after", [(client, "room")], keep=True),
            Phase("empty", [(client, "exec", "c1", "/bin/sh", "-c", _EMPTY)]),
            _on_engine.each(client, "remove", ["c1"]),
        )
        make = _image.make(client, scratch, spec, seed, _BLOCK)
        return _on_engine.trial(scratch, [make], phases, 1200.0 + most / _SLOWEST)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, ("room without", "base", "room before", "grow", "room after"))
        lines = done["grow"].printed[0].splitlines()
        try:
            grown, base = int(lines[0]), done["base"].printed[0]
            without, before, after = (int(done[f"room {when}"].printed[0].split()[0]) for when in _LOOKS)
        except (ValueError, IndexError) as error:
            raise WorkloadFailed("the container does not say how much it wrote; report this as a bug") from error
        said = lines[1].strip() if len(lines) > 1 else ""
        found = after - before >= _FOUND * grown
        if base.isdecimal():
            # containerd's blockfile takes all the room of a container as it is made.
            found = found or before - without >= _FOUND * int(base)
        figures = {
            "grown_bandwidth": grown / _MIB / done["grow"].wall_s,
            "grown_bytes": float(grown),
            "refused": float(bool(said)),
            "storage_path_honoured": float(found),
        }
        notes = [f"after {human_size(grown)} it was refused: {said}"] if said else []
        if base.isdecimal():
            figures["base_size_bytes"] = float(base)
            if grown > int(base):
                figures["base_size_honoured"] = 0.0
            elif said and grown >= _NEAR * int(base):
                figures["base_size_honoured"] = 1.0
            else:
                ended = "what is below was full before" if said else "it stopped before; give a larger `most`"
                notes.append(f"nothing is known of the base size of {human_size(int(base))}: {ended}")
        return Measured(metrics=figures, bytes_written=grown, notes=tuple(notes))


WORKLOADS: tuple[Workload, ...] = (Outgrow(),)
