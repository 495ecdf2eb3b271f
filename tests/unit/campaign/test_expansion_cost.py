"""A matrix of ten thousand stacks: what is made, counted and not timed. benchmarks/bench_expand.py times it."""

from __future__ import annotations

import tracemalloc

import pytest

from strata.campaign import arguments, calls, expand, parse_stacks
from strata.model import Node, Stack

from .catalogue import LAYERS

SCHEDULERS = ["none", "mq-deadline", "bfq", "kyber"]
MATRIX = (
    f"disk | scheduler({{{', '.join(SCHEDULERS)}}}) | lvmthin(chunk={{{', '.join(f'{n}K' for n in range(1, 51))}}}) "
    f"| {{ext4, xfs}}(mkfs={{{', '.join(f'v{n}' for n in range(25))}}})"
)
SIZE = 4 * 50 * 2 * 25


def test_ten_thousand_stacks_take_little_memory() -> None:
    parse_stacks(MATRIX, LAYERS)  # imports and caches are not what is measured
    tracemalloc.start()
    try:
        stacks = parse_stacks(MATRIX, LAYERS)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(stacks) == SIZE
    assert peak_bytes < 30e6  # 100 MB is the limit for the whole product


def test_each_distinct_thing_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"resolve": 0, "node": 0, "text": 0}

    def counted(name: str, function: object) -> object:
        def call(*args: object, **named: object) -> object:
            counts[name] += 1
            return function(*args, **named)  # type: ignore[operator]

        return call

    monkeypatch.setattr(calls, "resolve", counted("resolve", arguments.resolve))
    monkeypatch.setattr(expand, "Node", counted("node", Node))
    monkeypatch.setattr(expand, "_text", counted("text", expand._text))
    stacks = parse_stacks(MATRIX, LAYERS)
    assert counts["resolve"] == 4 + 50 + 2 * 25
    assert counts["node"] == counts["text"] == 1 + 4 + 4 * 50 + SIZE
    assert len({id(node.call) for stack in stacks for node in stack.top.walk()}) == 1 + 4 + 50 + 50


def test_stacks_that_begin_alike_share_their_nodes() -> None:
    one, two = parse_stacks("2*hdd | md | {ext4, xfs}", LAYERS)
    assert below(one) is below(two)
    assert below(one).inputs[0] is below(one).inputs[1]


def below(stack: Stack) -> Node:
    return stack.top.inputs[0]
