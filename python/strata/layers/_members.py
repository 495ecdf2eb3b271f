"""Members that a visit removes from a file system or pool on purpose, noted where the next inspection finds them.

A member is known by its place among the devices below, counted from 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._device import fields
from strata.layers._steps import remove_link, sh
from strata.model import Command, Completed, Place, Step

LOST = "lost"  # gone for good
REBUILT = "rebuilt"  # failed and came back empty; the rebuild may still run

_NOTE = 'mark=$1 what=$2; shift 2; for member; do echo "$what=$member"; done >> "$mark"'

_READ = 'if [ -f "$1" ]; then cat -- "$1"; fi'


def note(place: Place, what: str, members: Sequence[int]) -> Step:
    mark = _mark(place)
    return Step(sh(_NOTE, mark, what, *map(str, members)), remove_link(mark), f"note what is {what} on purpose")


def read_notes(place: Place) -> Command:
    return sh(_READ, _mark(place))


def noted(seen: Sequence[Completed], index: int, what: str) -> frozenset[int]:
    """The members that are `what`; one that was lost and then rebuilt is only rebuilt."""
    found = fields(seen, index)
    members = {text for text in found.get(what, ()) if text.isascii() and text.isdecimal() and len(text) < 6}
    return frozenset(map(int, members - set(found.get(REBUILT, ()) if what == LOST else ())))


def choose(layer: str, losable: Sequence[int], count: int) -> list[int]:
    """The first `count` of those that can be lost, in this order. Raises BadInput when there are not so many."""
    if not losable:
        raise BadInput(f"{layer} keeps no second copy, so it cannot lose a disk; choose a layout that does.")
    if count > len(losable):
        raise BadInput(f"{layer} can lose {len(losable)} of its disks and keep all data, not {count}; ask for fewer.")
    return list(losable[:count])


def _mark(place: Place) -> str:
    return f"{place.dir}/members"
