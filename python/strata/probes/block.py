"""Block based: what another tenant gets of the same stack is a block device of its own."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import SHELL, TOOLS, Finding, Probe

_SCRIPT = (
    SHELL
    + """\
target=$1
set -- $(volume)
lvm() { word=$1; shift; "$word" -qq --config "$LVM" "$@"; }
method=none
case ${3:-} in
  thin) method=thin how="--type thin --thinpool $4 --virtualsize 32m" ;;
  linear | striped) method=lvm how="--size 32m" ;;
esac
make() { lvm lvcreate --yes --wipesignatures n $how --name strata-probe "$1"; }
device=/dev/${1:-}/strata-probe
case $fs:$target in
  zfs:* | *:/dev/zvol/*)
    method=zfs pool=${source%%/*} how=
    case $target in /dev/zvol/*) pool=${target#/dev/zvol/}; pool=${pool%%/*} ;; esac
    device=/dev/zvol/$pool/strata-probe
    make() { zfs create -s -V 32M "$pool/strata-probe" && udevadm settle; } ;;
esac
if [ -b "$target" ]; then say own yes; fi
say method "$method"
[ "$method" != none ] || exit 0
if make "$@" 2>"$notes/said"; then
  fill "$notes/data" 1
  written() {
    [ -b "$device" ] && dd if="$notes/data" of="$device" bs=4096 count=1 oflag=direct status=none &&
      blockdev --flushbufs "$device" && cmp -s -n 4096 -- "$notes/data" "$device"
  }
  shown device written
else
  say said "$(line <"$notes/said")"
fi"""
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("device") == "yes":
        return Finding(True, f"by {found.get('method')} a second volume was made, a block device that could be written")
    if found.get("device") == "no":
        return Finding(
            False, f"by {found.get('method')} a second volume was made, and does not hold what is written to it"
        )
    if found.get("own") == "yes":
        return Finding(True, "it is a block device itself; nothing here makes a second one")
    if found.get("method") == "none":
        return Finding(False, "it gives out directories: neither LVM nor ZFS is below to make a device")
    if found.get("said"):
        return Finding(None, f"no volume to try it on can be made: {found['said']}")
    return Finding(None, "the probe does not say what it made")


PROBE = Probe(
    name="block",
    about="Makes a volume for another tenant, and writes to it as a block device.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    tools={"dd": "coreutils", "blockdev": "util-linux", "cmp": "diffutils", **TOOLS},
)
