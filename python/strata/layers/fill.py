"""Fills what is below to a share of its room."""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._driver import Driver
from strata.layers._steps import output, remove_link, run, said, sh
from strata.layers._written import TOOLS, look, make_directory, write, written_differences
from strata.model import (
    Call,
    Command,
    Completed,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_percent

INFO = LayerInfo(
    name="fill",
    about="Fills a directory's file system or a device to a share of its room, with data that do not compress.",
    params=(
        Param("share", ParamType.PERCENT, "how full it is then", positional=True, required=True, maximum=0.98),
        Param("duplicates", ParamType.PERCENT, "how much of it repeats what was written before", default=0.0),
        Param("seed", ParamType.INT, "decides the content", default=1, minimum=0),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
    provides=None,
    tools=TOOLS,
    deployed=False,
    metrics=(Metric("fill.used_pct", "%", "neither", "how full the file system was after it, as df counts"),),
)

# How far the share that was asked for and what df says may be apart: btrfs gives out room in large pieces.
_APART_PCT = 10.0

# $1 directory, $2 where to put what df says. What was written lately is only counted once it is on the disks.
_NOTE = 'sync --file-system -- "$1" && df --block-size=1 --output=used,avail -- "$1" | sed 1d > "$2"'


class FillDriver(Driver):
    info = INFO

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if below[0].kind is Kind.DIRECTORY and not below[0].ours:
            raise BadInput("fill would fill a file system of your own; put it on one that Strata makes.")
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        directory = _directory(below[0], place)
        share, duplicates = (format_percent(float(spec[name] or 0)) for name in ("share", "duplicates"))
        options = ("--share", share, "--duplicates", duplicates, "--seed", str(spec["seed"]))
        # On a device nothing is left that anybody could take for more than noise.
        return [
            *([] if directory is None else [make_directory(directory)]),
            write(place, f"fill it to {share}", "fill", *options, "--", directory or below[0].path),
            *([] if directory is None else [_note(directory, place)]),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        directory = _directory(below[0], place)
        return [*look(place, directory), *([] if directory is None else [_show(place)])]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        in_files = below[0].kind is Kind.DIRECTORY
        wrong = written_differences("fill", seen, in_files=in_files)
        used, asked = _used_pct(seen, 2), 100.0 * float(spec["share"] or 0)
        if not in_files:
            return wrong
        if used is None:
            wrong.append(f"fill: how full the file system was after it is not known: {said(seen, 2)}.")
        # What repeats is stored once where what is below can tell.
        elif abs(used - asked) > _APART_PCT and not spec["duplicates"]:
            wrong.append(f"fill: df counted {used:.1f} % as used after it instead of {asked:.1f} %.")
        return wrong

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [] if _directory(below[0], place) is None else [_show(place)]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        used = _used_pct(seen, 0)
        return {} if used is None else {"fill.used_pct": used}


def _note(directory: str, place: Place) -> Step:
    return Step(sh(_NOTE, directory, _record(place)), remove_link(_record(place)), "note how full it is")


def _show(place: Place) -> Command:
    return run("cat", "--", _record(place))


def _record(place: Place) -> str:
    return f"{place.dir}/full"


def _used_pct(seen: Sequence[Completed], index: int) -> float | None:
    answer = output(seen, index)
    words = answer.stdout.split() if answer else []
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None
    used, free = map(int, words)
    return 100.0 * used / (used + free) if used + free else None


def _directory(below: Provides, place: Place) -> str | None:
    return f"{below.path}/.{place.name}-fill" if below.kind is Kind.DIRECTORY else None


DRIVER = FillDriver()
