"""Write lists of names for people, and make foreign text safe to show. Pure.

Text from a run directory, a program or a stranger can hold control characters, which drive a terminal (OSC 52 writes
the clipboard), bidirectional overrides, which reorder a line, and characters that show as nothing, which hide. Each is
replaced by its escape, such as `\\x1b` or `\\u202e`, so that nothing acts and nothing is hidden.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_NOT_PRINTABLE_ASCII = re.compile(r"[^ -~]")
# Printable by their category, yet shown as nothing: Default_Ignorable_Code_Point of Unicode, and the Braille pattern
# without a dot. First and last of each range.
_BLANK = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer vowels that are inherent
    (0x180B, 0x180F),  # Mongolian variation selectors, and the vowel separator among them
    (0x2800, 0x2800),  # Braille pattern blank
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xE0000, 0xE0FFF),  # tags and variation selectors; what is not assigned there is ignored too
)
_BLANKS = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _BLANK) + "]")
_NAMED = 4  # more names than this are counted
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def visible(text: str) -> str:
    """Return `text` with everything escaped but printable characters, line feeds and tabs."""
    if _plain(text):
        return text
    return _NOT_PRINTABLE_ASCII.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return the same on one line, for a place where a second line would mean something else."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_but_coloured(text: str) -> str:
    """Return `text` as `visible` does, except that sequences which only set colour and weight stay."""
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(_COLOUR.split(text)))


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"; "" for none. `last`: the word before the last name, "or" for a choice."""
    words = list(names)
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def some_of(names: Sequence[str]) -> str:
    """Return what `listed` does; of more names than four the first three and a count: "a, b, c and 7 others"."""
    if len(names) > _NAMED:
        return listed([*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} others"])
    return listed(names)


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
        return data if _plain(data) else visible(data)
    if isinstance(data, Mapping):
        return {_cleaned(key): _cleaned(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return type(data)([_cleaned(each) for each in data])
    if is_dataclass(data) and not isinstance(data, type):
        return replace(data, **{field.name: _cleaned(getattr(data, field.name)) for field in fields(data)})
    return data


def _plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _BLANKS.search(text) is None)


def _harmless(sign: str) -> bool:
    return _plain(sign) or sign in "\n\t"


def _shown(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if _harmless(sign) else sign.encode("unicode_escape").decode("ascii")


def _in_json(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if _harmless(sign) else json.dumps(sign)[1:-1] if sign != "\x7f" else "\\u007f"
