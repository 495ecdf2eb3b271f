"""The one place that writes to a terminal: everything the commands print passes through here.

What is printed can come from a run directory, a program or a file of somebody else, so it is made visible first (see
`strata.text`): nothing in it drives the terminal.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO, cast

from strata import text as texts


def out(text: str, *, end: str = "\n") -> None:
    """Write to standard output."""
    write(text, sys.stdout, end=end)


def err(text: str, *, end: str = "\n") -> None:
    """Write to standard error."""
    write(text, sys.stderr, end=end)


def write(text: str, stream: TextIO, *, end: str = "\n") -> None:
    stream.write(texts.visible(text) + end)
    stream.flush()


def colours(stream: TextIO) -> bool:
    """Return whether to colour what goes to `stream`: a terminal, unless NO_COLOR (no-color.org) says otherwise."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def coloured(text: str) -> None:
    """Write to standard output what a renderer of ours coloured."""
    sys.stdout.write(texts.visible_but_coloured(text))
    sys.stdout.flush()


def json(data: object) -> None:
    """Write to standard output as JSON."""
    sys.stdout.write(texts.as_json(data) + "\n")
    sys.stdout.flush()


class _Visible:
    """Standard error for what writes to it by itself: typer about wrong arguments, Python about a fault of ours."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        return self.stream.write(texts.visible(text))


def guard_standard_error() -> None:
    """Make everything visible that is written to standard error, whoever writes it."""
    sys.stderr = cast("TextIO", _Visible(sys.stderr))


def unguarded(stream: TextIO) -> TextIO:
    """The same stream for a picture that moves the cursor, whose texts are made visible before."""
    return stream.stream if isinstance(stream, _Visible) else stream
