"""Make text from a run directory, a program or a stranger safe to show. Pure.

Such text can hold control characters, which drive a terminal (OSC 52 writes the clipboard), bidirectional overrides,
which reorder a line, and characters without a glyph, which hide. Each is replaced by its escape, such as `\\x1b` or
`\\u202e`, so that nothing acts and nothing is hidden.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_NOT_PRINTABLE_ASCII = re.compile(r"[^ -~]")
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def visible(text: str) -> str:
    """Return `text` with everything escaped but printable characters, line feeds and tabs."""
    if text.isprintable():
        return text
    return _NOT_PRINTABLE_ASCII.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return the same on one line, for a place where a second line would mean something else."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_but_coloured(text: str) -> str:
    """Return `text` as `visible` does, except that sequences which only set colour and weight stay."""
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(_COLOUR.split(text)))


def cleaned(data: T) -> T:
    """Return the same data with every text in it made visible: in data classes, mappings, tuples and lists."""
    return _cleaned(data)  # type: ignore[no-any-return]


def as_json(data: object, indent: int = 2) -> str:
    """Return `data` as JSON in which every character that `visible` escapes is written as `\\uXXXX`.

    A number that JSON cannot hold (infinite, not a number) is null; a set becomes a sorted list.
    """
    text = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_PRINTABLE_ASCII.sub(_in_json, text)


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return [_finite(each) for each in data]
    if isinstance(data, set | frozenset):
        return sorted(data)
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _cleaned(data: Any) -> Any:
    if isinstance(data, str):
        # An enumeration's value stays what it is; none holds anything to escape.
        return data if data.isprintable() else visible(data)
    if isinstance(data, Mapping):
        return {_cleaned(key): _cleaned(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return type(data)([_cleaned(each) for each in data])
    if is_dataclass(data) and not isinstance(data, type):
        return replace(data, **{field.name: _cleaned(getattr(data, field.name)) for field in fields(data)})
    return data


def _harmless(sign: str) -> bool:
    return sign.isprintable() or sign in "\n\t"


def _shown(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if _harmless(sign) else sign.encode("unicode_escape").decode("ascii")


def _in_json(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if _harmless(sign) else json.dumps(sign)[1:-1] if sign != "\x7f" else "\\u007f"
