"""bcache: a fast device caches a slow one.

The cache set bears the UUID of the place; make-bcache takes none for the two devices, which draw their own. Detached
from its set a backing device no longer says whose it was, so its own UUID is noted in the place before that.
udev may register the devices before we do, or again after they were let go: both ways end in the same state here.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._device import NAME, SETTLE, fields, first, module_reasons
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
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_size

SECTOR_BYTES = 512

_HEADER_BYTES = 16 * SECTOR_BYTES
"""Where data start on the backing device."""

_FLUSH_S = 12 * 3600.0

# The kernel adds up hits and misses every 300 s / 22 (drivers/md/bcache/stats.c): what happened since shows then.
_COUNTED_AFTER_S = 14

MODES = ("writethrough", "writeback", "writearound", "none")

INFO = LayerInfo(
    name="bcache",
    about="A cache on one device, the last, for another: hdd + ssd | bcache.",
    params=(
        Param(
            "mode",
            ParamType.CHOICE,
            "how writes go: to both, to the cache first, past the cache; none: reads too go past it",
            default="writethrough",
            choices=MODES,
            positional=True,
        ),
        Param(
            "sequential_cutoff",
            ParamType.SIZE,
            "runs of I/O longer than this go past the cache, 0: none do; the kernel's default is 4M",
            maximum=(1 << 32) - 1,
        ),
        Param(
            "writeback_percent",
            ParamType.PERCENT,
            "how much of the cache may be dirty, in whole percent; the kernel's default is 10%",
            maximum=0.4,
        ),
        Param(
            "congested",
            ParamType.FLAG,
            "go past a cache that answers slowly (over 2 ms for reads, 20 ms for writes); off: always use it",
            default=True,
        ),
        Param("block", ParamType.SIZE, "the smallest unit of I/O; 512 if not said", minimum=SECTOR_BYTES),
        Param("bucket", ParamType.SIZE, "the unit in which the cache is given out; 512K if not said",
              minimum=4096),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.BLOCK,
    block=BlockBehaviour(queue=False),
    many=True,
    tools={
        "make-bcache": "bcache-tools",
        "bcache-super-show": "bcache-tools",
        "wipefs": "util-linux",
        "modprobe": "kmod",
    },
    metrics=(
        Metric("bcache.hits", "count", "neither", "I/O served by the cache, since the layer was built"),
        Metric("bcache.misses", "count", "neither", "I/O that the cache could not serve, since the layer was built"),
        Metric("bcache.bypassed_bytes", "bytes", "neither", "I/O that went past the cache (rounded by the kernel)"),
        Metric("bcache.dirty_bytes", "bytes", "neither", "data that only the cache holds (rounded by the kernel)"),
    ),
)  # fmt: skip

# $1 backing device, $2 cache, $3 UUID of the set, $4 link to make. A device that udev registered first is refused
# silently (register_quiet); the two find each other by the set.
_ATTACH = (
    NAME
    + SETTLE
    + """\
if [ ! -d /sys/fs/bcache ]; then modprobe bcache || exit 1; fi
settle
node=/sys/class/block/$(name "$1")/bcache
for pause in 0 0.05 0.1 0.2 0.4 0.8 1 2 4; do
  sleep "$pause"
  for device in "$1" "$2"; do
    if [ ! -e "/sys/class/block/$(name "$device")/bcache" ]; then
      readlink -f -- "$device" > /sys/fs/bcache/register_quiet
    fi
  done
  settle
  if [ -e "$node/dev" ] && [ -e "$node/cache" ]; then
    [ "$(name "$node/cache")" = "$3" ] || break
    device=/dev/$(name "$node/dev")
    if [ -b "$device" ]; then ln -s -- "$device" "$4"; exit; fi
  fi
done
echo "the kernel did not join $1 and $2: look at dmesg for the reason" >&2
exit 1"""
)

# $1 backing device, $2 UUID of the set, $3 file for the backing device's own UUID. To detach is the one way to have
# everything written back at once: any other leaves the pauses in that the kernel makes between its rounds.
_FLUSH = (
    NAME
    + """\
node=/sys/class/block/$(name "$1")/bcache
[ -e "$node/cache" ] && [ "$(name "$node/cache")" = "$2" ] || exit 0
if [ ! -s "$3" ]; then cat "$node/backing_dev_uuid" > "$3.new" && mv -- "$3.new" "$3" || exit 1; fi
echo 1 > "$node/detach" || exit 1
still=0 last=
while [ -e "$node/cache" ]; do
  now=$(cat "$node/dirty_data" 2>/dev/null)
  if [ "$now" = "$last" ]; then still=$(($still + 1)); else still=0 last=$now; fi
  if [ "$still" -gt 6000 ]; then
    echo "$now on the cache cannot be written back to $1: look at dmesg for a disk that fails" >&2; exit 1
  fi
  sleep 0.05
done"""
)

# $1 UUID of the set, $2 file with the backing device's own, the rest: devices, the backing one first. Stopping is
# asked for and then waited for. Rounds, because udev may register what was just let go.
_REMOVE = (
    SETTLE
    + """\
set=$1 own=$(cat -- "$2" 2>/dev/null); shift 2
ours() {
  shown=$(bcache-super-show "$1" 2>/dev/null) || return
  echo "$shown" | grep -qi "^cset.uuid[[:space:]]*$set" && return
  [ -n "$own" ] && echo "$shown" | grep -qi "^dev.uuid[[:space:]]*$own"
}
for pause in 0 0.1 0.2 0.4 0.8 1 2 4; do
  sleep "$pause"; found=
  for device in $(readlink -f -- "$@"); do
    [ -b "$device" ] && ours "$device" || continue
    found="$found $device"
    node=/sys/class/block/${device##*/}/bcache
    for stop in "$node/stop" "$node/set/stop"; do
      if [ -e "$stop" ]; then echo 1 > "$stop"; fi
    done
    for wait in 0.05 0.1 0.2 0.4 0.8 1 2; do
      if [ -e "$node" ]; then sleep "$wait"; fi
    done
    if [ ! -e "$node" ]; then wipefs --quiet --all --types bcache -- "$device"; fi
  done
  if [ -z "$found" ]; then exit 0; fi
  settle
done
echo "the kernel still holds$found: end what uses the cached device, then clean up again" >&2
exit 1"""
)

# $1 backing device, the rest: NAME VALUE. Names with a slash in front are the set's.
_TUNE = (
    NAME
    + """\
node=/sys/class/block/$(name "$1")/bcache; shift
while [ "$#" -gt 0 ]; do
  case $1 in /*) file=$node/cache$1 ;; *) file=$node/$1 ;; esac
  echo "$2" > "$file" || exit 1
  shift 2
done"""
)

# $1 link, $2 backing device, $3 cache.
_SHOW = (
    NAME
    + """\
node=/sys/class/block/$(name "$2")/bcache
[ -e "$node" ] || { echo "the kernel does not know $2 as a backing device" >&2; exit 1; }
echo "device=$(name "$1")"
echo "backing=$(name "$2")"; echo "cache=$(name "$3")"
echo "made=$(name "$node/dev")"
if [ -e "$node/cache" ]; then echo "set=$(name "$node/cache")"; fi
held=/sys/class/block/$(name "$3")/bcache/set
if [ -e "$held" ]; then echo "cache_set=$(name "$held")"; fi
for field in state cache_mode sequential_cutoff writeback_percent; do echo "$field=$(cat "$node/$field")"; done
for field in block_size bucket_size congested_read_threshold_us congested_write_threshold_us; do
  if [ -r "$node/cache/$field" ]; then echo "$field=$(cat "$node/cache/$field")"; fi
done"""
)

# $1 backing device, $2 seconds. What is dirty first, for it goes on being written back.
_FIGURES = (
    NAME
    + """\
node=/sys/class/block/$(name "$1")/bcache
echo "dirty=$(cat "$node/dirty_data")"
sleep "$2"
for field in cache_hits cache_misses bypassed; do echo "$field=$(cat "$node/stats_total/$field")"; done"""
)


class BcacheDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        if inputs == 2:
            return []
        here = "is one" if inputs == 1 else f"are {inputs}"
        wrong = f"bcache joins two devices, the last one the cache of the other, and here {here}; "
        return [wrong + "write it as hdd + ssd | bcache, with RAID below it where there are more disks."]

    def holds_copies(self, spec: Call) -> bool:
        return spec["mode"] != "writeback"

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools) + module_reasons("bcache", facts, ("bcache",))
        block, bucket = int(spec["block"] or SECTOR_BYTES), int(spec["bucket"] or 512 << 10)
        for name, size in (("block", block), ("bucket", bucket)):
            if size & (size - 1):
                reasons.append(f"bcache takes powers of two, and {format_size(size)} is none; round {name}=.")
        if block > 4096:
            reasons.append(f"bcache knows blocks up to a page, and {format_size(block)} is more; make block= smaller.")
        if not 4096 <= bucket <= 16 << 20:
            reasons.append(f"bcache has buckets of 4K to 16M, and {format_size(bucket)} is not; change bucket=.")
        percent = float(spec["writeback_percent"] or 0) * 100
        if abs(percent - round(percent)) > 1e-6:
            reasons.append("bcache counts in whole percent; round writeback_percent=.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        size = below[0].size_bytes
        return Provides(
            Kind.BLOCK,
            _link(place),
            None if size is None else max(size - _HEADER_BYTES, 0),
            ours=all(each.ours for each in below),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        backing, cache, record = below[0].path, below[-1].path, _record(place)
        options = [
            word
            for name, option in (("block", "--block"), ("bucket", "--bucket"))
            if spec[name] is not None
            for word in (option, str(spec[name]))
        ]
        tune = sh(_TUNE, backing, *(word for name, value, _ in _tunables(spec) for word in (name, value)))
        return [
            Step(
                run("make-bcache", "--cset-uuid", place.uuid, *options, "--bdev", backing, "--cache", cache),
                sh(_REMOVE, place.uuid, record, backing, cache),
                "make the backing device and its cache",
            ),
            Step(
                sh(_ATTACH, backing, cache, place.uuid, _link(place)),
                sh('rm -f -- "$1"', _link(place)),
                "register both and find the cached device",
                again=sh('rm -f -- "$4"\n' + _ATTACH, backing, cache, place.uuid, _link(place)),
            ),
            Step(
                tune,
                sh(_FLUSH, backing, place.uuid, record, timeout_s=_FLUSH_S),
                "set how it caches (removed: write dirty data back and detach the cache)",
                again=tune,
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, _link(place), below[0].path, below[-1].path)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        if output(seen, 0) is None:
            return [f"bcache: the cached device cannot be read: {said(seen, 0)}."]
        state = fields(seen, 0)
        backing, cache = first(state, "backing"), first(state, "cache")
        if first(state, "set") is None:
            return [f"bcache: the cache {cache} is not attached to {backing} any more; look at dmesg for the reason."]
        wrong = []
        if first(state, "device") != first(state, "made"):
            wrong.append(f"bcache: {first(state, 'device')} is not the device that caches {backing}.")
        for name, device in (("set", backing), ("cache_set", cache)):
            if first(state, name) != place.uuid.lower():
                wrong.append(f"bcache: {device} belongs to the cache set {first(state, name)}, which is not ours.")
        if first(state, "state") not in {"clean", "dirty"}:
            wrong.append(f"bcache: the state of {backing} is {first(state, 'state')}; look at dmesg for the reason.")
        for name, _, shown in _tunables(spec):
            now = first(state, name.rsplit("/", 1)[-1]) or "unknown"
            if now != shown and f"[{shown}]" not in now.split():
                wrong.append(f"bcache: {name.lstrip('/')} over {backing} is {now} instead of {shown}.")
        for name, field in (("block", "block_size"), ("bucket", "bucket_size")):
            asked = None if spec[name] is None else _as_shown(int(spec[name] or 0))
            if asked is not None and first(state, field) != asked:
                wrong.append(f"bcache: {name}s on {cache} have {first(state, field)} instead of {asked}.")
        return wrong

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_FIGURES, below[0].path, str(_COUNTED_AFTER_S))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = fields(seen, 0)
        named = {
            "bcache.hits": _number(first(state, "cache_hits")),
            "bcache.misses": _number(first(state, "cache_misses")),
            "bcache.bypassed_bytes": _number(first(state, "bypassed")),
            "bcache.dirty_bytes": _number(first(state, "dirty")),
        }
        return {name: value for name, value in named.items() if value is not None}


def _link(place: Place) -> str:
    return f"{place.dir}/device"


def _record(place: Place) -> str:
    return f"{place.dir}/backing-uuid"


def _tunables(spec: Call) -> list[tuple[str, str, str]]:
    """(name in sysfs, what is written, how the kernel shows it)."""
    chosen = [("cache_mode", str(spec["mode"]), str(spec["mode"]))]
    if spec["sequential_cutoff"] is not None:
        cutoff = int(spec["sequential_cutoff"])
        chosen.append(("sequential_cutoff", str(cutoff), _as_shown(cutoff)))
    if spec["writeback_percent"] is not None:
        percent = str(round(float(spec["writeback_percent"]) * 100))
        chosen.append(("writeback_percent", percent, percent))
    if not spec["congested"]:
        chosen += [(f"/congested_{way}_threshold_us", "0", "0") for way in ("read", "write")]
    return chosen


_UNITS = "kMGTPEZY"


def _as_shown(size_bytes: int) -> str:
    """As the kernel prints sizes (bch_hprint): at least in KiB, fewer than 1000 of the unit, one digit cut off."""
    whole, rest, unit = size_bytes, 0, -1
    while unit < 0 or whole >= 1000:
        whole, rest, unit = whole >> 10, whole & 1023, unit + 1
    return f"{whole}.{rest * 10 // 1024}{_UNITS[unit]}"


def _number(shown: str | None) -> float | None:
    """A count, or a size as `_as_shown` writes it; None for anything else."""
    if not shown:
        return None
    digits, scale = (shown[:-1], 1024.0 ** (1 + _UNITS.index(shown[-1]))) if shown[-1] in _UNITS else (shown, 1.0)
    whole, _, tenth = digits.partition(".")
    if not (whole.isdecimal() and (tenth.isdecimal() or not tenth)) or len(digits) > 25:
        return None
    return float(digits) * scale


DRIVER = BcacheDriver()
