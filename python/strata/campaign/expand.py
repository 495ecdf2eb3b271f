"""Trees to stacks: the product of all alternatives in written order, each stack checked as it grows.

A state is a stack so far. States are multiplied layer by layer, so stacks that begin alike share their nodes, and
every node, call and canonical text is made once however large the matrix is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from strata.campaign.calls import MAX_COMBINATIONS, Bound, Calls, Levels, TooMany, branches_of
from strata.campaign.source import At, Problems, did_you_mean
from strata.campaign.tree import Arg, Chain, Choice, Named, Ref, Sum, Times, Tree, least_combinations, shown
from strata.model import Call, Catalogue, Kind, LayerInfo, Node, Stack
from strata.text import listed

DISK = "disk"
MAX_DISKS = 1000  # of one stack
MAX_HEIGHT = 100  # layers on top of each other

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_KINDS = {
    Kind.BLOCK: "a block device",
    Kind.DIRECTORY: "a directory",
    Kind.IMAGE: "a disk image",
    Kind.GUEST: "a guest",
    Kind.ENGINE: "a container engine",
    Kind.CONTAINER: "a running container",
    Kind.GRANT: "a disk as it was given",
}
_ABILITIES = {
    "snapshot": "can hold snapshots",
    "degrade": "can lose a disk",
    "rebuild": "can rebuild a disk",
    "balance": "can be balanced",
    "dedupe": "can be deduplicated",
    "volume": "can carry volumes",
}


def canonical(node: Node) -> str:
    """The one text of a stack; parsing it gives the stack back."""
    return _text(node.call.text, [(canonical(below), bool(below.inputs)) for below in node.inputs])


def _text(call: str, below: Sequence[tuple[str, bool]]) -> str:
    """`below` holds the text of each input, and whether it is a chain (and needs brackets beside others)."""
    if not below:
        return call
    groups = [(text, is_chain, len(list(same))) for (text, is_chain), same in groupby(below)]
    terms = []
    for text, is_chain, count in groups:
        grouped = f"({text})" if is_chain and (count > 1 or len(groups) > 1) else text
        terms.append(f"{count}*{grouped}" if count > 1 else grouped)
    return f"{' + '.join(terms)} | {call}"


class _State(NamedTuple):
    nodes: tuple[Node, ...]  # side by side; empty when it is not known what stands here
    good: bool
    levels: Levels
    bound: Bound


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a node beside its content."""

    kind: Kind | None  # None: something below is wrong, so nothing is checked against it
    text: str
    height: int
    disks: int
    offers: frozenset[str]  # abilities of all that it stands on, its own included


@dataclass(slots=True)
class Expander:
    layers: Catalogue
    calls: Calls
    problems: Problems
    _call_of: dict[str, Call] = field(default_factory=dict)
    _node_of: dict[tuple[int, ...], Node] = field(default_factory=dict)  # by identity of the call and the inputs
    _known: dict[int, _Known] = field(default_factory=dict)  # by identity of the node

    def stacks(self, tree: Tree) -> Iterator[Stack]:
        """Every sound stack of `tree`, duplicates included; problems are kept."""
        try:
            if least_combinations(tree) > MAX_COMBINATIONS:
                raise TooMany(tree.at)
            states = self._start(tree, (), ())
        except TooMany as too_many:
            self.problems.add(
                too_many.at,
                f"this is a matrix of more than {MAX_COMBINATIONS} stacks; take alternatives out, or split it",
            )
            return
        last = tree.parts[-1] if isinstance(tree, Chain) else tree
        for state in states:
            if not state.good:
                continue
            if len(state.nodes) != 1:
                self.problems.add(last.at, self._not_joined(state.nodes))
                continue
            top = state.nodes[0]
            yield Stack(self._known[id(top)].text, top, dict(state.levels))

    # ------------------------------------------------------------ the start of a chain

    def _start(self, tree: Tree, extra: tuple[Arg, ...], bound: Bound) -> list[_State]:
        """`extra` are arguments shared by alternatives; `bound` the factors that have their level already."""
        match tree:
            case Named():
                return self._source(tree, tree.args + extra, bound)
            case Choice():
                return self._choose(tree, _State((), True, (), bound), extra, start=True)
            case Ref():
                return [_State((), False, (), bound)]
        self._no_shared_args(tree, extra)
        match tree:
            case Chain():
                states = self._start(tree.parts[0], (), bound)
                for part in tree.parts[1:]:
                    states = self._each(part, states)
                return states
            case Times():
                return [self._times(tree, state) for state in self._start(tree.of, (), bound)]
            case Sum():
                states = [_State((), True, (), bound)]
                for term in tree.terms:
                    grown: list[_State] = []
                    for a in states:
                        for b in self._start(term, (), a.bound):
                            grown.append(_State(a.nodes + b.nodes, a.good and b.good, a.levels + b.levels, b.bound))
                        self._limit(grown, term.at)
                    states = grown
                return states

    def _source(self, tree: Named, args: tuple[Arg, ...], bound: Bound) -> list[_State]:
        info = self.layers.get(tree.name)
        if tree.path is not None:
            self.problems.add(tree.at, f"only a workload takes a path after ':'; write {tree.name[:-1]}(PATH)")
        elif tree.name != DISK and info is not None:
            if not info.accepts:
                return self._put(tree, args, _State((), True, (), bound), info)
            self.problems.add(
                tree.at,
                f"{tree.name} is a layer and cannot stand at the start; put it on a disk: disk | {tree.name}",
            )
            self.calls.variants(info.name, info.params, args, tree.at, bound)
        elif args:
            hint = did_you_mean(tree.name, self._sources())
            self.problems.add(
                args[0].at,
                f"'{tree.name}' stands at the start, so it is a disk role, and a role takes no arguments{hint}; "
                "remove them",
            )
        elif not _ROLE.fullmatch(tree.name):
            self.problems.add(
                tree.at,
                f"'{tree.name}' cannot be a disk role: a role starts with a letter and holds letters, digits, "
                "- and _; write one such as disk, hdd or ssd",
            )
        elif (meant := self._misspelt(tree.name)) is not None:
            way = f"disk | {meant}" if self.layers[meant].accepts else meant
            self.problems.add(
                tree.at,
                f"'{tree.name}' stands at the start, where a disk role stands, but looks like the layer {meant}; "
                f"write {way}, or give the role another name",
            )
        else:
            return [_State((self._disk(tree.name),), True, (), bound)]
        return [_State((), False, (), bound)]

    def _disk(self, role: str) -> Node:
        info = self.layers.get(DISK)
        if role not in self._call_of:
            values = {param.name: param.default for param in info.params} if info else {}
            self._call_of[role] = Call(DISK, role, values | {"role": role})
        return self._node(self._call_of[role], (), Kind.BLOCK, info.offers if info else frozenset())

    def _sources(self) -> list[str]:
        return [name for name, info in self.layers.items() if not info.accepts and name != DISK]

    def _misspelt(self, role: str) -> str | None:
        """The layer that `role` is one slip away from. Short names are left alone: hdd is not md."""
        for name in self.layers:
            if name == DISK or len(role) != len(name):
                continue
            wrong = [i for i, (a, b) in enumerate(zip(role.lower(), name.lower(), strict=True)) if a != b]
            swapped = len(wrong) == 2 and wrong[1] == wrong[0] + 1
            if swapped:
                i, j = wrong
                swapped = role[i].lower() == name[j].lower() and role[j].lower() == name[i].lower()
            if not wrong or (len(name) >= 4 and (len(wrong) == 1 or swapped)):
                return name
        return None

    def _times(self, tree: Times, state: _State) -> _State:
        good = state.good
        if tree.count < 1:
            self.problems.add(tree.at, f"{tree.count}* takes nothing; write a number from 1 on")
            good = False
        elif tree.count * sum(max(1, self._known[id(n)].disks) for n in state.nodes) > MAX_DISKS:
            self._too_many_disks(tree.at)
            good = False
        nodes = state.nodes * tree.count if good else state.nodes
        return state._replace(nodes=nodes, good=good)

    # ------------------------------------------------------------ what stands on something

    def _each(self, part: Tree, states: list[_State]) -> list[_State]:
        grown: list[_State] = []
        for state in states:
            grown += self._on(part, (), state)
            self._limit(grown, part.at)
        return grown

    def _on(self, tree: Tree, extra: tuple[Arg, ...], below: _State) -> list[_State]:
        match tree:
            case Named():
                return self._layer(tree, tree.args + extra, below)
            case Choice():
                return self._choose(tree, below, extra, start=False)
            case Ref():
                return [below._replace(nodes=(), good=False)]
        self._no_shared_args(tree, extra)
        match tree:
            case Chain():
                states = [below]
                for part in tree.parts:
                    states = self._each(part, states)
                return states
            case Times():
                self.problems.add(
                    tree.at, f"{tree.count}* can only multiply what stands at the start of a chain; put it there"
                )
            case Sum():
                self.problems.add(
                    tree.terms[1].at, "'+' can only join what stands at the start of a chain; group that with ( )"
                )
        return [below._replace(nodes=(), good=False)]

    def _layer(self, tree: Named, args: tuple[Arg, ...], below: _State) -> list[_State]:
        info = self.layers.get(tree.name)
        wrong: str | None = None
        if tree.path is not None:
            wrong = f"only a workload takes a path after ':'; write {tree.name[:-1]}(PATH)"
        elif tree.name == DISK:
            wrong = "disk is a disk role and can only stand at the start of a chain; join disks with '+'"
        elif info is None:
            known = sorted(name for name, layer in self.layers.items() if layer.accepts and name != DISK)
            wrong = f"there is no layer '{tree.name}'{did_you_mean(tree.name, known)}; the layers are {listed(known)}"
        elif not info.accepts:
            wrong = f"{tree.name} stands on nothing, so it can only stand at the start of a chain; move it there"
        if wrong is None and info is not None:
            return self._put(tree, args, below, info)
        self.problems.add(tree.at, wrong or "")
        return [below._replace(nodes=(), good=False)]

    def _choose(self, tree: Choice, state: _State, extra: tuple[Arg, ...], *, start: bool) -> list[_State]:
        shared = tree.args + extra
        found: list[_State] = []
        for number in branches_of(tree, state.bound):
            branch = tree.branches[number]
            levels, bound = state.levels, state.bound
            if tree.factor is None:
                levels += ((self.calls.names[tree], self._level(branch, bound)),)
            elif all(factor != tree.factor for factor, _ in bound):
                levels += ((tree.factor, tree.labels[number]),)
                bound += ((tree.factor, number),)
            if start:
                found += [s._replace(levels=levels + s.levels) for s in self._start(branch, shared, bound)]
            else:
                found += self._on(branch, shared, state._replace(levels=levels, bound=bound))
            self._limit(found, tree.at)
        return found

    def _level(self, branch: Tree, bound: Bound) -> str:
        """A single layer by its canonical text, so that one level has one name however it was written."""
        if isinstance(branch, Named) and branch.args and branch.name in self.layers:
            variants = self.calls.variants(branch.name, self.layers[branch.name].params, branch.args, branch.at, bound)
            if len(variants) == 1 and variants[0].resolved is not None:
                return branch.name + variants[0].resolved.text
        return shown(branch)

    def _no_shared_args(self, tree: Tree, extra: tuple[Arg, ...]) -> None:
        if extra:
            self.problems.add(
                extra[0].at,
                f"arguments after alternatives are given to each of them, but '{shown(tree)}' is not a single layer; "
                "write them inside",
            )

    # ------------------------------------------------------------ building

    def _put(self, tree: Named, args: tuple[Arg, ...], below: _State, info: LayerInfo) -> list[_State]:
        found: list[_State] = []
        for variant in self.calls.variants(info.name, info.params, args, tree.at, below.bound):
            levels, bound = below.levels + variant.levels, below.bound + variant.bound
            if variant.resolved is None:
                if self._fits(tree.at, info, below.nodes):
                    self._can(tree.at, info, below.nodes)
                found.append(_State(self._unknown(below.nodes, info), False, levels, bound))
                continue
            text = info.name + variant.resolved.text
            call = self._call_of.get(text)
            if call is None:
                call = self._call_of[text] = Call(info.name, text, variant.resolved.values)
            if info.accepts and not below.nodes:
                found.append(_State((), False, levels, bound))
                continue
            fits = self._fits(tree.at, info, below.nodes) and self._can(tree.at, info, below.nodes)
            groups = [below.nodes] if info.many or not info.accepts else [(node,) for node in below.nodes]
            nodes = tuple(self._node(call, group, info.provides, info.offers) for group in groups)
            if not self._small(tree.at, nodes):
                nodes, fits = (), False  # said once, not again for every layer above
            found.append(_State(nodes, below.good and fits, levels, bound))
        return found

    def _unknown(self, below: tuple[Node, ...], info: LayerInfo) -> tuple[Node, ...]:
        """Stands for a layer whose arguments are wrong, so that what is above it is still checked."""
        if info.accepts and not below:
            return ()
        call = self._call_of.setdefault(f"{info.name}(?)", Call(info.name, f"{info.name}(?)", {}))
        groups = [below] if info.many or not info.accepts else [(node,) for node in below]
        return tuple(self._node(call, group, info.provides, info.offers) for group in groups)

    def _node(self, call: Call, inputs: tuple[Node, ...], provides: Kind | None, offers: frozenset[str]) -> Node:
        key = (id(call), *map(id, inputs))
        node = self._node_of.get(key)
        if node is None:
            node = self._node_of[key] = Node(call, inputs)
            below = [self._known[id(one)] for one in inputs]
            self._known[id(node)] = _Known(
                kind=provides if provides is not None else below[0].kind if below else None,
                text=_text(call.text, [(known.text, known.height > 1) for known in below]),
                height=1 + max((known.height for known in below), default=0),
                disks=sum(known.disks for known in below) if inputs else 1,
                offers=offers.union(*(known.offers for known in below)),
            )
        return node

    def _fits(self, at: At, info: LayerInfo, below: Sequence[Node]) -> bool:
        fits = True
        for node in {id(node): node for node in below}.values():
            kind, offers = self._known[id(node)].kind, self._known[id(node)].offers
            if kind is None or kind in info.accepts or not info.accepts:
                continue
            fits = False
            if holders := self._holders(info, node.call.name, kind):
                first = info.params[0].name
                self.problems.add(
                    at,
                    f"{info.name} cannot stand on {node.call.name}; what it holds is an argument of "
                    f"{listed(holders, 'or')}, so write {holders[0]}({first}=...) instead",
                )
                continue
            wants = listed((_KINDS[k] for k in Kind if k in info.accepts), "or")
            between = sorted(
                name
                for name, layer in self.layers.items()
                if name != DISK
                and kind in layer.accepts
                and layer.provides in info.accepts
                and (not layer.needs or layer.needs in offers)
                and (not info.needs or info.needs in offers | layer.offers)
            )
            way = f"put {listed(between, 'or')} between them" if between else "take it out"
            self.problems.add(
                at,
                f"{info.name} sits on {wants}, but {node.call.name} gives {_KINDS[kind]}; {way}, or change the order",
            )
        return fits

    def _holders(self, info: LayerInfo, below: str, kind: Kind) -> list[str]:
        """Layers that have the arguments of a condition as their own: the one below, or any over such a kind."""
        asked = {(param.name, param.group) for param in info.params}
        if info.provides is not None or not asked or not all(group for _, group in asked):
            return []

        def holds(layer: LayerInfo) -> bool:
            return asked <= {(param.name, param.group) for param in layer.params}

        if holds(self.layers[below]):
            return [below]
        return sorted(name for name, layer in self.layers.items() if kind in layer.accepts and holds(layer))

    def _can(self, at: At, info: LayerInfo, below: Sequence[Node]) -> bool:
        """Whether something below every input offers what this layer needs."""
        if not info.needs or all(info.needs in self._known[id(node)].offers for node in below):
            return True
        offering = sorted(name for name, layer in self.layers.items() if info.needs in layer.offers)
        ability = _ABILITIES.get(info.needs, f"offers {info.needs}")
        way = listed(offering, "or") if offering else "there is none, so take it out"
        self.problems.add(at, f"{info.name} needs a layer below that {ability}: {way}")
        return False

    def _small(self, at: At, nodes: Sequence[Node]) -> bool:
        if any(self._known[id(node)].height > MAX_HEIGHT for node in nodes):
            self.problems.add(at, f"this stack is more than {MAX_HEIGHT} layers high; take some out")
            return False
        if sum(self._known[id(node)].disks for node in nodes) > MAX_DISKS:
            self._too_many_disks(at)
            return False
        return True

    def _too_many_disks(self, at: At) -> None:
        self.problems.add(at, f"this stack takes more than {MAX_DISKS} disks; take fewer")

    def _not_joined(self, nodes: Sequence[Node]) -> str:
        kinds = {self._known[id(node)].kind for node in nodes}
        joining = sorted(name for name, layer in self.layers.items() if layer.many and kinds <= layer.accepts)
        lower = sorted(name for name, layer in self.layers.items() if layer.many)
        if joining:
            way = f"join them with a layer that takes several: {listed(joining)}"
        else:
            way = f"join them lower down with a layer that takes several: {listed(lower)}"
        return f"this stack ends in {len(nodes)} things side by side; {way}"

    @staticmethod
    def _limit(states: Sequence[_State], at: At) -> None:
        if len(states) > MAX_COMBINATIONS:
            raise TooMany(at)
