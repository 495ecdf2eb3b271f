"""A parameter of the kernel, put back when the visit ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.layers._steps import output, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="sysctl",
    about="Sets a kernel parameter of memory or file systems for the whole machine and puts the old value back.",
    params=(
        Param("name", ParamType.TEXT, "such as vm.dirty_bytes or fs.xfs.xfssyncd_centisecs", positional=True,
              required=True),
        Param("value", ParamType.INT, "its value", minimum=0, required=True),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
    provides=None,
)  # fmt: skip

# What a campaign may change of a machine that others use, too; no network, no security.
_NAME = re.compile(r"(vm|fs)(\.[a-z0-9_-]+)+")

# Of two the kernel holds one and shows 0 for the other, which takes no 0 (Linux, admin-guide/sysctl/vm).
_OTHER = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_ratio": "vm.dirty_bytes",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
    "vm.dirty_background_ratio": "vm.dirty_background_bytes",
}

# $1: the record; then files of parameters.
_RECORD = """\
record=$1; shift
for file; do
  [ -e "$file" ] || { echo "this kernel has no ${file#/proc/sys/}" >&2; exit 1; }
  echo "$file $(cat "$file")"
done > "$record.new" && mv -- "$record.new" "$record"
"""

_RESTORE = """\
if [ ! -s "$1" ]; then exit 0; fi
many=$(wc -l < "$1")
while read -r file value; do
  if [ "$value" = 0 ] && [ "$many" -gt 1 ]; then continue; fi
  echo "$value" > "$file"
done < "$1"
"""


class SysctlDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        if _NAME.fullmatch(str(spec["name"])) is None:
            return [f"sysctl sets parameters of memory and file systems; write vm.… or fs.… instead of {spec['name']}."]
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        name, record = str(spec["name"]), f"{place.dir}/sysctl"
        files = [_file(each) for each in (name, _OTHER.get(name)) if each is not None]
        put = sh('echo "$2" > "$1"', files[0], str(spec["value"]))
        return [
            Step(
                sh(_RECORD, record, *files),
                sh('rm -f -- "$1" "$1.new"', record),
                "note the kernel parameter to put back",
            ),
            Step(
                put,
                sh(_RESTORE, record),
                f"set the kernel parameter {name} to {spec['value']}",
                again=put,
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh('cat "$1"', _file(str(spec["name"])))]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is None:
            return [f"The kernel parameter {spec['name']} cannot be read: {said(seen, 0)}."]
        name, now, asked = spec["name"], shown.stdout.strip(), str(spec["value"])
        return [] if now == asked else [f"The kernel parameter {name} is {now} instead of {asked}."]


def _file(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"


DRIVER = SysctlDriver()
