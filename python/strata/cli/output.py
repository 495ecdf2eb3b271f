"""The one place that writes to a terminal: everything the commands print passes through here.

What is printed can come from a run directory, a program or a file of somebody else, so it is made visible first (see
`strata.text`): nothing in it drives the terminal.
"""

from __future__ import annotations

import sys
from typing import TextIO

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


def coloured(text: str) -> None:
    """Write to standard output what a renderer of ours coloured."""
    sys.stdout.write(texts.visible_but_coloured(text))
    sys.stdout.flush()


def json(data: object) -> None:
    """Write to standard output as JSON."""
    sys.stdout.write(texts.as_json(data) + "\n")
    sys.stdout.flush()
