"""Fills what is below to a share of its room."""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._steps import standard_reasons
from strata.layers._written import TOOLS, look, make_directory, write, written_differences
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step
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
)


class FillDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools)

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
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return look(place, _directory(below[0], place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        return written_differences("fill", seen, in_files=below[0].kind is Kind.DIRECTORY)


def _directory(below: Provides, place: Place) -> str | None:
    return f"{below.path}/.{place.name}-fill" if below.kind is Kind.DIRECTORY else None


DRIVER = FillDriver()
