"""Files that the engine wrote on purpose: what it said of them, and whether they are still there."""

from __future__ import annotations

import json
from collections.abc import Sequence

from strata.layers._steps import output, remove_link, run, said, sh
from strata.model import Command, Completed, Place, Step

TOOLS = {"find": "findutils"}

TIMEOUT_S = 86400.0
"""For disks of many terabytes too."""

# $1 where to put what the engine says, the rest: its arguments.
_WRITE = 'record=$1; shift; strata-engine "$@" > "$record"'

_COUNT = """\
find "$1" -type f -printf '%s\\n' | {
  files=0 bytes=0
  while read -r size; do files=$((files + 1)) bytes=$((bytes + size)); done
  echo "{\\"files\\":$files,\\"bytes\\":$bytes}"
}"""


def make_directory(path: str) -> Step:
    """It goes with the file system that it is on, so there is nothing to undo."""
    return Step(run("mkdir", "--", path), None, "make a directory for what is written")


def write(place: Place, why: str, *arguments: str) -> Step:
    record = _record(place)
    return Step(sh(_WRITE, record, *arguments, timeout_s=TIMEOUT_S), remove_link(record), why)


def look(place: Place, path: str | None) -> list[Command]:
    """`path`: the directory; None when what was written is not in files."""
    return [run("cat", "--", _record(place)), *([] if path is None else [sh(_COUNT, path)])]


def written_differences(layer: str, seen: Sequence[Completed], *, in_files: bool) -> list[str]:
    told = _count(seen, 0)
    if told is None:
        return [f"{layer}: what was written is not known: {said(seen, 0)}."]
    found = _count(seen, 1) if in_files else told
    if found is None:
        return [f"{layer}: what was written cannot be counted: {said(seen, 1)}."]
    if found != told:
        return [
            f"{layer}: there are {found[0]} files of {found[1]} bytes instead of {told[0]} files of {told[1]} bytes."
        ]
    return []


def _record(place: Place) -> str:
    return f"{place.dir}/written"


def _count(seen: Sequence[Completed], index: int) -> tuple[int, int] | None:
    answer = output(seen, index)
    try:
        report = json.loads(answer.stdout if answer else "")
        return int(report["files"]), int(report["bytes"])
    except (ValueError, LookupError, TypeError):
        return None
