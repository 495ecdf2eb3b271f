"""strata show"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from strata.cli import output, reference
from strata.errors import BadInput
from strata.store import reader


def show(what: str, name: str | None, as_json: bool) -> None:
    if what == "campaign":
        _show_campaign(name, as_json)
        return
    entries = reference.entries(what, name)
    if as_json:
        plain = [asdict(entry) for entry in entries]
        output.json({"version": 1, what: plain})
    elif name is None and what != "metrics":
        width = max(len(entry.name) for entry in entries)
        output.out("\n".join(f"{entry.name:{width}}  {entry.about}" for entry in entries))
    else:
        output.out("\n\n".join(reference.text(entry) for entry in entries))


def _show_campaign(directory: str | None, as_json: bool) -> None:
    """Print the campaign file that loads to the run in `directory`. Raises BadInput, StoreError."""
    if directory is None:
        raise BadInput("show campaign needs the directory of a run, as in strata show campaign runs/demo.")
    text = reader.source(Path(directory)).source
    if as_json:
        output.json({"version": 1, "campaign": text})
    else:
        output.out(text, end="")
