"""The baseline: a directory of the user's, as it is. Trials run in a fresh directory inside it."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._steps import make_directory, output, run, said
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="existing",
    about="Your own directory as the baseline: nothing is built, and only a fresh directory in it is removed.",
    params=(Param("path", ParamType.TEXT, "the directory, as an absolute path", positional=True, required=True),),
    accepts=frozenset(),
    provides=Kind.DIRECTORY,
    deployed=False,
)


class ExistingDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        if spec["path"] is not None and not str(spec["path"]).startswith("/"):
            return [f"'{spec['path']}' is not an absolute path; write existing(/path/from/the/root)."]
        return []

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return Provides(Kind.DIRECTORY, _fresh(spec, place), ours=False, on_existing=True)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        return [make_directory(_fresh(spec, place), f"make a fresh directory in {spec['path']}")]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        fresh = _fresh(spec, place)
        return [
            run("stat", "--format=%F", "--", fresh),
            run("stat", "--dereference", "--format=%d", "--", fresh, str(spec["path"])),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        kind = output(seen, 0)
        if kind is None:
            return [f"The directory {_fresh(spec, place)} is not there: {said(seen, 0)}."]
        if kind.stdout.strip() != "directory":
            return [f"{_fresh(spec, place)} is a {kind.stdout.strip()} instead of a directory."]
        numbers = output(seen, 1)
        if numbers is None:
            return [f"Cannot determine the file system of {spec['path']}: {said(seen, 1)}."]
        if len(set(numbers.stdout.split())) != 1:
            return [f"{_fresh(spec, place)} is on another file system than {spec['path']}: something is mounted on it."]
        return []


def _fresh(spec: Call, place: Place) -> str:
    # The UUID makes it a name that no directory of the user's has: the undo removes it without looking inside.
    return f"{str(spec['path']).rstrip('/')}/{place.name}-{place.uuid[:8]}"


DRIVER = ExistingDriver()
