"""Brings a disk of flash into the state that it has in use: emptied, written over, then written at random until steady.

After the SNIA Solid State Storage Performance Test Specification 2.0.2: purge; preconditioning that does not depend on
the workload (the whole capacity written twice in order, in blocks of 128 KiB); then rounds of random writes of 4 KiB
until the last five have means within 20 % of their average and a least-squares line that moves by at most 10 % of it,
at most 25 rounds. A discard stands for the purge; a disk that takes none is only written over.

mkfs of ext4, xfs, btrfs and f2fs would discard the whole disk again, and all of this would be for nothing: on a disk
that was preconditioned they leave that out (`Provides.in_use`). Discards of files that are deleted go through as ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.errors import BadInput
from strata.layers._driver import Driver
from strata.layers._steps import output, remove_link, run, said, sh
from strata.model import (
    Call,
    Command,
    Completed,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

WINDOW = 5
LARGEST_RANGE_PCT, LARGEST_SLOPE_PCT = 20, 10
_SLOWEST_BYTES_PER_S = 10 << 20  # for the limit of time alone

INFO = LayerInfo(
    name="precondition",
    about="Discards a disk, writes all of it in order, then at random until its speed is steady, as flash is in use.",
    params=(
        Param("passes", ParamType.INT, "how often all of it is written in order", default=2, minimum=0, maximum=100),
        Param("rounds", ParamType.INT, "rounds of random writes at most", default=25, minimum=0, maximum=1000),
        Param("round", ParamType.TIME, "how long one of them takes", default=60.0, minimum=1, maximum=3600),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=None,
    deployed=False,
    tools={"fio": "fio", "blkdiscard": "util-linux"},
    metrics=(
        Metric("precondition.rounds", "count", "neither", "rounds of random writes until the disk was steady"),
        Metric("precondition.iops", "IOPS", "higher", f"random writes in the last {WINDOW} of these rounds"),
        Metric("precondition.unsteady", "count", "lower", "disks that were not steady after the last round"),
    ),
)

# $1 is a device node or a link to one; a partition has no queue of its own, its disk has.
_FIND = """\
node=$(readlink -f -- "$1")
queue=/sys/class/block/$(basename -- "$node")
if [ -e "$queue/partition" ]; then queue=$(dirname -- "$(readlink -f -- "$queue")"); fi
"""

_DISCARD = _FIND + 'if [ "$(cat "$queue/queue/discard_max_bytes")" != 0 ]; then blkdiscard "$node"; fi'

# $2 passes
_WRITE = (
    _FIND
    + """\
fio --name=order --filename="$node" --rw=write --bs=128k --loops="$2" --direct=1 --ioengine=libaio --iodepth=32 \\
  --refill_buffers --output-format=terse --terse-version=3 > /dev/null"""
)

# $2 record, $3 rounds at most, $4 milliseconds, $5 to $7 the window, its largest range and its largest slope in %.
# A line "iops N" for each round, and at the end one that says whether the last window was steady.
_SETTLE = (
    _FIND
    + """\
record=$2
: > "$record"
number=0 state=unsteady
while [ "$number" -lt "$3" ]; do
  number=$((number + 1))
  said=$(fio --name=round --filename="$node" --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=32 \\
    --time_based --runtime="$4ms" --randseed="$number" --refill_buffers --output-format=terse --terse-version=3) ||
    exit 1
  echo "$said" | awk -F ';' '$1 == "3" { print "iops", $49 }' >> "$record"
  state=$(tail -n "$5" "$record" | awk -v window="$5" -v range="$6" -v slope="$7" '
    { n++; sum += $2; cross += (n - (window + 1) / 2) * $2; square += (n - (window + 1) / 2) ^ 2 }
    n == 1 || $2 > high { high = $2 }
    n == 1 || $2 < low { low = $2 }
    END {
      mean = sum / window; moved = (window - 1) * cross / square; if (moved < 0) moved = -moved
      print (n == window && high - low <= range / 100 * mean && moved <= slope / 100 * mean ? "steady" : "unsteady")
    }')
  if [ "$state" = steady ]; then break; fi
done
if [ "$number" -gt 0 ]; then echo "$state" >> "$record"; fi"""
)


class PreconditionDriver(Driver):
    info = INFO

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if below[0].size_bytes is None:
            raise BadInput("precondition writes a whole disk and has to know how large it is; put it right on a disk.")
        return replace(below[0], in_use=True)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        device, record = below[0].path, _record(place)
        passes, rounds, round_s = int(spec["passes"] or 0), int(spec["rounds"] or 0), float(spec["round"] or 60)
        slowest_s = (below[0].size_bytes or 0) / _SLOWEST_BYTES_PER_S
        steps = [Step(sh(_DISCARD, device, timeout_s=600 + slowest_s), None, "discard all of the disk")]
        if passes:
            writing = sh(_WRITE, device, str(passes), timeout_s=600 + passes * slowest_s)
            steps.append(Step(writing, None, f"write all of the disk in order, {passes} times"))
        judged = (str(WINDOW), str(LARGEST_RANGE_PCT), str(LARGEST_SLOPE_PCT))
        settling = sh(
            _SETTLE, device, record, str(rounds), f"{1000 * round_s:.0f}", *judged,
            timeout_s=600 + 2 * rounds * round_s,
        )  # fmt: skip
        steps.append(Step(settling, remove_link(record), "write the disk at random until it is steady"))
        return steps

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("cat", "--", _record(place))]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        told = output(seen, 0)
        if told is None:
            return [f"precondition: what was written is not known: {said(seen, 0)}."]
        done, most = len(_iops(told.stdout)), int(spec["rounds"] or 0)
        if done > most or (done == 0 and most > 0):
            return [f"precondition: {done} rounds of random writes were made instead of 1 to {most}."]
        return []

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("cat", "--", _record(place))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> Mapping[str, float]:
        told = output(seen, 0)
        iops = _iops(told.stdout) if told else []
        if told is None or not iops:
            return {}
        last = iops[-WINDOW:]
        return {
            "precondition.rounds": float(len(iops)),
            "precondition.iops": sum(last) / len(last),
            "precondition.unsteady": float("steady" not in told.stdout.splitlines()),
        }


def _record(place: Place) -> str:
    return f"{place.dir}/preconditioned"


def _iops(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"^iops (\d{1,15})$", text, re.MULTILINE)]


DRIVER = PreconditionDriver()
