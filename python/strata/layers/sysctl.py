"""A parameter of the kernel, put back when the visit ends."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._steps import output, said, sh
from strata.model import Call, Command, Completed, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="sysctl",
    about="Sets a kernel parameter that storage depends on for the whole machine and puts the old value back.",
    params=(
        Param("name", ParamType.TEXT, "such as vm.dirty_bytes or fs.xfs.xfssyncd_centisecs", positional=True,
              required=True),
        Param("value", ParamType.INT, "its value", minimum=0, required=True),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
    provides=None,
)  # fmt: skip

# What a campaign may change of a machine that others use, too: what decides how data are written back, cached and
# reclaimed. No network, no security, and nothing by which the kernel panics (as fs.xfs.panic_mask).
# Sources: Linux, admin-guide/sysctl/vm, admin-guide/sysctl/fs, admin-guide/xfs.
_NAMES = (
    *("vm.dirty_background_bytes", "vm.dirty_background_ratio", "vm.dirty_bytes", "vm.dirty_expire_centisecs"),
    *("vm.dirty_ratio", "vm.dirty_writeback_centisecs", "vm.dirtytime_expire_seconds", "vm.laptop_mode"),
    *("vm.compaction_proactiveness", "vm.min_free_kbytes", "vm.min_slab_ratio", "vm.min_unmapped_ratio"),
    *("vm.page-cluster", "vm.percpu_pagelist_high_fraction", "vm.swappiness", "vm.vfs_cache_pressure"),
    *("vm.vfs_cache_pressure_denom", "vm.watermark_boost_factor", "vm.watermark_scale_factor", "vm.zone_reclaim_mode"),
    *("fs.aio-max-nr", "fs.xfs.age_buffer_centisecs", "fs.xfs.filestream_centisecs", "fs.xfs.inherit_noatime"),
    *("fs.xfs.inherit_nodefrag", "fs.xfs.inherit_nodump", "fs.xfs.inherit_nosymlinks", "fs.xfs.inherit_sync"),
    *("fs.xfs.rotorstep", "fs.xfs.speculative_cow_prealloc_lifetime", "fs.xfs.speculative_prealloc_lifetime"),
    *("fs.xfs.xfsbufd_centisecs", "fs.xfs.xfssyncd_centisecs"),
)

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


class SysctlDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        if spec["name"] in _NAMES:
            return []
        why = f"sysctl({spec['name']}) is refused: it sets only what storage depends on, for others use this machine"
        return [f"{why}; write one of {', '.join(_NAMES)}."]

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
