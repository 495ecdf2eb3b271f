"""A layer that does nothing: for campaigns that compare a stack with itself."""

from __future__ import annotations

from strata.layers._driver import PassThrough
from strata.model import Call, Facts, Kind, LayerInfo, Param, ParamType

INFO = LayerInfo(
    name="null",
    about="Does nothing; stacks that differ only in its tag are the same, so they must tie.",
    params=(Param("tag", ParamType.TEXT, "tells one copy of the stack from another", positional=True),),
    accepts=frozenset(Kind) - {Kind.GRANT},
    provides=None,
    deployed=False,
)


class NullDriver(PassThrough):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return []


DRIVER = NullDriver()
