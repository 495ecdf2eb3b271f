"""What a campaign would do on a machine: which stacks can run and why not, how long, how much room. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from strata.campaign import DiskSpec
from strata.errors import BadInput, Problem
from strata.model import (
    Beside,
    Call,
    Command,
    Disk,
    Facts,
    Guest,
    GuestImage,
    Kind,
    LayerDriver,
    Metric,
    Stack,
    Step,
    Workload,
)
from strata.run import directories, expected, layout, machine, trial_steps, unfit
from strata.run.directories import Directory
from strata.run.sites import GuestLook
from strata.run.together import APART, OVERLAP
from strata.units import human_size

# The file system that carries sparse files must not run full under us: metadata and other users need room too.
_KEEP_FREE_SHARE = 0.02

# Programs that Strata itself calls around every visit.
TOOLS = ("sh", "mkdir", "rm", "sync", "blockdev", "losetup", "lsblk", "wipefs", "findmnt", "readlink")

# Of a visit that is only planned.
_NO_RUN = "0" * 32
_AMPLE_BYTES = 1 << 40  # of a disk, where it is to stop nothing
_ENGINE = "strata-engine"
_PORT = 10809  # a guest of a lab is told the ports that are free then


@dataclass(frozen=True, slots=True)
class Plan:
    """What can run, with all that the run loop needs."""

    stacks: tuple[Stack, ...]  # all of the campaign
    runnable: tuple[Stack, ...]
    skipped: Mapping[str, tuple[str, ...]]  # stack -> every reason
    workloads: tuple[tuple[Call, Workload, Metric], ...]  # with the metric that decides
    disks: tuple[Disk, ...]
    memory_bytes: int  # what can cache the data: all of the machine's, until something enforces a budget
    memory_budget_bytes: int | None  # as the campaign states it
    machine_metrics: tuple[Metric, ...]
    seconds_per_visit: float
    growth_bytes: int  # what the sparse files of one visit can grow to
    directories: Mapping[str, Directory]  # the user's own, by path
    guest_image: GuestImage | None = None  # what the guests of these stacks start from
    ports: bool = False  # they belong to a lab machine, into which a port leads for each


def make(
    stacks: Sequence[Stack],
    workloads: Sequence[tuple[Call, Workload]],
    drivers: Mapping[str, LayerDriver],
    facts: Facts,
    disks: Sequence[Disk],
    memory_budget_bytes: int | None,
    own: Mapping[str, Directory] | None = None,
    others: Mapping[str, Facts] | None = None,
    guests: GuestLook | None = None,
    unreadable: Collection[str] = (),
) -> Plan:
    """`own`: what was seen of the user's directories, by path; of one that is not in it nothing is known.
    `others`: the machines of stacks (by text) that another machine than that of `facts` carries.
    `guests`: what is known of guests there; None when no stack starts one. `unreadable`: files that arguments name and
    that the machine of `facts` cannot read.

    Raises BadInput when a workload cannot run at all, or the machine has no room for the files.
    """
    own, others = own or {}, others or {}
    inside = guests.facts if guests is not None else None
    machines = [facts, *(carrier for carrier in others.values() if carrier != facts)]
    if inside is not None:
        machines.append(inside)
    refused = [
        [(call.text, reason) for call, workload in workloads for reason in workload.reasons_not_to_run(call, carrier)]
        for carrier in machines
    ]
    # What no machine can run is wrong with the campaign; what one of them cannot, with the stacks that it carries.
    problems = [
        Problem(reason.removeprefix(f"{call}: "), where=call)
        for call, reason in refused[0]
        if all((call, reason) in each for each in refused)
    ]
    skipped: dict[str, tuple[str, ...]] = {}
    known: dict[int, dict[str, list[str]]] = {}
    growth_bytes = 0
    takes_s: list[float] = []
    loads = expected.planned(workloads)
    sizes = _Sizes(disks)
    for stack in stacks:
        misfits = sizes.shortage(stack) + unfit.of_arity(stack, drivers)
        outer = carrier = others.get(stack.text, facts)
        has_guest = unfit.starts_guest(stack.top, drivers)
        reasons = unfit.of_layers(stack, drivers, carrier, inside, known) + misfits
        if has_guest:
            reasons += guests.reasons if guests is not None else ()
            carrier = inside or facts
        reasons += [reason for _, reason in refused[machines.index(carrier)]]
        reasons += unfit.of_target(stack, workloads, drivers)
        reasons += unfit.of_existing(stack, workloads)
        reasons += unfit.of_asked(stack, workloads, drivers, carrier)
        reasons += unfit.of_machines(stack, workloads, drivers, carrier)
        reasons += unfit.of_load_memory(stack, workloads, drivers, carrier)
        reasons += unfit.of_files(stack, drivers, unreadable)
        reasons += unfit.of_nested(stack, drivers)
        reasons += unfit.of_order(stack, drivers)
        reasons += unfit.of_forgetful(stack, drivers)
        reasons += unfit.of_queue(stack, drivers)
        reasons += unfit.of_tenants(stack, [call for call, _ in workloads], drivers)
        rehearsals = 0
        path = directories.of(stack) if own else None
        directory = own.get(path or "")
        if directory is not None:
            free = directory.free_bytes
            usable = None if free is None else int(free * (1 - _KEEP_FREE_SHARE))
            reasons += (reason for each in directories.all_of(stack) if each in own for reason in own[each].reasons)
            reasons += unfit.of_room(usable, f"{path} has", workloads) if not directory.reasons else ()
            try:
                laid_out = _laid_out(stack, drivers, disks, "/", filesystem=directory.filesystem)
                rehearsals = laid_out.top.rehearsals
                reasons += unfit.of_images(stack, drivers, f"{path}", directory.free_bytes)
            except BadInput as error:
                reasons += [str(problem) for problem in error.problems]
        elif not misfits:
            try:
                reasons += unfit.of_memory(stack, drivers, guests)
                ports = guests is not None and guests.ports
                top = _laid_out(stack, drivers, disks, "/", ports=ports).top
                rehearsals = top.rehearsals
                reasons += unfit.of_room(top.size_bytes, "the stack has", workloads)
            except BadInput as error:
                reasons += [str(problem) for problem in error.problems]
        if reasons:
            skipped[stack.text] = tuple(dict.fromkeys(reasons))
        else:
            growth_bytes = max(growth_bytes, sizes.growth(stack))
            takes_s.append(expected.visit_s(stack, loads, drivers, outer, inside, rehearsals))
    if growth_bytes > facts.free_bytes * (1 - _KEEP_FREE_SHARE):
        problems.append(
            Problem(
                f"the disk files of one visit can grow to {human_size(growth_bytes)}, and only "
                f"{human_size(facts.free_bytes)} are free there; make them smaller (--size), give devices (--device), "
                "or, on this machine, run with --out on a larger disk."
            )
        )
    if problems:
        raise BadInput(problems)
    runnable = tuple(stack for stack in stacks if stack.text not in skipped)
    return Plan(
        stacks=tuple(stacks),
        runnable=runnable,
        skipped=skipped,
        workloads=tuple((call, workload, workload.primary_of(call)) for call, workload in workloads),
        disks=tuple(disks),
        memory_bytes=facts.memory_bytes,
        memory_budget_bytes=memory_budget_bytes,
        machine_metrics=_machine_metrics(stacks, drivers, own),
        seconds_per_visit=sum(takes_s) / len(takes_s) if takes_s else 0.0,
        growth_bytes=growth_bytes,
        directories=own,
        guest_image=guests.image if guests is not None else None,
        ports=guests is not None and guests.ports,
    )


def disks_for(stacks: Iterable[Stack], specs: Mapping[str, DiskSpec], claimed: Sequence[Disk]) -> tuple[Disk, ...]:
    """As many disks of each role as the hungriest stack takes: claimed ones where given, else files of ours.

    A role is either claimed or made of files: mixing real and file disks in one array would measure neither.
    """
    need: dict[str, int] = {}
    for stack in stacks:
        for role, count in stack.disks().items():
            need[role] = max(need.get(role, 0), count)
    given = {disk.role for disk in claimed}
    unused = given - need.keys()
    if unused:
        raise BadInput(
            f"no stack takes a disk of the role {', '.join(sorted(unused))}; the roles are {', '.join(sorted(need))}."
        )
    files = [
        Disk(role, spec.size_bytes, None, spec.model, spec.write_cache)
        for role, count in need.items()
        if role not in given
        for spec in [specs.get(role, DiskSpec())]
        for _ in range(count)
    ]
    return (*claimed, *files)


def tools(drivers: Iterable[LayerDriver], workloads: Iterable[Workload]) -> set[str]:
    """Every program that the facts must tell the version of."""
    names = set(TOOLS)
    for driver in drivers:
        names.update(driver.info.tools)
    for workload in workloads:
        names.update(workload.info.tools)
    return names


def commands(plan: Plan, stack: Stack, drivers: Mapping[str, LayerDriver], work_dir: str) -> list[str]:
    """Every command of a stack's visit as it would be typed, in order: build, read back, measure, remove."""
    laid_out = _laid_out(stack, drivers, plan.disks, work_dir, plan.guest_image, ports=plan.ports)
    directory = plan.directories.get(directories.of(stack) or "", Directory())
    inside = laid_out.top.guest
    devices = laid_out.block_devices(inside) or [("disk", device) for device in directory.devices]
    steps: list[tuple[Guest | None, Step]] = [(None, layout.directory_step(laid_out))]
    for level in laid_out.levels():
        steps += [(placed.guest, step) for placed, step in level]
        for placed in {id(placed): placed for placed, _ in level}.values():
            started = placed.provides.guest
            if started is not None and placed.guest is None:
                steps.append((started, layout.guest_directory_step(laid_out, started)))
    lines = ["# build", *_typed([(guest, step.do) for guest, step in steps])]
    lines += ["# read back"]
    lines += _typed([(placed.guest, command) for placed in laid_out.layers for command in placed.inspection()])
    number = 0
    for call, workload, _ in plan.workloads:
        lines.append(f"# measure {call.text}")
        for tenant, top in enumerate(laid_out.tops, start=1):
            if call.tenant not in (None, tenant):
                continue
            if laid_out.shares:
                lines.append(f"# tenant {tenant}, at the same time as the others")
                devices = laid_out.block_devices(top.guest, tenant)
            target, scratch = trial_steps.target_on(top), f"{laid_out.scratch}/{number}"
            number += 1
            trial = workload.plan(call, target, scratch, 0)
            about = (_ENGINE, devices, trial, target, scratch)
            holders = laid_out.holders(top.guest)
            gate = "" if laid_out.shares else f"{scratch}/gate"
            planned = trial_steps.trial_steps(*about, top.rehearsals, top.inside, top.pid_file, holders, gate)
            prepared, measure = planned.prepared(), planned.measure
            commands = [(each.guest, each.reset) for each in top.data_steps[::-1] if each.reset is not None]
            commands += [(top.guest, Command(argv)) for argv in prepared]
            if top.data_steps:
                commands.append((top.guest, planned.quiesce))
                if top.guest is not None:
                    commands.append((None, trial_steps.quiesce(laid_out.holders())))
                commands += [(each.guest, each.do) for each in top.data_steps]
            commands += [(top.guest, planned.quiesce), (top.guest, planned.forget)]
            if top.guest is not None:
                commands += [
                    (None, trial_steps.quiesce(laid_out.holders())),
                    (None, trial_steps.forget(laid_out.holders())),
                ]
            commands += [(each.guest, each.begin) for each in top.meanwhile]
            commands.append((top.guest, measure))
            commands += [(each.guest, each.end) for each in top.meanwhile]
            lines += _typed([*commands, *((top.guest, command) for command in planned.remove)])
    lines.append("# remove")
    # What is in a guest first: ending the guest would end it too.
    backwards = steps[::-1]
    backwards.sort(key=lambda placed: (placed[0] is None, not placed[1].do.beside))
    return lines + _typed([(guest, step.undo) for guest, step in backwards if step.undo])


def _typed(commands: Iterable[tuple[Guest | None, Command]]) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class _Sizes:
    disks: Sequence[Disk]

    def _of(self, role: str) -> list[Disk]:
        return [disk for disk in self.disks if disk.role == role]

    def shortage(self, stack: Stack) -> list[str]:
        return [
            f"it takes {count} disks of the role {role} and {len(self._of(role))} are given; add --device {role}=..."
            for role, count in stack.disks().items()
            if count > len(self._of(role))
        ]

    def growth(self, stack: Stack) -> int:
        return sum(
            disk.size_bytes
            for role, count in stack.disks().items()
            for disk in self._of(role)[:count]
            if disk.device is None
        )


def misplaced(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """Why no machine can build it, by its layers alone; none: nothing is known against it."""
    reasons = unfit.of_arity(stack, drivers) + unfit.of_nested(stack, drivers) + unfit.of_order(stack, drivers)
    reasons += unfit.of_forgetful(stack, drivers) + unfit.of_queue(stack, drivers)
    if not reasons:
        disks = [Disk(role, _AMPLE_BYTES) for role, count in stack.disks().items() for _ in range(count)]
        try:
            _laid_out(stack, drivers, disks, "/")
        except BadInput as error:
            reasons += [str(problem) for problem in error.problems]
    return list(dict.fromkeys(reasons))


def _laid_out(
    stack: Stack,
    drivers: Mapping[str, LayerDriver],
    disks: Sequence[Disk],
    work_dir: str,
    guest_image: GuestImage | None = None,
    *,
    ports: bool = False,
    filesystem: str | None = None,
) -> layout.Layout:
    count = layout.guest_count(stack, drivers) if ports else 0
    reaches = [Beside(f"{work_dir}/guest{number}", _PORT, _PORT) for number in range(1, count + 1)]
    return layout.lay_out(
        stack,
        drivers,
        disks,
        work_dir=work_dir,
        run_uuid=_NO_RUN,
        attempt=1,
        guest_image=guest_image,
        beside=reaches,
        filesystem=filesystem,
    )


def _machine_metrics(
    stacks: Iterable[Stack], drivers: Mapping[str, LayerDriver], own: Mapping[str, Directory]
) -> tuple[Metric, ...]:
    used = {node.call.name for stack in stacks for node in stack.top.walk()}
    blocks = {
        node.call.name
        for stack in stacks
        for node in stack.top.walk()
        if drivers[node.call.name].info.provides is Kind.BLOCK
    }
    if own:
        blocks.add("disk")  # what the user's directory lies on
    return (
        *machine.HOST_METRICS,
        *((OVERLAP, APART) if any(drivers[layer].info.forks for layer in used) else ()),
        *(machine.GUEST_METRICS if any(drivers[layer].info.starts_guest for layer in used) else ()),
        *(metric for layer in sorted(blocks) for metric in machine.device_metrics(layer)),
        *(metric for layer in sorted(used) for metric in drivers[layer].info.metrics),
    )
