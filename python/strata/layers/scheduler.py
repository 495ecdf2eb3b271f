"""The I/O scheduler of the disk below, put back when the visit ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._steps import output, said, sh, standard_reasons
from strata.model import (
    BlockBehaviour,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

INFO = LayerInfo(
    name="scheduler",
    about="Sets the I/O scheduler of the disk below and puts the old one back afterwards.",
    params=(
        Param(
            "name",
            ParamType.TEXT,
            "what the kernel offers, such as none, mq-deadline, kyber or bfq",
            positional=True,
            required=True,
        ),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=None,
    block=BlockBehaviour(on_queue=True),
)

_SUCCESSORS = {"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}
"""Single-queue schedulers, gone since Linux 5.0, and what took their place."""

# $1 is a device node or a link to one; a partition has no scheduler of its own, its disk has.
_FIND = """\
node=/sys/class/block/$(basename -- "$(readlink -f -- "$1")")
if [ -e "$node/partition" ]; then node=$(dirname -- "$(readlink -f -- "$node")"); fi
"""

# On some kernels (6.1) a device without a queue has the file, which says "none", and what is written is ignored.
_NO_QUEUE = "it is bio-based and has no I/O scheduler; set the scheduler of the disks below it"
_QUEUE = f'if [ ! -d "$node/mq" ]; then echo "$(basename -- "$node"): {_NO_QUEUE}" >&2; exit 1; fi\n'

_RECORD = _FIND + _QUEUE + 'sed "s/.*\\[//; s/\\].*//" "$node/queue/scheduler" > "$2.new" && mv -- "$2.new" "$2"'

_SET = _FIND + _QUEUE + 'echo "$2" > "$node/queue/scheduler"'

_RESTORE = 'if [ ! -s "$2" ] || [ ! -b "$1" ]; then exit 0; fi\n' + _FIND + 'cat -- "$2" > "$node/queue/scheduler"'

_SHOW = _FIND + _QUEUE + 'cat "$node/queue/scheduler"'


class SchedulerDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        name = spec["name"]
        if isinstance(name, str) and name not in facts.schedulers:
            offered = ", ".join(sorted(facts.schedulers)) or "none at all"
            newer = _SUCCESSORS.get(name)
            then = f"write {newer}, its successor" if newer in facts.schedulers else "choose one of these"
            reasons.append(f"The kernel has no I/O scheduler '{name}' for these disks, only {offered}; {then}.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        device, record = below[0].path, f"{place.dir}/scheduler"
        return [
            Step(
                sh(_RECORD, device, record), sh('rm -f -- "$1" "$1.new"', record), "note the I/O scheduler to put back"
            ),
            Step(
                sh(_SET, device, str(spec["name"])),
                sh(_RESTORE, device, record),
                f"set the I/O scheduler {spec['name']}",
                again=sh(_SET, device, str(spec["name"])),
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, below[0].path)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is None:
            return [f"The I/O scheduler cannot be read: {said(seen, 0)}."]
        chosen = re.search(r"\[([^\]]+)\]", shown.stdout)
        now = chosen[1] if chosen else shown.stdout.strip()
        return [] if now == spec["name"] else [f"The I/O scheduler is '{now}' instead of '{spec['name']}'."]


DRIVER = SchedulerDriver()
