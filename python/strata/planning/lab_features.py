"""The parts of a lab beyond its base that a campaign needs: of the lab machine, and of the system that guests start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from strata import layers
from strata.campaign import Campaign
from strata.model import Call, Node
from strata.planning import guest_places

_OF_LAYER = {
    **dict.fromkeys(("zfs", "zvol"), "zfs"),
    **dict.fromkeys(("podman", "docker", "containerd", "lxc", "lxd", "incus"), "containers"),
    **dict.fromkeys(("raw", "qcow2", "qsd", "vm"), "qemu"),
}
_OF_LOAD = {"postgres/": "postgres", "guest/install": "install"}  # by how the name of the workload begins


def of_machine(campaign: Campaign) -> frozenset[str]:
    """Of the machine that carries the stacks, with those that its testbed names."""
    if campaign.testbed.clock == "virtual":  # which has no guests, so nothing is wanted for them
        campaign = replace(campaign, stacks=tuple(each for each in campaign.stacks if not _starts_guest(each.top)))
    found = {_OF_LAYER.get(call.name) for call, inside in _layers(campaign) if not inside}
    if not all(_starts_guest(stack.top) for stack in campaign.stacks):
        found |= _of_loads(campaign)
    if guest_places.within(campaign):  # guests within have the system of the machine
        found |= of_guests(campaign)
    return campaign.testbed.features | frozenset(filter(None, found))


def of_guests(campaign: Campaign) -> frozenset[str]:
    """Of what the guests start from; none where there are no guests."""
    if not any(_starts_guest(stack.top) for stack in campaign.stacks):
        return frozenset()
    found = {_OF_LAYER.get(call.name) for call, inside in _layers(campaign) if inside}
    return frozenset(filter(None, found | _of_loads(campaign)))


def lab_guests(campaign: Campaign) -> bool:
    """Whether any guest starts from the lab's system, and not from an image of the user's own."""
    drivers = layers.drivers()
    guests = [call for call, _ in _layers(campaign) if drivers[call.name].info.starts_guest]
    return any(call.values.get("image") is None for call in guests)


def _of_loads(campaign: Campaign) -> set[str]:
    return {feature for call in campaign.workloads for name, feature in _OF_LOAD.items() if call.name.startswith(name)}


def _layers(campaign: Campaign) -> Iterator[tuple[Call, bool]]:
    """Every layer, and whether it is built in a guest."""
    for stack in campaign.stacks:
        for node in stack.top.walk():
            yield node.call, any(_starts_guest(below) for below in node.inputs)


def _starts_guest(node: Node) -> bool:
    """Whether what stands on `node` is in a guest."""
    return layers.drivers()[node.call.name].info.starts_guest or any(_starts_guest(below) for below in node.inputs)
