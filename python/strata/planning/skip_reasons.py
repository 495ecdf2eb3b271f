"""Why a stack cannot be built or cannot carry the workloads, before anything is made: every reason, in sentences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from strata.model import Call, Facts, Flaw, Hungry, Kind, LayerDriver, Node, Stack, Workload
from strata.planning import layout, measuring_order, user_directory, user_files
from strata.planning.resources import GuestResources
from strata.probes import PREFIX, probes
from strata.units import format_size, human_size

# What a QEMU takes beside the memory of its guest: its programs, and under emulation the translated code. Seen of four
# emulated guests at work: 105 to 302 MiB.
_GUEST_OVERHEAD_BYTES = 320 << 20

# Others need room beside our images.
_LEFT_TO_THE_USER = 0.95

# What the system of a guest takes of its memory before anything runs: 154 MiB of 256, 160 of 512, 253 of 1536 were not
# available in guests that had just started.
_GUEST_SYSTEM_BYTES = 150 << 20


def of_layers(
    stack: Stack,
    drivers: Mapping[str, LayerDriver],
    facts: Facts,
    inside: Facts | None,
    known: dict[int, dict[str, list[str]]],
) -> list[str]:
    """Of every layer, by the machine that it is built on; of an unknown guest nothing is said.

    `known` keeps the answers of calls that were asked before, by machine, for campaigns of thousands.
    """
    reasons: list[str] = []
    for node in stack.top.walk():
        where = inside if _in_guest(node, drivers) else facts
        if where is None or _nested(node, drivers):  # what would have to be installed in the guest would not help
            continue
        answers = known.setdefault(id(where), {})
        key = f"{node.call.name}\0{node.call.text}"
        if key not in answers:
            answers[key] = drivers[node.call.name].reasons_not_to_run(node.call, where)
        reasons += answers[key]
    return reasons


def starts_guest(node: Node, drivers: Mapping[str, LayerDriver]) -> bool:
    """Whether what stands on `node` is in a guest."""
    return drivers[node.call.name].info.starts_guest or any(starts_guest(lower, drivers) for lower in node.inputs)


def _in_guest(node: Node, drivers: Mapping[str, LayerDriver]) -> bool:
    return any(starts_guest(lower, drivers) for lower in node.inputs)


def _nested(node: Node, drivers: Mapping[str, LayerDriver]) -> bool:
    return drivers[node.call.name].info.starts_guest and _in_guest(node, drivers)


def of_nested(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """What guests start from is on the machine outside; and a guest of an emulated one would be emulated twice."""
    return [
        f"{node.call.text} stands in a guest, where there is nothing to start another from; take one of the guests out."
        for node in stack.top.walk()
        if _nested(node, drivers)
    ]


def of_files(stack: Stack, drivers: Mapping[str, LayerDriver], unreadable: Collection[str]) -> list[str]:
    """Of files that the user has to bring."""
    return [
        f"{call.name}({argument}={path}): there is no such file on this machine, or this user may not read it; say "
        "where it is."
        for call, argument, path in user_files.user_files(stack, drivers)
        if path in unreadable
    ]


def of_arity(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    return [
        reason
        for node in stack.top.walk()
        for reason in drivers[node.call.name].arity_reasons(node.call, len(node.inputs))
    ]


def _kind(stack: Stack, drivers: Mapping[str, LayerDriver]) -> Kind:
    node = stack.top
    while (kind := drivers[node.call.name].info.provides) is None:
        node = node.inputs[0]
    if drivers[node.call.name].info.starts_guest and node.call.values.get("image") is not None:
        return Kind.GUEST  # of another system than the lab's, in which nothing is built
    return kind


def of_target(
    stack: Stack, workloads: Sequence[tuple[Call, Workload]], drivers: Mapping[str, LayerDriver]
) -> list[str]:
    kind = _kind(stack, drivers)
    nowhere = [call.text for call, workload in workloads if workload.info.in_guest]
    if nowhere and starts_guest(stack.top, drivers):
        nowhere = []
    layers = {node.call.name for node in stack.top.walk()}
    without = [
        f"{call.text} needs the layer {workload.info.on}, and this stack has none; put {workload.info.on} on top of it."
        for call, workload in workloads
        if workload.info.on and workload.info.on not in layers
    ]
    return (
        without
        + [f"{text} runs in a guest, and this stack has none; put vm into it." for text in nowhere]
        + [
            f"{call.text} runs on {' or '.join(map(_a, sorted(workload.info.accepts)))}, and this stack ends in "
            f"{_a(kind)}."
            for call, workload in workloads
            if kind not in workload.info.accepts
            and not (kind is Kind.CONTAINER and Kind.DIRECTORY in workload.info.accepts)
        ]
    )


def of_existing(stack: Stack, workloads: Sequence[tuple[Call, Workload]]) -> list[str]:
    """Of loads that would reach what a directory of the user's lies on."""
    path = user_directory.path_of(stack)
    reaching = [call.text for call, workload in workloads if workload.info.reaches_below]
    if path is None or not reaching:
        return []
    harmless = ", ".join(f"{PREFIX}{name}" for name, probe in probes().items() if probe.own_files_only)
    reason = (
        f"{', '.join(reaching)}: this overwrites or changes what {path} lies on (devices, pools, volumes, quotas), and "
        f"that holds data of yours; try it on a disk that Strata makes (disk | ext4) or on one that you give with "
        f"--device. What can be tried in a directory of yours: {harmless}."
    )
    return [reason]


def of_asked(
    stack: Stack, workloads: Sequence[tuple[Call, Workload]], drivers: Mapping[str, LayerDriver], facts: Facts
) -> list[str]:
    """Whether the engine of a stack can do what the workloads and the layers above ask of it."""
    engines = [node.call for node in stack.top.walk() if drivers[node.call.name].info.provides is Kind.ENGINE]
    infos = ((node.call, drivers[node.call.name].info) for node in stack.top.walk())
    asking = [(call, {ask for name, ask in info.engine.asks_by.items() if _given(call, name)}) for call, info in infos]
    for call, workload in workloads:
        by = (ask for name, ask in workload.info.asks_by.items() if _given(call, name))
        asking.append((call, {workload.info.asks, *by}))
    reasons = []
    for call, wanted in asking:
        for engine in engines:
            info = drivers[engine.name].info
            support = info.engine
            lacks = dict(support.lacks)
            for name, more in support.lacks_by.items():
                lacks |= more if _given(engine, name) else {}
            lacks |= {flaw.asks: flaw.why for flaw in support.flaws if _flawed(flaw, facts.tools.get(flaw.program))}
            for asks in sorted(wanted - {""}):
                if asks in lacks:
                    reasons.append(f"{call.text} asks {engine.text} to {asks}, and {lacks[asks]}.")
                reasons += [
                    f"{call.text} asks {engine.text} to {asks}, which takes {tool}; install the Debian package "
                    f"{info.tools[tool]}."
                    for tool, what in support.only_for.items()
                    if what == asks and tool not in facts.tools
                ]
    return reasons


def _flawed(flaw: Flaw, said_version: str | None) -> bool:
    found = re.search(r"\b\d+(\.\d+)+", said_version or "")
    return found is not None and flaw.since <= tuple(map(int, found[0].split("."))) < flaw.mended


def _given(call: Call, name: str) -> bool:
    return call.values.get(name) is not None


def _a(kind: Kind) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def of_order(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    return [
        f"{node.call.text} works outside of what {below.call.text} holds, which is only for the processes of a "
        f"workload; put {below.call.name} last."
        for node in stack.top.walk()
        if drivers[node.call.name].info.provides is not None
        for under in node.inputs
        for below in under.walk()
        if drivers[below.call.name].info.last
    ]


def of_forgetful(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """Of layers that have to find again what they wrote, over one that keeps nothing."""
    return [
        f"{node.call.text} cannot find again what it writes to {below.call.text}, which keeps nothing; measure that "
        "device as it is, or put a device that remembers below."
        for node in stack.top.walk()
        if (info := drivers[node.call.name].info).provides is not None and info.deployed
        for under in node.inputs
        for below in under.walk()
        if (forgets := drivers[below.call.name].info.block.forgets) and forgets.items() <= below.call.values.items()
    ]


def of_queue(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """Of layers that set what a device's queue does, over one that has none."""
    return [
        f"{node.call.text} has no I/O scheduler to set on {below.text}: that device is bio-based and passes "
        f"requests on without a queue. Put {node.call.name} on the disks below it."
        for node in stack.top.walk()
        if drivers[node.call.name].info.block.on_queue
        for under in node.inputs
        if (below := _without_queue(under, drivers)) is not None
    ]


def _without_queue(node: Node, drivers: Mapping[str, LayerDriver]) -> Call | None:
    """The layer that gives the block device at `node`, where that is bio-based."""
    info = drivers[node.call.name].info
    if info.provides is not None and info.block.queue is not None:
        return node.call if info.provides is Kind.BLOCK and not info.block.queue else None
    found = (_without_queue(under, drivers) for under in node.inputs)
    return next((call for call in found if call is not None), None)


def of_tenants(stack: Stack, calls: Sequence[Call], drivers: Mapping[str, LayerDriver]) -> list[str]:
    """Whether every load that names a tenant has one."""
    forks = [node.call for node in stack.top.walk() if drivers[node.call.name].info.forks]
    bound = [(call.tenant, call.text) for call in calls if call.tenant is not None]
    if not forks:
        return [
            f"{text} is for a tenant, and this stack has none; add tenants(...), or write it without @."
            for _, text in bound
        ]
    there = int(forks[0]["count"] or 0)
    forking = next(node for node in stack.top.walk() if drivers[node.call.name].info.forks)
    reasons = [
        "The tenants of this stack share a guest; put tenants below vm, so that each has a guest of its own."
        for below in forking.inputs
        if starts_guest(below, drivers)
    ]
    for loads in measuring_order.rounds_of([(call,) for call in calls], tenants=True):
        timed = {call.text: call.values["runtime"] for (call,) in loads if call.values.get("runtime") is not None}
        if len(set(timed.values())) > 1:
            reasons.append(
                f"{' and '.join(timed)} are measured together and do not take equally long, so that one of them would "
                "have its neighbours for a part of its time only; give them the same runtime=."
            )
    return reasons + [
        f"{text} is for a tenant that is not among the {there}; write another." for n, text in bound if n > there
    ]


def guests_bytes(guests: Iterable[Call]) -> int:
    """What these take of memory together, each with its QEMU."""
    return sum(int(guest.values.get("memory") or 0) + _GUEST_OVERHEAD_BYTES for guest in guests)


def of_memory(stack: Stack, drivers: Mapping[str, LayerDriver], guests: GuestResources | None) -> list[str]:
    """Whether all guests of a stack can have their memory at once. Raises BadInput for a stack with several forks."""
    calls = layout.guest_calls(stack, drivers)
    if not calls or guests is None or guests.memory_bytes is None:
        return []
    wanted = guests.taken_bytes + guests_bytes(calls)
    if wanted <= guests.memory_bytes:
        return []
    who = f"Its {len(calls)} guests" if len(calls) > 1 else "Its guest"
    if guests.taken_bytes:
        who += " and the lab machine"
    takes = "takes" if who == "Its guest" else "take"
    need = f"{who} {takes} {human_size(wanted)} of memory, what QEMU needs itself included"
    free = human_size(guests.memory_bytes)
    return [f"{need}, and this machine has {free} to give; give less (memory=), or end what uses the memory."]


def of_load_memory(
    stack: Stack, workloads: Sequence[tuple[Call, Workload]], drivers: Mapping[str, LayerDriver], facts: Facts
) -> list[str]:
    """Whether the programs of a load have their memory where they run: in the guest, or on the machine of `facts`."""
    guests = [node.call for node in stack.top.walk() if drivers[node.call.name].info.starts_guest]
    tenants = next((int(n.call["count"] or 0) for n in stack.top.walk() if drivers[n.call.name].info.forks), 1)
    reasons = []
    for call, workload in workloads:
        if not isinstance(workload, Hungry):
            continue
        wanted, at_once = workload.memory_bytes(call), 1 if guests or call.tenant is not None else tenants
        if guests:
            memory = int(guests[-1].values.get("memory") or 0)
            has = f"a guest of {format_size(memory)} has {human_size(max(memory - _GUEST_SYSTEM_BYTES, 0))} to give"
            more = f"give it more ({guests[-1].name}(memory=))"
            room = memory - _GUEST_SYSTEM_BYTES
        else:
            room = facts.memory_bytes
            has, more = f"this machine has {human_size(room)}", "have fewer tenants" if at_once > 1 else "take another"
        if wanted * at_once > room:
            reasons.append(
                f"{call.text}: its threads take {human_size(wanted * at_once)} of memory, and {has}; {more}, or run "
                "fewer threads."
            )
    return reasons


def of_machines(
    stack: Stack, workloads: Sequence[tuple[Call, Workload]], drivers: Mapping[str, LayerDriver], facts: Facts
) -> list[str]:
    """Whether the machines that a workload starts by itself, one for each tenant, can have their memory at once."""
    tenants = next((int(n.call["count"] or 0) for n in stack.top.walk() if drivers[n.call.name].info.forks), 1)
    reasons = []
    for call, workload in workloads:
        count = tenants if call.tenant is None else 1
        wanted = count * (int(call.values.get(workload.info.memory) or 0) + _GUEST_OVERHEAD_BYTES)
        if workload.info.memory and count > 1 and wanted > facts.memory_bytes:
            reasons.append(
                f"{call.text} starts {count} machines at once, which take {human_size(wanted)} of memory, what QEMU "
                f"needs itself included, and this machine has {human_size(facts.memory_bytes)}; give less "
                f"({workload.info.memory}=), or have fewer tenants."
            )
    return reasons


def of_images(stack: Stack, drivers: Mapping[str, LayerDriver], path: str, free_bytes: int | None) -> list[str]:
    """Of images in a directory of the user's, whose file system is not to be filled. Raises BadInput as `copies`."""
    if free_bytes is None:
        return []
    images = [each for each in layout.copies(stack, drivers) if drivers[each[0].call.name].info.provides is Kind.IMAGE]
    wanted = sum(int(node.call.values.get("size") or 0) * count for node, count in images)
    if wanted <= free_bytes * _LEFT_TO_THE_USER:
        return []
    made = " and ".join(dict.fromkeys(node.call.text for node, _ in images))
    there = f"{path} has {human_size(free_bytes)} free, of which a little has to stay"
    return [f"{made} can grow to {human_size(wanted)}, and {there}; make size= smaller, or take another directory."]


def of_room(room_bytes: int | None, where: str, workloads: Sequence[tuple[Call, Workload]]) -> list[str]:
    if room_bytes is None:  # not known before it is built
        return []
    return [
        f"{call.text} lays out {human_size(workload.data_bytes(call))} and {where} room for {human_size(room_bytes)}; "
        "make the room larger (--size, for files) or the data set smaller (size=)."
        for call, workload in workloads
        if workload.data_bytes(call) >= room_bytes
    ]
