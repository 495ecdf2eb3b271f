"""Stacks and workloads spelled out in YAML, as the same trees that expressions give. `file` describes the form."""

from __future__ import annotations

from dataclasses import dataclass

from strata.campaign.document import Document, Path, Plain
from strata.campaign.source import At, Problems
from strata.campaign.stacks import read_tree
from strata.campaign.tree import Arg, ArgChoice, Choice, Lit, Named, Pair, Ref, Sum, Times, Tree, chained
from strata.campaign.workloads import EXAMPLE, read_workload

_ANY, _JOIN, _COUNT, _OF = "any", "join", "count", "of"
_OURS = frozenset({_ANY, _JOIN, _COUNT, _OF})


@dataclass(frozen=True, slots=True)
class Spelled:
    """What is wrong becomes a gap in the tree, and its problem is kept."""

    document: Document
    problems: Problems

    def stack(self, path: Path, data: Plain) -> Tree:
        """An expression or a list of layers."""
        if isinstance(data, (str, list)):
            return self._item(path, data)
        return self._gap(path, "a stack is an expression, or a list of layers from the disks up: [disk, ext4]")

    def workload(self, path: Path, data: Plain) -> Tree:
        """An expression or `{name: {param: value}}`."""
        if isinstance(data, str):
            return read_workload(self.document.values[path], self.problems)
        if isinstance(data, dict) and len(data) == 1 and not _OURS & set(data):
            return self._named(path, data)
        return self._gap(path, f"a workload is an expression such as {EXAMPLE}, or {{name: {{argument: value}}}}")

    def _gap(self, path: Path, message: str) -> Ref:
        at = self.document.value_at(path)
        self.problems.add(at, message)
        return Ref(at, "")

    def _item(self, path: Path, data: Plain) -> Tree:
        if isinstance(data, str):
            return read_tree(self.document.values[path], self.problems)
        at = self.document.value_at(path)
        if isinstance(data, list):
            return chained(at, self._items(path, data))
        if not isinstance(data, dict) or not data:
            return self._gap(path, "a layer is missing here; write its name, or take the item out")
        if _COUNT in data or _OF in data:
            return self._times(path, data, at)
        for extra in list(data)[1:]:
            place = self.document.at((*path, extra))
            self.problems.add(place, f"'{extra}' is a second layer in one item; begin another item with it")
        if _ANY in data:
            return Choice(at, self._items((*path, _ANY), data[_ANY]))
        if _JOIN in data:
            return Sum(at, self._items((*path, _JOIN), data[_JOIN]))
        return self._named(path, data)

    def _items(self, path: Path, data: Plain) -> tuple[Tree, ...]:
        if not isinstance(data, list) or not data:
            return (self._gap(path, "a list of layers belongs here; write it as [ext4, xfs]"),)
        return tuple(self._item((*path, number), item) for number, item in enumerate(data))

    def _times(self, path: Path, data: dict[str, Plain], at: At) -> Tree:
        if set(data) != {_COUNT, _OF}:
            return self._gap(path, "count and of go together; write {count: 4, of: hdd}")
        of = self._item((*path, _OF), data[_OF])
        count = data[_COUNT]
        if not (isinstance(count, str) and count.isascii() and count.isdigit() and len(count) < 10):
            return self._gap((*path, _COUNT), "count is a whole number; write it as in {count: 4, of: hdd}")
        return Times(at, int(count), of)

    def _named(self, path: Path, data: dict[str, Plain]) -> Tree:
        name, given = next(iter(data.items()))
        inner = (*path, name)
        at = At(self.document.keys[inner], 0)
        args: tuple[Arg, ...] = ()
        if isinstance(given, dict) and _ANY not in given:
            args = tuple(self._pair((*inner, param), param, value) for param, value in given.items())
        elif given is not None:
            args = (self._value(inner, given),)
        return Ref(at, name[1:], args) if name.startswith("$") else Named(at, name, args)

    def _pair(self, path: Path, name: str, data: Plain) -> Pair:
        return Pair(At(self.document.keys[path], 0), name, self._value(path, data))

    def _value(self, path: Path, data: Plain) -> Lit | ArgChoice | Ref:
        at = self.document.value_at(path)
        if isinstance(data, str):
            return Ref(at, data[1:]) if data.startswith("$") and len(data) > 1 else Lit(at, data)
        if isinstance(data, dict) and set(data) == {_ANY} and isinstance(data[_ANY], list) and data[_ANY]:
            inner = (*path, _ANY)
            return ArgChoice(at, tuple(self._value((*inner, i), one) for i, one in enumerate(data[_ANY])))
        return self._gap(path, "a value is a single word, number or text; alternatives are written {any: [a, b]}")
