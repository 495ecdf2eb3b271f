"""Snapshots of what is below, held while it is measured; or taken one by one meanwhile, as a backup does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from strata.layers._condition import ANYTHING, steps_of
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    Call,
    Command,
    Completed,
    Facts,
    LayerInfo,
    Meanwhile,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

INFO = LayerInfo(
    name="snapshot",
    about="Takes snapshots of the nearest layer below that can, and holds them.",
    params=(
        Param("held", ParamType.INT, "how many", default=1, minimum=1, maximum=1000),
        Param(
            "every",
            ParamType.TIME,
            "take them one by one while workloads are measured, the first as one begins, and the next after this time; "
            "without it all are taken before",
            minimum=0.1,
        ),
    ),
    accepts=ANYTHING,
    provides=None,
    needs="snapshot",
    metrics=(Metric("snapshot.held", "count", "neither", "snapshots that were held when the trial ended"),),
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


class SnapshotDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        taking = _taking(spec, below)  # what cannot be done is known before anything is built
        # An engine that makes volumes in the pool has them beside the one whose snapshots are held: it would be
        # measured as if there were none.
        given = replace(below[0], thin_pool=None)
        if spec["every"] is None:
            return given
        lines = [shlex.join(step.do.argv) for step in taking]
        longest_s = max(step.do.timeout_s for step in taking)
        begin = sh(_BEGIN, place.dir, f"{spec['every']:g}", *lines)
        end = sh(_END, place.dir, timeout_s=longest_s)
        return replace(given, meanwhile=(*given.meanwhile, Meanwhile(begin, end, below[0].guest)))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        taking = _taking(spec, below)
        if spec["every"] is None:
            return taking
        # They are taken later, and removed as ever.
        return [replace(step, do=run("true"), why=f"be ready to {step.why}") for step in taking if step.undo]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [] if spec["every"] is None else [sh(_SHOW, place.dir)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        if spec["every"] is None:
            return []
        shown = output(seen, 0)
        if shown is None:
            return [f"snapshot: what was taken is not known: {said(seen, 0)}."]
        taken, _, why = shown.stdout.partition("\n")
        return [f"snapshot: the one after {taken} could not be taken: {why.strip()}."] if why.strip() else []

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [] if spec["every"] is None else [sh(_SHOW, place.dir)]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        if spec["every"] is None:
            return {"snapshot.held": float(int(spec["held"] or 1))}
        shown = output(seen, 0)
        return {"snapshot.held": float(shown.stdout.split()[0])} if shown else {}


def _taking(spec: Call, below: Sequence[Provides]) -> list[Step]:
    return steps_of(INFO.name, INFO.needs, below[0], int(spec["held"] or 1))


DRIVER = SnapshotDriver()
