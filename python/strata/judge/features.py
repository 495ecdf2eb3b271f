"""What documents say a stack has, level by level. Pure.

Every feature declares how its levels combine (`combines` in documented.yaml). Silence is an answer of its own: not
known, which is neither yes nor no.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata.layers import drivers
from strata.model import Call, Kind, Node, Stack
from strata.probes import probes
from strata.published.documented import Claim, Documents


@dataclass(frozen=True, slots=True)
class Documented:
    holds: bool | None  # None: not known
    why: str  # layers and sources; "" where nothing is said
    otherwise: bool = False  # a level would give it with other arguments


@dataclass(frozen=True, slots=True)
class _Level:
    """What documents say of one layer of the stack."""

    call: Call
    yes: tuple[Claim, ...]
    no: tuple[Claim, ...]
    otherwise: tuple[Claim, ...]  # yes, were it written with other arguments

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def holds(self) -> bool | None:
        return True if self.yes else False if self.no or self.otherwise else None

    @property
    def against(self) -> str:
        if self.otherwise and not self.no:
            claim = self.otherwise[0]
            return f"{self.name} only with {claim.terms.missing(self.call) or 'another layout'} ({claim.source})"
        return f"{self.name} ({self.no[0].source})"


def documented(stack: Stack, feature: str, known: Documents) -> Documented:
    """Whether documents say that the stack, as it is written, has the feature."""
    way = known.combines[feature]
    if way == "every":
        return _every([_level(node, stack, feature, known) for node in _passing(stack, feature, known)])
    if way == "top":
        return _any([_level(node, stack, feature, known) for node in _top(stack, feature)])
    return _any([_level(node, stack, feature, known) for node in stack.top.walk()])


def unflushed(stack: Stack, known: Documents) -> tuple[str, ...]:
    """Layers of which no document says that they keep what was flushed as they are written; each once."""
    keep = [
        node.call.text
        for node in stack.top.walk()
        if not _transparent(node, engines=False)
        and not any(row.layer == node.call.name and row.terms.met(node.call) for row in known.flushes)
    ]
    return tuple(dict.fromkeys(keep))


def unbounded(stack: Stack, known: Documents) -> tuple[str, ...]:
    """Layers of whose memory nobody can say how much it is, and why; each once."""
    found = []
    for node in stack.top.walk():
        rows = [row for row in known.memory if row.layer == node.call.name and row.terms.met(node.call)]
        found += [row.unbounded for row in rows if row.unbounded]
        if not rows and not _transparent(node, engines=False):
            found.append(f"no document says how much memory {node.call.name} takes")
    return tuple(dict.fromkeys(found))


def _every(levels: Sequence[_Level]) -> Documented:
    against = [level for level in levels if level.holds is False]
    if against:
        whys = dict.fromkeys(level.against for level in against)
        return Documented(False, "; ".join(whys), any(level.otherwise and not level.no for level in against))
    silent = dict.fromkeys(level.name for level in levels if level.holds is None)
    if silent or not levels:
        return Documented(None, f"no document says whether {' and '.join(silent)} passes it on" if silent else "")
    return Documented(True, "; ".join(dict.fromkeys(f"{level.name}: {level.yes[0].source}" for level in levels)))


def _any(levels: Sequence[_Level]) -> Documented:
    for level in levels:
        if level.yes:
            return Documented(True, f"{level.name}: {level.yes[0].source}")
    # what other arguments would give comes first: it is what can be done about it
    against = sorted((level for level in levels if level.holds is False), key=lambda level: not level.otherwise)
    if not against:
        return Documented(None, "")
    return Documented(False, against[0].against, bool(against[0].otherwise and not against[0].no))


def _level(node: Node, stack: Stack, feature: str, known: Documents) -> _Level:
    claims = [
        claim
        for claim in known.claims
        if claim.layer == node.call.name and claim.feature == feature and not (claim.on_top and node != stack.top)
    ]
    met = [claim for claim in claims if claim.terms.met(node.call) and claim.groups in ("", _groups(node))]
    no = tuple(claim for claim in met if not claim.holds)
    denied = any(claim.terms.when or claim.terms.unless or claim.groups for claim in no)
    return _Level(
        node.call,
        () if denied else tuple(claim for claim in met if claim.holds),
        no,
        tuple(claim for claim in claims if claim.holds and claim not in met),
    )


def _groups(node: Node) -> str:
    """Of a pool: whether its data devices make one mirror or device, or several."""
    values = node.call.values
    if values.get("layout") not in (None, "stripe"):
        return "one"
    data = len(node.inputs) - int(values.get("slog") or 0) - int(values.get("l2arc") or 0)
    return "several" if data > int(values.get("mirror") or 1) else "one"


def _passing(stack: Stack, feature: str, known: Documents) -> Iterator[Node]:
    """The levels that have to pass it on, from the top; what grows or shrinks ends at a pool."""
    asks_engine = Kind.ENGINE in probes()[feature].accepts
    waiting = [stack.top]
    while waiting:
        node = waiting.pop()
        if not _transparent(node, engines=not asks_engine):
            yield node
        if feature == "discard" or node.call.name not in known.pools:
            waiting += node.inputs


def _top(stack: Stack, feature: str) -> Iterator[Node]:
    """What the stack ends in, conditions apart; of a file system also the device that it alone stands on."""
    node = stack.top
    while _transparent(node, engines=False) and node.inputs:
        node = node.inputs[0]
    yield node
    of = drivers()
    if of[node.call.name].info.provides is Kind.DIRECTORY:
        for below in node.inputs:
            if of[below.call.name].info.provides is Kind.BLOCK and below.call.name != "disk":
                yield below


_SAME = frozenset({"disk", "dir"})
"""Layers that are not judged: the operator's disk, and a part of what is below."""


def _transparent(node: Node, *, engines: bool) -> bool:
    kind = drivers()[node.call.name].info.provides
    return kind is None or node.call.name in _SAME or (engines and kind in (Kind.ENGINE, Kind.CONTAINER))
