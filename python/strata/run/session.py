"""From what the user wrote to an order that can be carried out: machine looked at, plan made, devices named."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strata import layers, workloads
from strata.campaign import Campaign
from strata.errors import BadInput, CommandFailed, Problem, Refused
from strata.hosts.base import Host
from strata.model import Command, Disk, Facts, Testbed
from strata.planning import lab_features, user_directory
from strata.planning import plan as planning
from strata.planning.plan import Plan
from strata.planning.resources import Resources
from strata.run.campaign import Order
from strata.run.safety import claims, directories, files
from strata.run.sites.site import Sites
from strata.units import format_size, parse_size

# The lab has no disks but those that it makes.
_NONE_OF_YOURS = {
    "virtual": (
        "--device: on the virtual clock disks are models, and a real one would go in real time; fit a model to yours "
        "with `strata disk probe`, which only reads, and give --disk {}=FILE.yaml, or take --on local."
    ),
    "real": "--device: the disks of the lab are files that it makes and removes; leave it out, or take --on local.",
}


@dataclass(frozen=True, slots=True)
class Devices:
    """What `--device` and `--wipe` said."""

    claimed: tuple[Disk, ...] = ()
    wipe: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Look:
    """What the machines said, and what can be done there."""

    plan: Plan
    facts: Facts  # of the machine that carries the first stack
    versions: Mapping[str, str]


def devices(given: Sequence[str], wipe: Sequence[str], testbed: Testbed, sizes: Sequence[str] = ()) -> Devices:
    """From `ROLE=STABLE-ID` texts. `sizes`: `ROLE=SIZE` texts, which a claimed device cannot have. Raises BadInput, and
    Refused where the testbed cannot have them."""
    problems = []
    claimed = []
    for text in given:
        role, separator, stable_id = text.partition("=")
        if not role or not separator or not stable_id:
            problems.append(
                Problem(f"--device takes ROLE=STABLE-ID, as in hdd=/dev/disk/by-id/...; '{text}' is not that.")
            )
        claimed.append(Disk(role, 0, stable_id))
    for stable_id in wipe:
        if stable_id not in {disk.device for disk in claimed}:
            problems.append(
                Problem(f"--wipe {stable_id} names a device that no --device gives; give both, or neither.")
            )
    for disk in claimed:
        if disk.role in as_role_sizes(sizes):
            problems.append(
                Problem(
                    f"--size sets the size of files that stand for disks, and the role {disk.role} is the device "
                    f"{disk.device}, which is used whole; leave --size {disk.role} out, or claim a "
                    "partition of that size."
                )
            )
    if problems:
        raise BadInput(problems)
    if claimed and testbed.kind == "lab":
        raise Refused(_NONE_OF_YOURS[testbed.clock].format(claimed[0].role))
    return Devices(tuple(claimed), frozenset(wipe))


def unused_sizes(campaign: Campaign, given: Devices) -> list[str]:
    """A sentence for each role whose size in the campaign file means nothing, for devices are used whole."""
    return [
        f"{role}: the campaign's size {format_size(campaign.disks[role].size_bytes)} is not used: its disks are the "
        "devices given"
        for role in dict.fromkeys(disk.role for disk in given.claimed)
        if role in campaign.disks and campaign.disks[role].sized
    ]


def look(sites: Sites, campaign: Campaign, given: Devices) -> Look:
    """The plan of `campaign` on these machines. Touches nothing. Raises BadInput, Refused, HostLost."""
    drivers = layers.drivers()
    used = [drivers[name] for name in _layer_names(campaign)]
    loads = [(call, workloads.find(call)) for call in campaign.workloads]
    tools = planning.tools(used, [workload for _, workload in loads])
    variants = list(dict.fromkeys(sites.variant(stack) for stack in campaign.stacks))
    with sites.look(variants[0]) as host:
        facts = sites.describe(host.facts(tools, sites.work_dir))
        claimed = tuple(
            replace(disk, size_bytes=usable.size_bytes)
            for disk, usable in zip(given.claimed, claims.claim(host, given.claimed, given.wipe), strict=True)
        )
        paths = sorted(
            {path for stack in campaign.stacks for path in user_directory.paths_of(stack) if path[:1] == "/"}
        )
        own = {path: directories.look(host, path) for path in paths}
        refused = [(call, _refusal(host, command)) for call, workload in loads for command in workload.checks(call)]
        unreadable = files.unreadable(host, campaign.stacks, drivers)
        engine = host.run(Command((host.engine, "--version"))).stdout.strip()
    machines = {variants[0]: facts}
    for variant in variants[1:]:
        with sites.look(variant) as host:
            machines[variant] = sites.describe(host.facts(tools, sites.work_dir))
    guests = None
    if any(drivers[name].info.starts_guest for name in _layer_names(campaign)):
        if lab_features.lab_guests(campaign):
            guests = sites.guests(tools, lab_features.of_guests(campaign))
        else:
            guests = sites.own_guests(facts)
        if guests.facts is not None and guests.facts.caveats:
            facts = replace(facts, caveats=tuple(dict.fromkeys((*facts.caveats, *guests.facts.caveats))))
            machines[variants[0]] = facts
    resources = Resources(
        facts=facts,
        disks=planning.disks_for(campaign.stacks, campaign.disks, claimed),
        memory_budget_bytes=campaign.memory_bytes,
        directories=own,
        others={stack.text: machines[sites.variant(stack)] for stack in campaign.stacks} if len(variants) > 1 else {},
        guests=guests,
        unreadable=unreadable,
    )
    plan = planning.make(campaign.stacks, loads, drivers, resources)
    problems = [Problem(why, where=call.text) for call, why in refused if why]
    if problems:
        raise BadInput(problems)
    ours = {"strata": importlib.metadata.version("stratabench"), "strata-engine": engine}
    return Look(plan, facts, {**ours, **facts.tools, **sites.versions()})


def order(sites: Sites, campaign: Campaign, given: Devices) -> Order:
    """Everything that `execute` wants. Raises as `look`."""
    seen = look(sites, campaign, given)
    return Order(campaign, seen.plan, campaign.rule, seen.facts, seen.versions, given.wipe)


def _layer_names(campaign: Campaign) -> set[str]:
    return {node.call.name for stack in campaign.stacks for node in stack.top.walk()}


def _refusal(host: Host, command: Command) -> str | None:
    try:
        host.run(command)
    except CommandFailed as error:
        said = " | ".join(line.strip() for line in error.stderr.splitlines() if line.strip())
        return f"{said or error}; mend that first."
    return None


def as_role_sizes(texts: Sequence[str]) -> Mapping[str, int]:
    """From `ROLE=SIZE` texts. Raises BadInput."""
    sizes = {}
    for text in texts:
        role, _, size = text.partition("=")
        try:
            sizes[role] = parse_size(size)
        except ValueError as error:
            raise BadInput(f"--size takes ROLE=SIZE, as in hdd=20G: {error}.") from error
    return sizes
