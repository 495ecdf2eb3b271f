"""A stack with another argument of one of its layers: another stack, with a text of its own."""

from __future__ import annotations

from dataclasses import replace

from strata.campaign.arguments import text_of
from strata.campaign.expand import canonical
from strata.model import Call, Catalogue, Node, Stack, Value


def with_argument(stack: Stack, layers: Catalogue, layer: str, param: str, *, value: Value) -> Stack:
    """`stack` where `param` of every `layer` has `value`. Its factors stay what was written."""
    top = _changed(stack.top, layers, layer, param, value)
    return replace(stack, text=canonical(top), top=top)


def _changed(node: Node, layers: Catalogue, layer: str, param: str, value: Value) -> Node:
    call = node.call
    if call.name == layer:
        values = {**call.values, param: value}
        call = Call(call.name, layer + text_of(layers[layer].params, values), values)
    return Node(call, tuple(_changed(below, layers, layer, param, value) for below in node.inputs))
