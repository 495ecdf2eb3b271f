"""strata show"""

from __future__ import annotations

import json
from dataclasses import asdict

from strata.cli import reference


def show(what: str, name: str | None, as_json: bool) -> None:
    entries = reference.entries(what, name)
    if as_json:
        plain = [asdict(entry) for entry in entries]
        print(json.dumps({"version": 1, what: plain}, indent=2, default=sorted))
    elif name is None and what != "metrics":
        width = max(len(entry.name) for entry in entries)
        print("\n".join(f"{entry.name:{width}}  {entry.about}" for entry in entries))
    else:
        print("\n\n".join(reference.text(entry) for entry in entries))
