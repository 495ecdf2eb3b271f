"""A directory inside the directory below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from strata.layers._driver import Driver
from strata.layers._steps import make_directory, output, run, said
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="dir",
    about="A directory inside the one below.",
    params=(Param("name", ParamType.TEXT, "what it is called", default="dir", positional=True),),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.DIRECTORY,
)


class DirDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        # A name with a slash could leave the directory below, and what is there is removed with everything in it.
        if not re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]{0,99}", str(spec["name"])):
            then = "write letters, digits, '.', '_', '+' and '-', with neither '.' nor '-' in front."
            return [f"'{spec['name']}' is not the name of a directory that dir makes; {then}"]
        return []

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return replace(below[0], path=f"{below[0].path}/{spec['name']}")

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        return [make_directory(self.provides(spec, below, place).path, f"make the directory {spec['name']}")]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("stat", "--format=%F", "--", self.provides(spec, below, place).path)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        kind = output(seen, 0)
        if kind is None or kind.stdout.strip() != "directory":
            path = self.provides(spec, below, place).path
            return [f"The directory {path} is not there: {kind.stdout.strip() if kind else said(seen, 0)}."]
        return []


DRIVER = DirDriver()
