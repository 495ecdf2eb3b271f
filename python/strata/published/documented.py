"""What documents say of each layer: features, risks, memory. Claims, and never measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from ruamel.yaml import YAML

from strata.model import Call, Value

_SET = "set"  # any value but off

Wanted = str | tuple[Value, ...]
"""`_SET`, or the values."""

Loses = Literal["", "power", "device"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The arguments of a layer under which something holds."""

    when: tuple[tuple[str, Wanted], ...]
    unless: tuple[tuple[str, Wanted], ...]
    # The same of the properties that the argument `set` lists: set="checksum=off".
    properties: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unless_properties: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def met(self, call: Call) -> bool:
        listed = _properties(call)
        return (
            all(_is(call.values.get(name), wanted) for name, wanted in self.when)
            and not any(_is(call.values.get(name), unwanted) for name, unwanted in self.unless)
            and all(listed.get(name) in wanted for name, wanted in self.properties)
            and not any(listed.get(name) in unwanted for name, unwanted in self.unless_properties)
        )

    def missing(self, call: Call) -> str:
        """What to change in a call so that they are met: "compress", "no nodatacow"; "" where they are."""
        listed = _properties(call)
        words = [
            name if wanted == _SET else f"{name}={wanted[0]}"
            for name, wanted in self.when
            if not _is(call.values.get(name), wanted)
        ]
        words += [f"no {name}" for name, unwanted in self.unless if _is(call.values.get(name), unwanted)]
        words += [f"no {name}={listed[name]}" for name, unwanted in self.unless_properties
                  if listed.get(name) in unwanted]  # fmt: skip
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Claim:
    layer: str
    feature: str
    holds: bool
    terms: Terms
    source: str
    on_top: bool  # of a stack that ends in the layer
    groups: Literal["", "one", "several"] = ""  # holds only of a pool of so many mirrors or single devices


@dataclass(frozen=True, slots=True)
class Risk:
    layer: str
    terms: Terms
    text: str
    source: str
    remedy: str  # how to lessen it
    severity: int  # 5: the gravest
    loses: Loses  # by what a write that was acknowledged can be lost; "": by nothing that is documented
    last: Literal["", "single", "redundant"] = ""  # holds only where the last input is so

    @property
    def loses_acknowledged(self) -> bool:
        return bool(self.loses)


@dataclass(frozen=True, slots=True)
class Memory:
    layer: str
    terms: Terms
    fixed_bytes: int
    per_tb_bytes: int  # of 10^12 bytes below
    argument: str  # of the layer, that says how many bytes more; "": none
    besides: str  # what it takes and is not counted; ""
    unbounded: str  # why nobody can say how much; ""
    source: str


@dataclass(frozen=True, slots=True)
class Flush:
    """What a layer was asked to flush is stable once it says so."""

    layer: str
    terms: Terms
    source: str


Combines = Literal["any", "every", "top", "plan"]


@dataclass(frozen=True, slots=True)
class Documents:
    features: Mapping[str, str]  # name -> what it means
    combines: Mapping[str, Combines]  # name -> how what the levels give adds up
    instruments: frozenset[str]  # layers that compare, and are never chosen or deployed
    pools: frozenset[str]  # layers that give out the room of a pool
    flushes: tuple[Flush, ...]
    claims: tuple[Claim, ...]
    risks: tuple[Risk, ...]
    memory: tuple[Memory, ...]


@cache
def documents() -> Documents:
    data = YAML(typ="safe").load((files(__package__) / "data" / "documented.yaml").read_text())
    claims = [
        Claim(layer, feature, holds, _terms(row), row["source"], bool(row.get("on_top")), row.get("groups", ""))
        for layer, rows in data["claims"].items()
        for row in rows
        for holds, key in ((True, "can"), (False, "cannot"))
        for feature in row.get(key, ())
    ]
    return Documents(
        MappingProxyType(dict(data["features"])),
        MappingProxyType({feature: way for way, names in data["combines"].items() for feature in names}),
        frozenset(data["instruments"]),
        frozenset(data["pools"]),
        tuple(Flush(layer, _terms(row), row["source"]) for row in data["flushes"] for layer in _layers(row)),
        tuple(claims),
        tuple(
            Risk(
                row["layer"],
                _terms(row),
                row["risk"],
                row["source"],
                row["remedy"],
                row["severity"],
                row.get("loses", ""),
                row.get("last", ""),
            )
            for row in data["risks"]
        ),
        tuple(
            Memory(
                layer,
                _terms(row),
                int(row.get("fixed", 0)),
                int(row.get("per_tb", 0)),
                row.get("argument", ""),
                row.get("besides", ""),
                row.get("unbounded", ""),
                row["source"],
            )
            for row in data["memory"]
            for layer in _layers(row)
        ),
    )


def _layers(row: Mapping[str, Any]) -> list[str]:
    """A row may be of several layers."""
    return [row["layer"]] if isinstance(row["layer"], str) else list(row["layer"])


def _terms(row: Mapping[str, Any]) -> Terms:
    pairs = {
        key: tuple((name, tuple(wanted) if isinstance(wanted, list) else str(wanted))
                   for name, wanted in row.get(key, {}).items())
        for key in ("when", "unless")
    }  # fmt: skip
    properties = {
        key: tuple((name, tuple(values)) for name, values in row.get(key, {}).items()) for key in ("set", "unless_set")
    }
    return Terms(pairs["when"], pairs["unless"], properties["set"], properties["unless_set"])


def _properties(call: Call) -> dict[str, str]:
    """What the argument `set` lists, as in set="checksum=off,sync=always"."""
    listed = re.split(r"[,\s]+", str(call.values.get("set") or ""))
    return dict(pair.partition("=")[::2] for pair in listed if "=" in pair)


def _is(value: Value | None, wanted: Wanted) -> bool:
    if wanted == _SET:
        return value is not None and value is not False and value != 0
    return value in wanted
