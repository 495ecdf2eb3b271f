"""Where guests of a lab are started, which the text of their stacks says: docs/decisions/0022 and 0037."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from strata import layers
from strata.campaign import Campaign, with_argument
from strata.errors import BadInput
from strata.model import Call, Stack

BESIDE, WITHIN = "beside", "nested"
_OTHER_MACHINES = ("debian", "kernel")  # layers by which a stack asks for another lab machine


def fitted(campaign: Campaign, *, nested: bool) -> Campaign:
    """`campaign` as its testbed can carry it: in the lab every `vm` says where its guest is started.

    `nested`: guests within the lab machine are as good as any, by KVM. What a campaign says itself holds for all of it.
    Raises BadInput when it says both.
    """
    if campaign.testbed.kind != "lab" or campaign.testbed.clock != "real":
        return campaign
    said = {where for call in _guests(campaign) for where in (BESIDE, WITHIN) if call[where]}
    if len(said) > 1:
        raise BadInput("its guests run beside the lab machine and within; say vm(beside) or vm(nested) of all of them.")
    others = any(node.call.name in _OTHER_MACHINES for stack in campaign.stacks for node in stack.top.walk())
    if WITHIN in said and others:
        raise BadInput(
            "guests within a lab machine start what it started itself, and that is not the same for all of its stacks; "
            "take vm(beside), or the layers kernel and debian away."
        )
    where = said.pop() if said else WITHIN if nested and not others else BESIDE
    return replace(campaign, stacks=tuple(_where(stack, where) for stack in campaign.stacks))


def within(campaign: Campaign) -> bool:
    """Whether guests of a fitted campaign are started within the lab machine."""
    return any(call[WITHIN] for call in _guests(campaign))


def _guests(campaign: Campaign) -> Iterator[Call]:
    return (node.call for stack in campaign.stacks for node in stack.top.walk() if node.call.name == "vm")


def _where(stack: Stack, where: str) -> Stack:
    if all(node.call.name != "vm" for node in stack.top.walk()):
        return stack
    return with_argument(stack, layers.catalogue(), "vm", where, value=True)
