"""Snapshots of what is below, held while it is measured; or taken one by one meanwhile, as a backup does.

Those that are held are taken when the data of a workload exist, so that every write of the load to them is a write
against a snapshot (docs/decisions/0052).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.errors import BadInput
from strata.layers._condition import ANYTHING, steps_of
from strata.layers._device import fields, first
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    Call,
    Command,
    Completed,
    DataStep,
    Facts,
    LayerInfo,
    Meanwhile,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Snapshots,
    Step,
)

INFO = LayerInfo(
    name="snapshot",
    about="Holds snapshots of the nearest layer below that can, taken when the data of a workload exist.",
    params=(
        Param(
            "held",
            ParamType.INT,
            "how many; 0 takes none and reports the same figures, to compare with",
            default=1,
            minimum=0,
            maximum=1000,
        ),
        Param(
            "every",
            ParamType.TIME,
            "take them one by one while workloads are measured, the first as one begins, and the next after this time; "
            "without it all are taken between preparing a workload and measuring it, and removed before the next",
            minimum=0.1,
        ),
    ),
    accepts=ANYTHING,
    provides=None,
    needs="snapshot",
    metrics=(
        Metric("snapshot.held", "count", "neither", "snapshots that were held when the trial ended"),
        Metric(
            "snapshot.shared_bytes",
            "bytes",
            "neither",
            "data that a snapshot shared with what was measured when it was taken; of thick LVM the whole volume",
        ),
        Metric(
            "snapshot.kept_bytes",
            "bytes",
            "lower",
            "room taken since: by old data that the snapshots keep, and by what the load added",
        ),
        Metric("snapshot.take_s", "s", "lower", "time to take them all"),
    ),
)

# $1 directory, $2 seconds between two, the rest: what takes each of them, as a shell reads it. In a later trial the
# first that is not taken yet comes next. What is being taken is taken to its end.
_BEGIN = """\
dir=$1 every=$2; shift 2
rm -f -- "$dir/stop" "$dir/ended"
take() {
  taken=$(cat "$dir/taken" 2>/dev/null) && shift "$taken"
  for snapshot; do
    if [ -e "$dir/stop" ]; then break; fi
    if ! sh -c "$snapshot"; then : > "$dir/failed"; break; fi
    taken=$((taken + 1)); echo "$taken" > "$dir/taken"
    sleep "$every" & echo $! > "$dir/pause"; wait $!
  done
  : > "$dir/ended"
}
take "$@" < /dev/null > "$dir/said" 2>&1 &"""

# $1 directory
_END = """\
: > "$1/stop"
until [ -e "$1/ended" ]; do kill "$(cat "$1/pause")"; sleep 0.1; done 2>/dev/null"""

_SHOW = 'cat "$1/taken" 2>/dev/null || echo 0; if [ -e "$1/failed" ]; then cat "$1/said"; fi'

# $1 directory, $2 what prints what is held, the rest: what takes each of them, as a shell reads it.
_TAKE = """\
dir=$1 look=$2; shift 2
began=$(date +%s%N)
for snapshot; do sh -c "$snapshot" || exit 1; done
took=$(($(date +%s%N) - began))
{ sh -c "$look" && echo "took_ns=$took"; } > "$dir/taken\""""

# $1 directory. Nothing where no workload was prepared yet.
_NONE_TO_TAKE = "snapshot(held=0) takes none, so there is nothing to do every so often; leave every= out."

_SHOW_TAKEN = 'cat -- "$1/taken" 2>/dev/null || true'


class SnapshotDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        if spec["every"] is not None and not spec["held"]:
            reasons.append(_NONE_TO_TAKE)
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        taking = _taking(spec, below[0])  # what cannot be done is known before anything is built
        # An engine that makes volumes in the pool has them beside the one whose snapshots are held: it would be
        # measured as if there were none.
        given = replace(below[0], thin_pool=None, held=True)
        lines, guest = [shlex.join(step.do.argv) for step in taking], below[0].guest
        if spec["every"] is None:
            held = _held(below[0])
            longest_s = held.look.timeout_s + sum(step.do.timeout_s for step in taking)
            take = sh(_TAKE, place.dir, shlex.join(held.look.argv), *lines, timeout_s=longest_s)
            return replace(given, data_steps=(*given.data_steps, DataStep(take, held.drop, guest)))
        longest_s = max(step.do.timeout_s for step in taking)
        begin = sh(_BEGIN, place.dir, f"{spec['every']:g}", *lines)
        end = sh(_END, place.dir, timeout_s=longest_s)
        return replace(given, meanwhile=(*given.meanwhile, Meanwhile(begin, end, guest)))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        # They are taken later, and removed with the visit.
        taking = _taking(spec, below[0])
        return [replace(step, do=run("true"), why=f"be ready to {step.why}") for step in taking if step.undo]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW if spec["every"] is not None else _SHOW_TAKEN, place.dir)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is None:
            return [f"snapshot: what was taken is not known: {said(seen, 0)}."]
        if spec["every"] is None:
            held = first(fields(seen, 0), "held")
            if held in (None, str(spec["held"])):  # None: no data were there yet to take one of
                return []
            return [f"snapshot: {held} are held instead of {spec['held']}."]
        taken, _, why = shown.stdout.partition("\n")
        return [f"snapshot: the one after {taken} could not be taken: {why.strip()}."] if why.strip() else []

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        if spec["every"] is not None:
            return [sh(_SHOW, place.dir)]
        return [sh(_SHOW_TAKEN, place.dir), _held(below[0]).look]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        if spec["every"] is not None:
            shown = output(seen, 0)
            return {"snapshot.held": float(shown.stdout.split()[0])} if shown else {}
        before, after = (_numbers(fields(seen, index)) for index in range(2))
        found = {}
        if "held" in after:
            found["snapshot.held"] = after["held"]
        if "shared" in before:
            found["snapshot.shared_bytes"] = before["shared"] if before.get("held") else 0.0
        if "room" in before and "room" in after:
            found["snapshot.kept_bytes"] = max(after["room"] - before["room"], 0.0)
        if "took_ns" in before:
            found["snapshot.take_s"] = before["took_ns"] / 1e9
        return found


def _taking(spec: Call, below: Provides) -> list[Step]:
    """Raises BadInput when nothing below can, or it cannot."""
    count = int(spec["held"] or 0)
    if spec["every"] is not None:
        if not count:
            raise BadInput(_NONE_TO_TAKE)
        return steps_of(INFO.name, INFO.needs, below, count)
    steps_of(INFO.name, INFO.needs, below, max(count, 1))
    if any(step.reset == _held(below).drop for step in below.data_steps):
        raise BadInput("snapshots of the same layer are held already; write one snapshot(held=N), with all of them.")
    return _held(below).take(count)


def _held(below: Provides) -> Snapshots:
    if below.snapshots is None:
        raise BadInput("snapshot(held=N) needs something below it that can hold snapshots; take it out, or add every=.")
    return below.snapshots


def _numbers(state: Mapping[str, Sequence[str]]) -> dict[str, float]:
    found = {name: first(state, name) or "" for name in ("held", "shared", "room", "took_ns")}
    return {name: float(value) for name, value in found.items() if value.isascii() and value.isdecimal()}


DRIVER = SnapshotDriver()
