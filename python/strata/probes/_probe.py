"""What a probe is, and the words of its script."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from strata.model import Kind, Metric
from strata.units import human_size

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """What trying it showed. `holds` None: it could not be tried, and nothing is known."""

    holds: bool | None
    why: str  # a sentence, with the figures that show it
    figures: Mapping[str, float] = field(default_factory=dict)  # by the names of the probe's metrics


@dataclass(frozen=True, slots=True)
class Probe:
    name: str  # of the feature, as documents call it
    about: str
    accepts: frozenset[Kind]
    # $1: a fresh directory, or a device whose content may be overwritten; $2: holds its notes (_undo.py)
    script: str
    judge: Callable[[Mapping[str, str]], Finding]  # of the lines that it printed
    metrics: tuple[Metric, ...] = ()
    data_bytes: int = 256 * MIB  # room that it needs
    tools: Mapping[str, str] = field(default_factory=dict)
    # It changes nothing but files in the directory $1 and in its notes: no device, pool, volume or quota. Only then it
    # may be tried in a directory of the user's.
    own_files_only: bool = False


def words(text: str) -> dict[str, str]:
    """The NAME=VALUE lines of an answer."""
    return dict(re.findall(r"^([a-z][a-z0-9_]*)=(.*)$", text, re.MULTILINE))


def number(found: Mapping[str, str], name: str) -> float | None:
    value = found.get(name, "")
    return float(value) if re.fullmatch(r"-?\d{1,19}(\.\d{1,9})?", value) else None


def full(said: str) -> bool:
    """Whether a program was refused because there is no room: by a quota (EDQUOT) or by what is full (ENOSPC)."""
    return "Disk quota exceeded" in said or "No space left on device" in said


def unreadable(said: str) -> bool:
    """Whether it was the data that a program could not read (EIO)."""
    return "Input/output error" in said


MEMORY = Metric("saver_memory_bytes", "bytes", "lower", "memory that it says it holds to save room")
"""Of probes that call `saver_memory`."""


def memory(found: Mapping[str, str]) -> tuple[dict[str, float], str]:
    """The figure, and the end of a sentence; both empty where nobody counts it."""
    held = number(found, "memory")
    if not held:
        return {}, ""
    return {MEMORY.name: held}, f", and it holds {human_size(round(held))} of memory"


NOTES = "probe"
"""The directory of its own in which a probe keeps notes: where it is, there may be something to undo."""

SHELL = (
    f"notes=$2/{NOTES}"
    """
[ -d "$notes" ] || exit 1
say() { echo "$1=$2"; }
# What a program said, on one line.
line() { tr '\\n' ' ' | sed 's/ *$//'; }
now() { date +%s%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.6f", (b - a) / 1e9 }'; }
LVM='devices { use_devicesfile=0 scan_lvs=1 hints="none" } backup { backup=0 archive=0 } activation { monitoring=0 }'
fs= source=
if [ -d "$1" ]; then
  fs=$(findmnt --noheadings --output FSTYPE --target "$1")
  source=$(findmnt --noheadings --nofsroot --output SOURCE --target "$1")
elif [ -b "$1" ]; then
  source=$(readlink -f -- "$1")
fi
# The volume of LVM that all this lies on, as GROUP VOLUME TYPE POOL; nothing when it is none.
volume() {
  [ -b "$source" ] && command -v lvs >/dev/null 2>&1 || return 0
  # LVM knows its volumes by the names of device mapper, and not as /dev/dm-3
  mapped=$(cat "/sys/class/block/$(basename -- "$(readlink -f -- "$source")")/dm/name" 2>/dev/null) || return 0
  lvs --config "$LVM" --noheadings --options vg_name,lv_name,segtype,pool_lv "/dev/mapper/$mapped" 2>/dev/null || true
}
# What is read next comes from the devices. ZFS has a memory of its own: what is read on it is made without that.
cold() { sync --file-system -- "$1"; echo 3 >/proc/sys/vm/drop_caches; }
# NAME=yes where the rest, a command, succeeds, else NAME=no.
shown() { shown=$1; shift; if "$@"; then say "$shown" yes; else say "$shown" no; fi; }
# Bytes in use of the file system.
used() {
  sync --file-system -- "$1"
  if [ "$fs" = zfs ]; then
    zpool sync "${source%%/*}"; zpool list -H -p -o allocated "${source%%/*}"
  else
    df --block-size=1 --output=used -- "$1" | tail -n 1 | tr -d ' '
  fi
}
# Bytes that VDO has given out, where it lies below: $1 to $4 are what `volume` said.
vdo_used() { dmsetup status "$(echo "$1" | sed 's/-/--/g')-$4-vpool" | awk '{ print $9 * 4096 }'; }
# Bytes in use at the lowest place that is known to save any: $1 a directory, then what `volume` said.
stored() {
  # what was deleted on ZFS comes free two groups of writes later
  if [ "$fs" = zfs ]; then zpool sync "${source%%/*}"; zpool sync "${source%%/*}"; fi
  if [ "${4:-}" = vdo ]; then used "$1" >/dev/null; shift; vdo_used "$@"; else used "$1"; fi
}
# Bytes of memory that what saves room says it holds, VDO or the table of ZFS; $1 to $4 as above. Nothing of the others.
saver_memory() {
  if [ "${4:-}" ] && [ "${3:-}" = vdo ]; then
    dmsetup message "$(echo "$1" | sed 's/-/--/g')-$4-vpool" 0 stats |
      tr ',' '\\n' | sed -n 's/.*memoryUsage : { bytesUsed : \\([0-9]*\\).*/\\1/p'
  elif [ "$fs" = zfs ]; then
    zpool status -D "${source%%/*}" | sed -n 's/.* \\([0-9.]*\\)\\([BKMG]\\) in core.*/\\1 \\2/p' |
      awk '{ m["B"] = 1; m["K"] = 1024; m["M"] = 1048576; m["G"] = 1073741824; printf "%.0f\\n", $1 * m[$2] }'
  fi
}
# A write for each MiB: who is near a quota of ZFS waits for the disk with every one.
fill() { dd if=/dev/urandom of="$1" bs=1M count="$2" iflag=fullblock status=none; }
# Before files are counted by `stored`: $1 their size in MiB, $2 the type of volume, then their names. Blocks that were
# deleted and never discarded are in use for VDO until they are written again, and would count as saved then. So where
# files are written in place on it, they are there beforehand, with bytes of their own: what replaces them is counted
# whole, when `laid`, the bytes of one, is added.
laid=0
lay() {
  size=$1; kind=$2; shift 2
  case $kind:$fs in vdo:ext4 | vdo:xfs) ;; *) return 0 ;; esac
  for each; do fill "$each" "$size"; done
  laid=$((size * 1048576))
}
"""
)
"""What the scripts share. Sets `fs` and `source` from $1, and `notes`; what is made is removed by `UNDO` (_undo.py)."""

TOOLS = {
    "findmnt": "util-linux",
    **dict.fromkeys(("df", "dd", "head", "sync", "date", "readlink", "stat"), "coreutils"),
    "awk": "mawk",
}
