"""A layer that does nothing: for campaigns that compare a stack with itself."""

from __future__ import annotations

from collections.abc import Sequence

from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="null",
    about="Does nothing; stacks that differ only in its tag are the same, so they must tie.",
    params=(Param("tag", ParamType.TEXT, "tells one copy of the stack from another", positional=True),),
    accepts=frozenset(Kind) - {Kind.GRANT},
    provides=None,
    deployed=False,
)


class NullDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        return []

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return []

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        return []


DRIVER = NullDriver()
