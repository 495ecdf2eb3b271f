"""Nothing in foreign text acts on a terminal or hides from a reader."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass

import pytest

from strata.model import Kind
from strata.text import as_json, cleaned, listed, one_line, some_of, visible, visible_but_coloured

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"}
# Default_Ignorable_Code_Point of Unicode as far as it is printable by category, and a pattern of no dot.
BLANK = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0}
BLANK |= {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
# Without the ideographs and Hangul syllables, and of the upper planes only the tags and an end.
CODES = (*range(0x3400), *range(0xA000, 0xAC00), *range(0xD700, 0x11000), *range(0xE0000, 0xE0200), 0x10FFFF)


def test_every_character_that_acts_or_hides_is_escaped() -> None:
    for sign in map(chr, CODES):
        shown = visible(f"a{sign}b")
        if sign in "\n\t":
            assert shown == f"a{sign}b"
        elif unicodedata.category(sign) in HIDDEN or ord(sign) in BLANK:
            assert shown.startswith("a\\") and shown.isprintable() and shown.endswith("b"), hex(ord(sign))
        elif shown != f"a{sign}b":
            assert unicodedata.category(sign) == "Zs" and shown.isascii(), hex(ord(sign))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("disk\u202e4txe", "disk\\u202e4txe"),
        ("\ud800\udcff", "\\ud800\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("a\ufe0f b\u3164 c\u2800 \U000e0100", "a\\ufe0f b\\u3164 c\\u2800 \\U000e0100"),
        ("größer × 3 – 日本語", "größer × 3 – 日本語"),
    ],
)
def test_what_is_escaped_can_be_read(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_stays_one_line() -> None:
    assert one_line("a\nb\tc\r\nd\u2028e") == "a\\nb\\tc\\nd\\u2028e"


def test_only_colour_passes_as_colour() -> None:
    assert visible_but_coloured("\x1b[1;32mgood\x1b[0m") == "\x1b[1;32mgood\x1b[0m"
    for text in ("\x1b[2J", "\x1b]0;title\x07", "\x1b[?1049h", "\x1b[6n", "\x9b31m", "\x1b[31;2J"):
        assert "\x1b" not in visible_but_coloured(text) and "\x9b" not in visible_but_coloured(text)


def test_json_stays_what_it_was_and_is_safe_to_print() -> None:
    data = {"\x1b": ["\x7f\x9b\u202e\ud800\U000e0041é\n", 1.5, None, True], "b": {"c": "\x00"}}
    text = as_json(data)
    assert json.loads(text) == data
    assert visible(text) == text and "é" in text
    assert json.loads(as_json({"a": float("inf"), "b": (float("nan"), 1)})) == {"a": None, "b": [None, 1]}
    assert json.loads(as_json(frozenset({"b", "a"}))) == ["a", "b"]


@dataclass(frozen=True, slots=True)
class Inner:
    text: str
    more: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    by_name: dict[str, list[Inner]]
    kind: Kind
    number: float | None


def test_every_text_of_nested_data_is_cleaned() -> None:
    bad, good = "\x1b[2J", "\\x1b[2J"
    data = Outer(Inner(bad, (bad, "plain")), {bad: [Inner(bad, ())]}, Kind.BLOCK, None)
    assert cleaned(data) == Outer(Inner(good, (good, "plain")), {good: [Inner(good, ())]}, Kind.BLOCK, None)
    assert cleaned(data).kind is Kind.BLOCK


def test_names_are_listed_for_people() -> None:
    names = ["a", "b", "c", "d", "e"]
    assert [listed(names[:many]) for many in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert listed(iter(names), "or") == "a, b, c, d or e"
    assert [some_of(names[:4]), some_of(names)] == ["a, b, c and d", "a, b, c and 2 others"]
