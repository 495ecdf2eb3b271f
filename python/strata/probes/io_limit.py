"""An I/O limit holds: writes that the kernel is to hold at a quarter of their speed take as long as they should."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._devices import DEVICES
from strata.probes._engine import ENGINE, TOOLS
from strata.probes._probe import MIB, SHELL, Finding, Probe, number
from strata.probes._probe import TOOLS as OF_SHELL

_DATA_MIB = 16
# Of the speed without a limit, and in bounds: a limit lets some through at its start, and 16 MiB are to last longer.
_PART, _LEAST, _MOST = 4, MIB // 4, 4 * MIB
_OVER = 1.5  # of the limit, that the rate may reach
_FASTER = 2.0  # of the limit, that it has to be without

# Of a directory or a device: a control group of our own around the process that writes.
_SCRIPT = (
    (
        SHELL
        + DEVICES
        + ENGINE
        + """\
one=$(findmnt --noheadings --list --types cgroup --options blkio --output TARGET | head -n 1)
if [ -n "$one" ]; then say version 1; else say version 2; fi
# Bytes a second, for what took $1 seconds without a limit.
limit() {
  awk -v s="$1" 'BEGIN {
    l = (s > 0) ? DATA * 1048576 / s / PART : MOST
    if (l > MOST) l = MOST
    if (l < LEAST) l = LEAST
    printf "%d", l
  }'
}
if [ ! -d "$1" ] && [ ! -b "$1" ]; then
  image DATA || exit 1
  timed() {
    start=$(now)
    "$client" exec "$1" /bin/sh -c 'cat /large >/written && sync' || return 1
    since "$start"
  }
  container free || exit 1
  free=$(timed free); say free "$free"
  limit=$(limit "$free"); say limit "$limit"
  if container held "limit:write-bps=$limit" 2>"$notes/said"; then
    say held "$(timed held)"
  else
    say said "$(line <"$notes/said")"
  fi
  "$client" reset >/dev/null
  exit 0
fi
two=$(findmnt --noheadings --list --types cgroup2 --output TARGET | head -n 1)
group=
if [ -z "$one" ] && [ -n "$two" ] && grep -qw io "$two/cgroup.controllers"; then
  if ! grep -qw io "$two/cgroup.subtree_control"; then
    echo "$two/cgroup.subtree_control" >"$notes/controlled"
    echo +io >"$two/cgroup.subtree_control" || exit 1
  fi
  group=$two/strata-probe-$$
elif [ -n "$one" ]; then group=$one/strata-probe-$$
else say method none; exit 0
fi
echo "$group" >"$notes/group"
mkdir "$group" || exit 1
# On a device as a guest's disk is written, bypassing the page cache.
file=$1
if [ -d "$1" ]; then file=$1/file list=$(devices "$1") way=; else list=$source way=oflag=direct; fi
case $file in /dev/zvol/*) list=$(pool_disks "$(pool_of "$file")") ;; esac
head --bytes DATAM /dev/urandom >"$notes/data"
within() { sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" "$@"; }
timed() {
  start=$(now)
  "$@" dd if="$notes/data" of="$file" bs=1M $way conv=fsync status=none || return 1
  since "$start"
}
free=$(timed env); say free "$free"
[ -b "$file" ] || rm -f -- "$file"
limit=$(limit "$free"); say limit "$limit"
for each in $list; do
  node=$(readlink -f "/sys/class/block/$(kernel_name "$each")")
  [ ! -e "$node/partition" ] || node=${node%/*}
  if [ -e "$group/io.max" ]; then echo "$(cat "$node/dev") wbps=$limit" >"$group/io.max"
  else echo "$(cat "$node/dev") $limit" >"$group/blkio.throttle.write_bps_device"
  fi || exit 1
done
say held "$(timed within)\""""
    )
    .replace("DATA", str(_DATA_MIB))
    .replace("PART", str(_PART))
    .replace("LEAST", str(_LEAST))
    .replace("MOST", str(_MOST))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(None, "this kernel limits no I/O by control groups here")
    free, limit, held = number(found, "free"), number(found, "limit"), number(found, "held")
    if found.get("said") and held is None:
        return Finding(False, f"no limit can be set: {found['said']}")
    if not free or not limit or not held:
        return Finding(None, "the probe does not say how long it wrote")
    without, with_it, allowed = _DATA_MIB / free, _DATA_MIB / held, limit / MIB
    by = f" by version {found['version']} of control groups" if "version" in found else ""
    why = f"{with_it:.1f} MiB/s where {allowed:.1f} MiB/s were allowed{by}, and {without:.1f} MiB/s without a limit"
    if without < _FASTER * allowed:
        return Finding(None, f"{why}: it is too slow for the limit to show")
    return Finding(with_it <= _OVER * allowed, why, {"limited_bandwidth": with_it, "allowed_bandwidth": allowed})


PROBE = Probe(
    name="io-limit",
    about="Writes 16 MiB to the disk, by itself and held at a quarter of that by the kernel's control groups.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK, Kind.ENGINE}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("limited_bandwidth", "MiB/s", "neither", "speed of writes that are held"),
        Metric("allowed_bandwidth", "MiB/s", "neither", "what they are held at: a quarter of their own speed"),
    ),
    data_bytes=4 * _DATA_MIB * MIB,
    tools={"blockdev": "util-linux", **TOOLS, **OF_SHELL},
)
