"""Which loads of a visit are measured together and which by themselves, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, TypeVar

from strata.planning.layout import Layout

_OFF, _PAIRS = "off", "pairs"

# A load with whatever belongs to it.
_Load = TypeVar("_Load", bound=tuple[Any, ...])


def rounds_of(loads: Sequence[_Load], *, tenants: bool) -> list[list[_Load]]:
    """What is measured at once: every load by itself, then those that name their tenant together. Where a tenant is
    named again a further round begins: `prepare@1, oltp@1, fileserver@2` is prepare alone, then the other two."""
    bound = [load for load in loads if tenants and load[0].tenant is not None]
    rounds = [[load] for load in loads if load not in bound]
    named: set[int | None] = set()
    for load in bound:
        if not named or load[0].tenant in named:
            rounds.append([])
            named = set()
        rounds[-1].append(load)
        named.add(load[0].tenant)
    return rounds


def groups(layout: Layout, tenants: Sequence[int]) -> list[tuple[int, ...]]:
    """The tenants that are measured by themselves, beside the trial of all: every one, and where asked every two."""
    fork = next((placed for placed in layout.layers if placed.driver.info.forks), None)
    asked = _OFF if fork is None else str(fork.node.call.values.get("neighbours") or _OFF)
    return list(groups_of(asked, tenants))


def groups_of(asked: str, tenants: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if asked == _OFF or len(tenants) < 2:
        return
    yield from ((tenant,) for tenant in tenants)
    if asked == _PAIRS and len(tenants) > 2:  # of two, the trial of all is the pair
        yield from combinations(tenants, 2)
