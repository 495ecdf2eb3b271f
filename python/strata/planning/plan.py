"""What a campaign would do on a machine: which stacks can run and why not, how long, how much room. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strata.campaign import DiskSpec
from strata.errors import BadInput, Problem
from strata.model import Call, Disk, Facts, GuestImage, Kind, LayerDriver, Metric, Stack, TrialPlan, Workload
from strata.planning import durations, layout, machine_metrics, skip_reasons, user_directory
from strata.planning.resources import Resources
from strata.planning.user_directory import UserDirectory
from strata.units import human_size

# The file system that carries sparse files must not run full under us: metadata and other users need room too.
_KEEP_FREE_SHARE = 0.02

# Programs that Strata itself calls around every visit.
TOOLS = ("sh", "mkdir", "rm", "sync", "blockdev", "losetup", "lsblk", "wipefs", "findmnt", "readlink")

_AMPLE_BYTES = 1 << 40  # of a disk, where it is to stop nothing


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
    directories: Mapping[str, UserDirectory]  # the user's own, by path
    guest_image: GuestImage | None = None  # what the guests of these stacks start from
    ports: bool = False  # they belong to a lab machine, into which a port leads for each


def make(
    stacks: Sequence[Stack],
    workloads: Sequence[tuple[Call, Workload]],
    drivers: Mapping[str, LayerDriver],
    resources: Resources,
) -> Plan:
    """Return what can run with `resources`, and of every other stack all reasons why not.

    Raises BadInput when a workload cannot run at all, or the machine has no room for the files.
    """
    machines = resources.machines()
    refusals = [_refusals(workloads, machine) for machine in machines]
    judge = _Judge(workloads, drivers, resources, machines, refusals)
    assessments = [judge.assess(stack) for stack in stacks]
    able = [each for each in assessments if not each.reasons]
    growth_bytes = max((each.growth_bytes for each in able), default=0)
    if problems := _general_refusals(refusals) + _shortage_of_room(growth_bytes, resources.facts.free_bytes):
        raise BadInput(problems)
    skipped = {each.stack.text: each.reasons for each in assessments if each.reasons}
    guests = resources.guests
    return Plan(
        stacks=tuple(stacks),
        runnable=tuple(stack for stack in stacks if stack.text not in skipped),
        skipped=skipped,
        workloads=tuple((call, workload, workload.primary_of(call)) for call, workload in workloads),
        disks=tuple(resources.disks),
        memory_bytes=resources.facts.memory_bytes,
        memory_budget_bytes=resources.memory_budget_bytes,
        machine_metrics=_machine_metrics(stacks, drivers, resources.directories),
        seconds_per_visit=sum(each.visit_s for each in able) / len(able) if able else 0.0,
        growth_bytes=growth_bytes,
        directories=resources.directories,
        guest_image=guests.image if guests is not None else None,
        ports=guests is not None and guests.ports,
    )


_Refusals = list[tuple[str, str]]  # (workload, reason), of one machine


def _refusals(workloads: Sequence[tuple[Call, Workload]], machine: Facts) -> _Refusals:
    return [
        (call.text, reason) for call, workload in workloads for reason in workload.reasons_not_to_run(call, machine)
    ]


def _general_refusals(refusals: Sequence[_Refusals]) -> list[Problem]:
    """What no machine can run is wrong with the campaign; what one of them cannot, with the stacks that it carries."""
    return [
        Problem(reason.removeprefix(f"{call}: "), where=call)
        for call, reason in refusals[0]
        if all((call, reason) in each for each in refusals)
    ]


def _shortage_of_room(growth_bytes: int, free_bytes: int) -> list[Problem]:
    if growth_bytes <= free_bytes * (1 - _KEEP_FREE_SHARE):
        return []
    problem = (
        f"the disk files of one visit can grow to {human_size(growth_bytes)}, and only {human_size(free_bytes)} are "
        "free there; make them smaller (--size), give devices (--device), or, on this machine, run with --out on a "
        "larger disk."
    )
    return [Problem(problem)]


@dataclass(frozen=True, slots=True)
class _Assessment:
    """One stack: every reason why it cannot run, or what a visit of it takes."""

    stack: Stack
    reasons: tuple[str, ...]
    growth_bytes: int = 0
    visit_s: float = 0.0


@dataclass(slots=True)
class _Judge:
    workloads: Sequence[tuple[Call, Workload]]
    drivers: Mapping[str, LayerDriver]
    resources: Resources
    machines: Sequence[Facts]
    refusals: Sequence[_Refusals]  # of each of `machines`
    _disks: dict[str, list[Disk]] = field(init=False)  # by role
    _loads: list[tuple[Call, TrialPlan]] = field(init=False)
    _answers: dict[int, dict[str, list[str]]] = field(default_factory=dict)  # of layers that were asked before

    def __post_init__(self) -> None:
        self._disks = {}
        for disk in self.resources.disks:
            self._disks.setdefault(disk.role, []).append(disk)
        self._loads = durations.planned(self.workloads)

    def assess(self, stack: Stack) -> _Assessment:
        misfits = self._shortage_of_disks(stack) + skip_reasons.of_arity(stack, self.drivers)
        reasons = self._of_machines(stack, misfits) + self._of_composition(stack)
        path = user_directory.path_of(stack)
        directory = self.resources.directories.get(path or "")
        rehearsals = 0
        if directory is not None:
            others, rehearsals = self._on_user_directory(stack, directory, str(path))
            reasons += others
        elif not misfits:
            others, rehearsals = self._on_disks(stack)
            reasons += others
        if reasons:
            return _Assessment(stack, tuple(dict.fromkeys(reasons)))
        outer, inside = self.resources.carrier(stack), self.resources.guest_facts
        visit_s = durations.visit_s(stack, self._loads, self.drivers, outer, inside, rehearsals)
        return _Assessment(stack, (), self._growth_bytes(stack), visit_s)

    def _of_machines(self, stack: Stack, misfits: Sequence[str]) -> list[str]:
        """Of the machine that carries the stack, and of that which carries the workloads."""
        guests, inside = self.resources.guests, self.resources.guest_facts
        carrier = self.resources.carrier(stack)
        reasons = [*skip_reasons.of_layers(stack, self.drivers, carrier, inside, self._answers), *misfits]
        if skip_reasons.starts_guest(stack.top, self.drivers):
            reasons += guests.reasons if guests is not None else ()
            carrier = inside or self.resources.facts
        reasons += [reason for _, reason in self.refusals[self.machines.index(carrier)]]
        reasons += skip_reasons.of_target(stack, self.workloads, self.drivers)
        reasons += skip_reasons.of_existing(stack, self.workloads)
        reasons += skip_reasons.of_asked(stack, self.workloads, self.drivers, carrier)
        reasons += skip_reasons.of_machines(stack, self.workloads, self.drivers, carrier)
        return reasons + skip_reasons.of_load_memory(stack, self.workloads, self.drivers, carrier)

    def _of_composition(self, stack: Stack) -> list[str]:
        reasons = skip_reasons.of_files(stack, self.drivers, self.resources.unreadable)
        reasons += _of_layers_alone(stack, self.drivers)
        return reasons + skip_reasons.of_tenants(stack, [call for call, _ in self.workloads], self.drivers)

    def _on_user_directory(self, stack: Stack, directory: UserDirectory, path: str) -> tuple[list[str], int]:
        """Every reason against a stack on `path`, and how often its workloads are rehearsed."""
        known, rehearsals = self.resources.directories, 0
        reasons = [reason for each in user_directory.paths_of(stack) if each in known for reason in known[each].reasons]
        if not directory.reasons:
            free = directory.free_bytes
            usable = None if free is None else int(free * (1 - _KEEP_FREE_SHARE))
            reasons += skip_reasons.of_room(usable, f"{path} has", self.workloads)
        try:
            on = layout.planned(stack, self.drivers, self.resources.disks, filesystem=directory.filesystem)
            rehearsals = on.top.rehearsals
            reasons += skip_reasons.of_images(stack, self.drivers, path, directory.free_bytes)
        except BadInput as error:
            reasons += [str(problem) for problem in error.problems]
        return reasons, rehearsals

    def _on_disks(self, stack: Stack) -> tuple[list[str], int]:
        guests = self.resources.guests
        reasons: list[str] = []
        rehearsals = 0
        try:
            reasons += skip_reasons.of_memory(stack, self.drivers, guests)
            ports = guests is not None and guests.ports
            top = layout.planned(stack, self.drivers, self.resources.disks, ports=ports).top
            rehearsals = top.rehearsals
            reasons += skip_reasons.of_room(top.size_bytes, "the stack has", self.workloads)
        except BadInput as error:
            reasons += [str(problem) for problem in error.problems]
        return reasons, rehearsals

    def _shortage_of_disks(self, stack: Stack) -> list[str]:
        return [
            f"it takes {count} disks of the role {role} and {given} are given; add --device {role}=..."
            for role, count in stack.disks().items()
            if count > (given := len(self._disks.get(role, ())))
        ]

    def _growth_bytes(self, stack: Stack) -> int:
        """What the files that stand for its disks can grow to."""
        return sum(
            disk.size_bytes
            for role, count in stack.disks().items()
            for disk in self._disks.get(role, ())[:count]
            if disk.device is None
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


def misplaced(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """Why no machine can build it, by its layers alone; none: nothing is known against it."""
    reasons = skip_reasons.of_arity(stack, drivers) + _of_layers_alone(stack, drivers)
    if not reasons:
        disks = [Disk(role, _AMPLE_BYTES) for role, count in stack.disks().items() for _ in range(count)]
        try:
            layout.planned(stack, drivers, disks)
        except BadInput as error:
            reasons += [str(problem) for problem in error.problems]
    return list(dict.fromkeys(reasons))


def _of_layers_alone(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    reasons = skip_reasons.of_nested(stack, drivers) + skip_reasons.of_order(stack, drivers)
    return reasons + skip_reasons.of_forgetful(stack, drivers) + skip_reasons.of_queue(stack, drivers)


def _machine_metrics(
    stacks: Iterable[Stack], drivers: Mapping[str, LayerDriver], own: Mapping[str, UserDirectory]
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
    forks = any(drivers[layer].info.forks for layer in used)
    return (
        *machine_metrics.HOST_METRICS,
        *((machine_metrics.OVERLAP, machine_metrics.APART) if forks else ()),
        *(machine_metrics.GUEST_METRICS if any(drivers[layer].info.starts_guest for layer in used) else ()),
        *(metric for layer in sorted(blocks) for metric in machine_metrics.device_metrics(layer)),
        *(metric for layer in sorted(used) for metric in drivers[layer].info.metrics),
    )
