"""Guests of a lab are started beside the lab machine, and the text of their stacks says so: docs/decisions/0022."""

from __future__ import annotations

from dataclasses import replace

from strata import layers
from strata.campaign import Campaign, with_argument
from strata.model import Stack


def fitted(campaign: Campaign) -> Campaign:
    """`campaign` as its testbed can carry it: in the lab every `vm` is `vm(beside)`."""
    if campaign.testbed.kind != "lab" or campaign.testbed.clock != "real":
        return campaign
    return replace(campaign, stacks=tuple(_beside(stack) for stack in campaign.stacks))


def _beside(stack: Stack) -> Stack:
    if all(node.call.name != "vm" for node in stack.top.walk()):
        return stack
    return with_argument(stack, layers.catalogue(), "vm", "beside", value=True)
