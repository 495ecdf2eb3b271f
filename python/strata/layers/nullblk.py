"""null_blk: a block device without a disk, the ceiling of what a machine can do. A source: it stands on nothing.

The kernel counts its rate (`mbps`) in budgets of 20 ms (drivers/block/null_blk/main.c, null_handle_throttled). A
request that does not fit in what is left of a budget waits for the next one, and the rest is lost; a request larger
than a whole budget never completes. So requests are at most an eighth of a budget, and discards, which count with all
of their range, are off.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._device import await_node, fields, first, module_reasons
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    BlockBehaviour,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_size, human_size

_MIB = 1 << 20
_NS = 10**9
_SECTOR = 512
_PAGE = 4096
# The largest request. By itself null_blk takes 255 sectors.
_LARGEST_BYTES = 512 << 10
# Budgets a second (TICKS_PER_SEC), and how many of the largest requests fit in one.
_BUDGETS = 50
_IN_A_BUDGET = 8

NAMED_SINCE = (5, 19)
"""The first Linux that calls a device as its directory in configfs."""

INFO = LayerInfo(
    name="nullblk",
    about="A block device without a disk behind it (null_blk): the ceiling of the machine.",
    params=(
        Param("size", ParamType.SIZE, "its size, in whole MiB", default=1 << 30, minimum=_MIB),
        Param("completion", ParamType.TIME, "how long each request takes, by a timer; at once if not said", minimum=0),
        Param(
            "memory_backed",
            ParamType.FLAG,
            "keep what is written, in memory; off: forget it, so no file system can stand on it",
            default=True,
        ),
        Param(
            "discard",
            ParamType.FLAG,
            "take discards, which free that memory; never without memory_backed= or with mbps=",
            default=True,
        ),
        Param("queues", ParamType.INT, "submission queues; 1 if not said", minimum=1, maximum=1024),
        Param("depth", ParamType.INT, "requests in flight in each queue; 64 if not said", minimum=1, maximum=4096),
        Param(
            "mbps",
            ParamType.INT,
            "the most MiB that it moves in a second; up to an eighth less (at 1 a fifth), for the kernel counts in "
            "budgets of 20 ms and loses what is left of each",
            minimum=1,
            maximum=1 << 20,
        ),
        Param("blocksize", ParamType.SIZE, "its sector; 512 if not said", minimum=512, maximum=4096),
        Param("cache", ParamType.SIZE, "a volatile write cache of so much, in whole MiB; none if not said",
              minimum=_MIB),
    ),
    accepts=frozenset(),
    provides=Kind.BLOCK,
    block=BlockBehaviour(forgets={"memory_backed": False}),
    deployed=False,
    tools={
        "modprobe": "kmod", "mount": "mount", "umount": "mount",
        **dict.fromkeys(("mountpoint", "blockdev"), "util-linux"),
    },
)  # fmt: skip

# Without devices of its own: a module that is loaded plainly makes /dev/nullb0.
_LOAD = "if [ ! -d /sys/module/null_blk ]; then modprobe null_blk nr_devices=0; fi"

# $1 directory. configfs is one tree wherever it is mounted; our own mount asks nothing of the machine's.
_MOUNT = 'mkdir -- "$1" && mount -t configfs configfs "$1"'
_UNMOUNT = """\
[ -d "$1" ] || exit 0
if mountpoint --quiet -- "$1"; then umount -- "$1" || exit 1; fi
rmdir -- "$1\""""

# $1 directory in configfs, the rest: NAME VALUE, in this order.
_MAKE = """\
dir=$1; shift
mkdir -- "$dir" || exit 1
while [ "$#" -gt 0 ]; do echo "$2" > "$dir/$1" || exit 1; shift 2; done
echo 1 > "$dir/power\""""

_REMOVE = """\
[ -d "$1" ] || exit 0
echo 0 > "$1/power"
rmdir -- "$1\""""

# $1 directory in configfs, $2 device, the rest: names.
_SHOW = """\
dir=$1; shift
echo "bytes=$(blockdev --getsize64 "$1")" || exit 1
shift
for name; do echo "$name=$(cat "$dir/$name")" || exit 1; done"""


class NullblkDriver(Driver):
    info = INFO

    def memory_bytes(self, spec: Call) -> int:
        return _size(spec) if spec["memory_backed"] else 0

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools) + module_reasons("nullblk", facts, ("null_blk",))
        if facts.kernel[:2] < NAMED_SINCE:
            reasons.append(
                f"The kernel {facts.kernel_text} names null_blk devices by itself; boot Linux 5.19 or newer."
            )
        for name in ("size", "cache"):
            if int(spec[name] or 0) % _MIB:
                reasons.append(f"nullblk({name}={format_size(int(spec[name] or 0))}) is not in whole MiB; round it.")
        sector = int(spec["blocksize"] or 512)
        if sector & (sector - 1):
            reasons.append(f"nullblk has sectors of a power of two, and {sector} is none; change blocksize=.")
        if spec["memory_backed"] and _size(spec) >= facts.memory_bytes:
            reasons.append(
                f"nullblk of {human_size(_size(spec))} keeps its data in memory, and the machine has "
                f"{human_size(facts.memory_bytes)}; make size= smaller."
            )
        if spec["cache"] is not None and not spec["memory_backed"]:
            reasons.append("nullblk has a cache only where it keeps what is written; leave cache= out.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return Provides(Kind.BLOCK, f"/dev/{place.name}", _size(spec))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        config, directory = _config(place), _directory(place)
        return [
            Step(sh(_LOAD), None, "load null_blk"),
            Step(sh(_MOUNT, config), sh(_UNMOUNT, config), "mount configfs for ourselves"),
            Step(
                sh(_MAKE, directory, *(word for pair in _attributes(spec) for word in pair)),
                sh(_REMOVE, directory),
                "make the null_blk device",
            ),
            Step(await_node(f"/dev/{place.name}"), None, "wait for the device"),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        names = [name for name, _ in _attributes(spec)]
        return [
            run("readlink", "-e", "--", f"/sys/class/block/{place.name}"),
            sh(_SHOW, _directory(place), f"/dev/{place.name}", "power", *names),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        for index in (0, 1):
            if output(seen, index) is None:
                return [f"nullblk: the device {place.name} is not there: {said(seen, index)}."]
        state = fields(seen, 1)
        asked = {"bytes": str(_size(spec)), "power": "1", **dict(_attributes(spec))}
        return [
            f"nullblk: {name} of {place.name} is {first(state, name)} instead of {value}."
            for name, value in asked.items()
            if first(state, name) != value
        ]


def _size(spec: Call) -> int:
    return int(spec["size"] or 0)


def _config(place: Place) -> str:
    return f"{place.dir}/config"


def _directory(place: Place) -> str:
    return f"{_config(place)}/nullb/{place.name}"


def _largest_bytes(spec: Call) -> int:
    """Of a request, in whole pages; with `mbps` many of them fit in a budget, so that little of it is lost."""
    if spec["mbps"] is None:
        return _LARGEST_BYTES
    pages = _MIB // _BUDGETS * int(spec["mbps"]) // _IN_A_BUDGET // _PAGE
    return min(_LARGEST_BYTES, max(pages, 1) * _PAGE)


def _attributes(spec: Call) -> list[tuple[str, str]]:
    """(name, value) as the kernel takes and shows them, in the order of writing."""
    completion, cache = spec["completion"], int(spec["cache"] or 0)
    chosen = [
        ("size", str(_size(spec) // _MIB)),
        ("irqmode", "0" if completion is None else "2"),  # 0: completed where it was submitted; 2: by a timer
        ("memory_backed", str(int(bool(spec["memory_backed"])))),
        ("discard", str(int(bool(spec["memory_backed"] and spec["discard"] and spec["mbps"] is None)))),
        ("max_sectors", str(_largest_bytes(spec) // _SECTOR)),
    ]
    if completion is not None:
        chosen.append(("completion_nsec", str(round(float(completion) * _NS))))
    chosen += [
        (attribute, str(spec[name]))
        for name, attribute in (
            ("queues", "submit_queues"),
            ("depth", "hw_queue_depth"),
            ("mbps", "mbps"),
            ("blocksize", "blocksize"),
        )
        if spec[name] is not None
    ]
    if cache:
        chosen.append(("cache_size", str(cache // _MIB)))
    return chosen


DRIVER = NullblkDriver()
