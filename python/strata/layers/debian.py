"""Which Debian carries the stack. The lab boots it; anywhere else it is only compared with the one that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.layers._condition import ANYTHING
from strata.layers._driver import PassThrough
from strata.layers._steps import output, said, sh
from strata.model import Call, Command, Completed, Facts, LayerInfo, Param, ParamType, Place, Provides

INFO = LayerInfo(
    name="debian",
    about="The Debian release that carries the stack, kernel and programs, as a factor of the lab; nothing is built.",
    params=(Param("release", ParamType.INT, "its number", required=True, minimum=1, positional=True),),
    accepts=ANYTHING,
    provides=None,
    deployed=False,
)

_SHOW = '. /etc/os-release && echo "$PRETTY_NAME"'


class DebianDriver(PassThrough):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        if not _is(spec["release"], facts.os):
            what = facts.os or "an unknown system"
            return [f"This machine runs {what}; `debian` is a factor of the lab: add --on lab."]
        return []

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        system = output(seen, 0)
        if system is None:
            return [f"The system cannot be asked for its release: {said(seen, 0)}."]
        if not _is(spec["release"], system.stdout.strip()):
            return [f"The system is {system.stdout.strip()} instead of Debian {spec['release']}."]
        return []


def _is(release: object, system: str) -> bool:
    """Whether `system` ("Debian GNU/Linux 12 (bookworm)") is this release."""
    found = re.match(r"Debian GNU/Linux (\d+)", system)
    return found is not None and found[1] == str(release)


DRIVER = DebianDriver()
