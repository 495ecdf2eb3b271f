"""What documents say of each layer: features, risks, memory. Claims, and never measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from strata.model import Call, Value

_SET = "set"  # any value but off

Wanted = str | tuple[Value, ...]
"""`_SET`, or the values."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The arguments of a layer under which something holds."""

    when: tuple[tuple[str, Wanted], ...]
    unless: tuple[tuple[str, Wanted], ...]

    def met(self, call: Call) -> bool:
        return all(_is(call.values.get(name), wanted) for name, wanted in self.when) and not any(
            _is(call.values.get(name), unwanted) for name, unwanted in self.unless
        )

    @property
    def text(self) -> str:
        """What to write for it: "compress", "profile=raid1"; "" where nothing has to be."""
        words = [name if wanted == _SET else f"{name}={wanted[0]}" for name, wanted in self.when]
        return ", ".join([*words, *(f"no {name}" for name, _ in self.unless)])


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
    writeback: bool  # a write that was acknowledged can be lost


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
            Risk(row["layer"], _terms(row), row["risk"], row["source"], bool(row.get("writeback")))
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
    return Terms(pairs["when"], pairs["unless"])


def _is(value: Value | None, wanted: Wanted) -> bool:
    if wanted == _SET:
        return value is not None and value is not False and value != 0
    return value in wanted
