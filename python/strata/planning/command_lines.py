"""Every command of a visit as it would be typed, in order: build, read back, measure, remove. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from strata.model import Call, Command, Guest, LayerDriver, Provides, Stack, Step, Workload
from strata.planning import layout, trial_steps, user_directory
from strata.planning.layout import Layout
from strata.planning.plan import Plan
from strata.planning.user_directory import UserDirectory

_ENGINE = "strata-engine"

_Placed = tuple[Guest | None, Command]  # a command and the guest that it is typed in; None: the machine itself


def of_visit(plan: Plan, stack: Stack, drivers: Mapping[str, LayerDriver], work_dir: str) -> list[str]:
    """Return one line for each command, and comments that say what follows and where it is typed.

    Raises BadInput for a stack that cannot be laid out on the disks of `plan`.
    """
    on = layout.planned(stack, drivers, plan.disks, work_dir, plan.guest_image, ports=plan.ports)
    directory = plan.directories.get(user_directory.path_of(stack) or "", UserDirectory())
    steps = _building(on)
    lines = ["# build", *_typed([(guest, step.do) for guest, step in steps]), "# read back"]
    lines += _typed([(placed.guest, command) for placed in on.layers for command in placed.inspection()])
    lines += _measuring(on, [(call, workload) for call, workload, _ in plan.workloads], directory)
    lines.append("# remove")
    # What is in a guest first: ending the guest would end it too.
    backwards = steps[::-1]
    backwards.sort(key=lambda placed: (placed[0] is None, not placed[1].do.beside))
    return lines + _typed([(guest, step.undo) for guest, step in backwards if step.undo])


def _building(on: Layout) -> list[tuple[Guest | None, Step]]:
    steps: list[tuple[Guest | None, Step]] = [(None, layout.directory_step(on))]
    for level in on.levels():
        steps += [(placed.guest, step) for placed, step in level]
        for placed in {id(placed): placed for placed, _ in level}.values():
            started = placed.provides.guest
            if started is not None and placed.guest is None:
                steps.append((started, layout.guest_directory_step(on, started)))
    return steps


def _measuring(on: Layout, workloads: Sequence[tuple[Call, Workload]], directory: UserDirectory) -> list[str]:
    lines: list[str] = []
    number = 0
    for call, workload in workloads:
        lines.append(f"# measure {call.text}")
        for tenant, top in enumerate(on.tops, start=1):
            if call.tenant not in (None, tenant):
                continue
            if on.shares:
                lines.append(f"# tenant {tenant}, at the same time as the others")
                devices = on.block_devices(top.guest, tenant)
            else:
                devices = on.block_devices(top.guest) or [("disk", device) for device in directory.devices]
            lines += _typed(_trial(on, top, devices, call, workload, f"{on.scratch}/{number}"))
            number += 1
    return lines


def _trial(
    on: Layout, top: Provides, devices: Sequence[tuple[str, str]], call: Call, workload: Workload, scratch: str
) -> list[_Placed]:
    target = trial_steps.target_on(top)
    plan = workload.plan(call, target, scratch, 0)
    holders = on.holders(top.guest)
    gate = "" if on.shares else f"{scratch}/gate"
    about = (_ENGINE, devices, plan, target, scratch)
    steps = trial_steps.trial_steps(*about, top.rehearsals, top.inside, top.pid_file, holders, gate)
    outside: list[_Placed] = [] if top.guest is None else [(None, trial_steps.quiesce(on.holders()))]
    commands: list[_Placed] = [(each.guest, each.reset) for each in top.data_steps[::-1] if each.reset is not None]
    commands += [(top.guest, Command(argv)) for argv in steps.prepared()]
    if top.data_steps:
        commands += [(top.guest, steps.quiesce), *outside, *((each.guest, each.do) for each in top.data_steps)]
    commands += [(top.guest, steps.quiesce), (top.guest, steps.forget), *outside]
    if top.guest is not None:
        commands.append((None, trial_steps.forget(on.holders())))
    commands += [(each.guest, each.begin) for each in top.meanwhile]
    commands.append((top.guest, steps.measure))
    commands += [(each.guest, each.end) for each in top.meanwhile]
    return [*commands, *((top.guest, command) for command in steps.remove)]


def _typed(commands: Iterable[_Placed]) -> list[str]:
    """With a line wherever one guest, or the machine outside, takes over from another."""
    lines: list[str] = []
    now: Guest | str | None = None
    for guest, command in commands:
        where = "beside" if command.beside else guest
        if where != now:
            beside = "# beside, on the machine that Strata runs on" if command.beside else "# outside"
            lines.append(f"# in the guest {guest.name}" if guest else beside)
            now = where
        lines.append(shlex.join(command.argv))
    return lines
