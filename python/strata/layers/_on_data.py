"""Conditions that change the data of a workload: they act when those exist, and say the result of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from strata.layers._condition import steps_of
from strata.layers._device import fields
from strata.layers._driver import PassThrough
from strata.layers._steps import sh
from strata.model import Call, Command, Completed, DataStep, LayerInfo, Place, Provides

# $1 file for what they print, the rest: commands as a shell reads them.
_ACT = """\
record=$1; shift
for command; do sh -c "$command" || exit 1; done > "$record.new" && mv -- "$record.new" "$record\""""

_SHOW = 'cat -- "$1" 2>/dev/null || true'


@dataclass(frozen=True, slots=True)
class OnData(PassThrough):
    """A LayerDriver that has what is below do `info.needs` to all that it stores, between preparing a workload and
    measuring it: on an empty file system there would be nothing to do.

    The steps of that ability print NAME=VALUE lines; `names` leads from these names to metrics.
    """

    info: LayerInfo
    names: tuple[tuple[str, str], ...]

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        steps = steps_of(self.info.name, self.info.needs, below[0], 1)
        lines = [shlex.join(step.do.argv) for step in steps]
        act = sh(_ACT, _record(place), *lines, timeout_s=sum(step.do.timeout_s for step in steps))
        return replace(below[0], data_steps=(*below[0].data_steps, DataStep(act, guest=below[0].guest)))

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, _record(place))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = fields(seen, 0)
        return {
            metric: float(sum(map(int, state[name])))
            for name, metric in self.names
            if name in state and all(value.isascii() and value.isdecimal() for value in state[name])
        }


def _record(place: Place) -> str:
    return f"{place.dir}/acted"
