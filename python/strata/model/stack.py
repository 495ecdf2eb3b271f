"""A stack as it was written, with every argument resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from strata.model.params import Value


@dataclass(frozen=True, slots=True)
class Call:
    """A layer or workload with its arguments resolved. Two calls are equal when their canonical texts are."""

    name: str
    text: str  # canonical: arguments in the driver's order, defaults left out, units normalised
    # every param, defaults in; for a path family also "content", the text of the file, and "file", where it lies
    values: Mapping[str, Value | None] = field(compare=False, hash=False, repr=False)
    variant: str | None = None  # workloads: what follows "@"
    path: str | None = None  # workloads of a path family: what follows ":"
    tenant: int | None = None  # workloads: the tenant that they are for, from 1 on; None: all that there are

    def __getitem__(self, param: str) -> Value | None:
        return self.values[param]


@dataclass(frozen=True, slots=True)
class Node:
    """A layer on its inputs. A disk is a node whose call is named "disk" and whose values hold its "role"."""

    call: Call
    inputs: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Every node, inputs before what sits on them, left to right: the order of building.

        Equal nodes are different things (four disks): the walk yields one per place in the tree.
        """
        for below in self.inputs:
            yield from below.walk()
        yield self


@dataclass(frozen=True, slots=True)
class Stack:
    text: str  # canonical; the identity of the stack everywhere
    top: Node = field(compare=False, hash=False, repr=False)
    # the level of every factor of the matrix this stack came from, for models of factor effects
    factors: Mapping[str, str] = field(compare=False, hash=False, repr=False, default_factory=dict)

    def disks(self) -> dict[str, int]:
        """How many disks of each role it takes."""
        count: dict[str, int] = {}
        for node in self.top.walk():
            if node.call.name == "disk":
                role = str(node.call["role"])
                count[role] = count.get(role, 0) + 1
        return count
