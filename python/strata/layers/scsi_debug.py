"""scsi_debug: SCSI disks of the kernel's own, in memory, with the whole way of SCSI above them. A source.

Next to nullblk it has what a real disk's driver has: a queue of SCSI commands, a volatile write cache that is flushed,
UNMAP. All disks of the module share one set of knobs, so all of a stack are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._device import fields, first, module_reasons
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step
from strata.units import format_size, human_size

_MIB = 1 << 20
_NS = 10**9

# One store for each host, and a product name to know ours by: since 5.9.
STORES_SINCE = (5, 9)

INFO = LayerInfo(
    name="scsi_debug",
    about="A SCSI disk without a disk behind it, kept in memory (scsi_debug); all of a stack are alike.",
    params=(
        Param("size", ParamType.SIZE, "its size, in whole MiB", default=1 << 30, minimum=_MIB),
        Param("delay", ParamType.TIME, "how long each command takes, less than a second; at once if not said",
              minimum=0),
        Param("depth", ParamType.INT, "commands in flight; the module's own if not said", minimum=1, maximum=192),
        Param("queues", ParamType.INT, "submission queues; 1 if not said", minimum=1, maximum=64),
        Param("discard", ParamType.FLAG, "take UNMAP", default=True),
        Param("blocksize", ParamType.SIZE, "its sector: 512, 1024, 2048 or 4096; 512 if not said", minimum=512,
              maximum=4096),
    ),
    accepts=frozenset(),
    provides=Kind.BLOCK,
    deployed=False,
    tools={"modprobe": "kmod", "blockdev": "util-linux"},
)  # fmt: skip

_SYS = "/sys/bus/pseudo/drivers/scsi_debug"
_PARAMETERS = "/sys/module/scsi_debug/parameters"

# $1 whose it is, the rest: NAME=VALUE. The module is there when another disk of this stack has been made.
_LOAD = f"""\
owner=$1; shift
if [ ! -d {_PARAMETERS} ]; then exec modprobe scsi_debug add_host=0 per_host_store=1 "inq_product=$owner" "$@"; fi
found=$(cat {_PARAMETERS}/inq_product)
if [ "$found" != "$owner" ]; then
  echo "scsi_debug is loaded by somebody else ($found), and has one set of knobs for all its disks: unload it first" >&2
  exit 1
fi
for pair; do
  value=$(cat "{_PARAMETERS}/${{pair%%=*}}")
  if [ "$value" != "${{pair#*=}}" ]; then
    echo "all disks of scsi_debug are alike, and ${{pair%%=*}} is $value of another layer's: write the same in both" >&2
    exit 1
  fi
done"""

_UNLOAD = f"""\
[ -d {_PARAMETERS} ] && [ "$(cat {_PARAMETERS}/inq_product)" = "$1" ] || exit 0
[ "$(cat {_SYS}/add_host)" -gt 0 ] || modprobe -r scsi_debug"""

# $1 directory of the layer. The last host that was added is the first that goes: how many there were is kept before.
_ADD = f"""\
cat {_SYS}/add_host >"$1/hosts" || exit 1
echo 1 >{_SYS}/add_host || exit 1
for pause in 0 0.05 0.1 0.2 0.4 0.8 1 2 4; do
  sleep "$pause"
  for block in /sys/bus/pseudo/devices/adapter"$(cat "$1/hosts")"/host*/target*/*/block/*; do
    if [ -b "/dev/${{block##*/}}" ]; then exec ln -s "/dev/${{block##*/}}" "$1/device"; fi
  done
done
echo "scsi_debug shows no disk though the kernel was told to make it: look at dmesg for the reason" >&2
exit 1"""

_REMOVE = f"""\
[ -e "$1/hosts" ] || exit 0
while [ -d {_SYS} ] && [ "$(cat {_SYS}/add_host)" -gt "$(cat "$1/hosts")" ]; do
  echo -1 >{_SYS}/add_host || exit 1
done
rm -f -- "$1/device" "$1/hosts\""""

# $1 device, the rest: names of parameters.
_SHOW = f"""\
echo "bytes=$(blockdev --getsize64 "$1")" || exit 1
shift
for name; do echo "$name=$(cat "{_PARAMETERS}/$name")" || exit 1; done"""


class ScsiDebugDriver(Driver):
    info = INFO

    def memory_bytes(self, spec: Call) -> int:
        return _size(spec)

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools) + module_reasons("scsi_debug", facts, ("scsi_debug",))
        if facts.kernel[:2] < STORES_SINCE:
            reasons.append(
                f"The kernel {facts.kernel_text} keeps all disks of scsi_debug in one store; boot Linux 5.9 or newer."
            )
        if _size(spec) % _MIB:
            reasons.append(f"scsi_debug(size={format_size(_size(spec))}) is not in whole MiB; round it.")
        if _size(spec) >= facts.memory_bytes:
            reasons.append(
                f"scsi_debug of {human_size(_size(spec))} keeps its data in memory, and the machine has "
                f"{human_size(facts.memory_bytes)}; make size= smaller."
            )
        sector = int(spec["blocksize"] or 512)
        if sector & (sector - 1):
            reasons.append(f"scsi_debug has sectors of a power of two, and {sector} is none; change blocksize=.")
        if float(spec["delay"] or 0) >= 1:
            reasons.append("scsi_debug delays a command by less than a second; make delay= shorter, or use dm(delay).")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return Provides(Kind.BLOCK, f"{place.dir}/device", _size(spec))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        pairs = [f"{name}={value}" for name, value in _parameters(spec)]
        return [
            Step(sh(_LOAD, _owner(place), *pairs), sh(_UNLOAD, _owner(place)), "load scsi_debug"),
            Step(sh(_ADD, place.dir), sh(_REMOVE, place.dir), "make the SCSI disk"),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        device = f"{place.dir}/device"
        return [
            run("readlink", "-e", "--", device),
            sh(_SHOW, device, "inq_product", *(name for name, _ in _parameters(spec))),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        for index in (0, 1):
            if output(seen, index) is None:
                return [f"scsi_debug: its disk is not there: {said(seen, index)}."]
        state = fields(seen, 1)
        asked = {"bytes": str(_size(spec)), "inq_product": _owner(place), **dict(_parameters(spec))}
        return [
            f"scsi_debug: {name} is {first(state, name)} instead of {value}."
            for name, value in asked.items()
            if first(state, name) != value
        ]


def _size(spec: Call) -> int:
    return int(spec["size"] or 0)


def _owner(place: Place) -> str:
    """What its disks call their product, of 16 letters at most: the run's own name, without the layer's number."""
    return "-".join(place.name.split("-")[:2])


def _parameters(spec: Call) -> list[tuple[str, str]]:
    """(name, value) as the module takes and shows them."""
    chosen = [
        ("dev_size_mb", str(_size(spec) // _MIB)),
        ("lbpu", str(int(bool(spec["discard"])))),
        ("sector_size", str(spec["blocksize"] or 512)),
        ("submit_queues", str(spec["queues"] or 1)),
    ]
    # Either is: a delay in nanoseconds makes the one in ticks of the clock -9999.
    delay_ns = round(float(spec["delay"] or 0) * _NS)
    chosen.append(("ndelay", str(delay_ns)) if delay_ns else ("delay", "0"))
    if spec["depth"] is not None:
        chosen.append(("max_queue", str(spec["depth"])))
    return chosen


DRIVER = ScsiDebugDriver()
