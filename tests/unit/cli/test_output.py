"""Colour is for terminals whose users want it."""

from __future__ import annotations

import io

import pytest

from strata.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_colours_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.colours(Terminal()) and not output.colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")  # an empty value says nothing
    assert output.colours(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.colours(Terminal())
