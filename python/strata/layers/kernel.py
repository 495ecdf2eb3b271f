"""Which kernel carries the stack. The lab boots it; anywhere else it is only compared with the one that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.layers._condition import ANYTHING
from strata.layers._driver import PassThrough
from strata.layers._steps import output, run, said
from strata.model import Call, Command, Completed, Facts, LayerInfo, Param, ParamType, Place, Provides

INFO = LayerInfo(
    name="kernel",
    about="The kernel that carries the stack, as a factor of the lab; nothing is built.",
    params=(Param("version", ParamType.TEXT, "its first numbers, as in 6.1 or 6.12", required=True, positional=True),),
    accepts=ANYTHING,
    provides=None,
    deployed=False,
)

_VERSION = re.compile(r"\d{1,3}(\.\d{1,4}){1,2}")


class KernelDriver(PassThrough):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        if not _VERSION.fullmatch(str(spec["version"])):
            return [f"'{spec['version']}' is not the version of a kernel; write it as in kernel(6.12)."]
        if not _is(str(spec["version"]), facts.kernel_text):
            return [f"This machine runs kernel {facts.kernel_text}; `kernel` is a factor of the lab: add --on lab."]
        return []

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [run("uname", "-r")]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        release = output(seen, 0)
        if release is None:
            return [f"The kernel cannot be asked for its version: {said(seen, 0)}."]
        if not _is(str(spec["version"]), release.stdout.strip()):
            return [f"The kernel is {release.stdout.strip()} instead of {spec['version']}."]
        return []


def _is(version: str, release: str) -> bool:
    """Whether `release` ("6.12.107+deb13-amd64") starts with these numbers; 6.1 is not 6.12."""
    return re.match(rf"{re.escape(version)}(?!\d)", release) is not None


DRIVER = KernelDriver()
