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

    @property
    def text(self) -> str:
        """What to write for it: "compress", "profile=raid1"; "" where nothing has to be."""
        words = [name if wanted == _SET else f"{name}={wanted[0]}" for name, wanted in self.when]
        words += [f"no {name}" for name, _ in self.unless]
        return ", ".join([*words, *(f"no {name}={values[0]}" for name, values in self.unless_properties)])


@dataclass(frozen=True, slots=True)
class Claim:
    layer: str
    feature: str
    holds: bool
    terms: Terms
    source: str
    on_top: bool  # of a stack that ends in the layer


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
    source: str


@dataclass(frozen=True, slots=True)
class Documents:
    features: Mapping[str, str]  # name -> what it means
    claims: tuple[Claim, ...]
    risks: tuple[Risk, ...]
    memory: tuple[Memory, ...]


@cache
def documents() -> Documents:
    data = YAML(typ="safe").load((files(__package__) / "data" / "documented.yaml").read_text())
    claims = [
        Claim(layer, feature, holds, _terms(row), row["source"], bool(row.get("on_top")))
        for layer, rows in data["claims"].items()
        for row in rows
        for holds, key in ((True, "can"), (False, "cannot"))
        for feature in row.get(key, ())
    ]
    return Documents(
        MappingProxyType(dict(data["features"])),
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
                row["layer"],
                _terms(row),
                int(row.get("fixed", 0)),
                int(row.get("per_tb", 0)),
                row.get("argument", ""),
                row.get("besides", ""),
                row["source"],
            )
            for row in data["memory"]
        ),
    )


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
