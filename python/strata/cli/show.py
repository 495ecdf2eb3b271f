"""strata show"""

from __future__ import annotations

from dataclasses import asdict

from strata.cli import output, reference


def show(what: str, name: str | None, as_json: bool) -> None:
    entries = reference.entries(what, name)
    if as_json:
        plain = [asdict(entry) for entry in entries]
        output.json({"version": 1, what: plain})
    elif name is None and what != "metrics":
        width = max(len(entry.name) for entry in entries)
        output.out("\n".join(f"{entry.name:{width}}  {entry.about}" for entry in entries))
    else:
        output.out("\n\n".join(reference.text(entry) for entry in entries))
