"""Shrinking: it becomes smaller, in use where that is possible, and what was in it stays."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number
from strata.probes._resize import LARGE_MIB, ON, RESIZE, denied, lost
from strata.probes._resize import TOOLS as OF_RESIZING

# What is refused in use is tried once more at rest. A pool of ZFS becomes smaller by the disk that is taken out of it.
_SCRIPT = (
    SHELL
    + RESIZE
    + """\
resize() {
  case $method in
    thin | lvm) lvm lvreduce --force --yes --size "${small}m" "$group/strata-probe" ;;
    zvol) zfs set volsize="${small}M" "$name" ;;
    zfs)
      zpool remove strata-probe "$box/more" && zpool wait -t remove strata-probe || return 1
      zpool list -v -H -P strata-probe | grep -qF "$box/more" || rm -f -- "$box/more" ;;
    ext4) resize2fs "$loop" "${small}M" ;;
    # xfs_growfs ends well where it is refused
    xfs) xfs_growfs -D "$((small * 256))" "$box" && [ "$(bytes)" -lt "$large_bytes" ] ;;
    btrfs) btrfs filesystem resize "${small}M" "$box" >/dev/null ;;
  esac
}
make "$large" || exit 1
if [ "$method" = zfs ]; then
  truncate --size "${large}M" "$box/more" && zpool add strata-probe "$box/more" || exit 1
  pool=$(df --output=source "$target" | tail -n 1)
  # where the pool has parity, nothing can be taken out of it, so ours gets some too
  if zpool status "${pool%%/*}" | grep --quiet --word-regexp 'raidz[123]-[0-9]*'; then
    say parity yes
    truncate --size "${large}M" "$box/one" "$box/two" || exit 1
    zpool add -f strata-probe raidz1 "$box/one" "$box/two" || exit 1
  fi
fi
fill_it || exit 1
large_bytes=$(bytes) smaller=${small}M
try
if [ "$method" = ext4 ]; then
  umount "$box" && e2fsck -fp "$loop" >/dev/null
  if resize2fs "$loop" "${small}M" >/dev/null 2>&1; then say rest yes; cut=$smaller; fi
  opened rest_
fi"""
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(None, "no second one of its kind can be made here to be made smaller")
    before, after, took = (number(found, name) for name in ("before", "after", "seconds"))
    what = ON.get(found.get("method", ""), f"{found.get('method')} on a file of the stack")
    if found.get("method") == "zfs":
        parity = " and a group with parity, as the stack's pool has one" if found.get("parity") == "yes" else ""
        what = f"a pool of two files{parity}, one of which was to be taken out"
    if (bad := lost(found, "same")) is not None:
        return Finding(False, f"{what} in use was to become smaller, and {bad}")
    if before is None or after is None or found.get("same") != "yes":
        return Finding(None, "the probe does not say how large it was")
    became = f"from {before / MIB:.0f} MiB"
    if took is not None and after < before:
        return Finding(True, f"{what} in use became {after / MIB:.0f} MiB {became} in {took:.2f} s, and has its data")
    if (bad := lost(found, "rest_same")) is not None:
        return Finding(False, f"{what} was to become smaller while unmounted, and {bad}")
    at_rest = number(found, "rest_after")
    if found.get("rest") == "yes" and at_rest is not None and at_rest < before:
        if found.get("rest_same") != "yes":
            return Finding(None, "the probe does not say what became of the data")
        return Finding(
            True,
            f"{what} became {at_rest / MIB:.0f} MiB {became} while unmounted, and has its data; in use it is refused",
        )
    if denied(found):
        return Finding(None, f"this machine denies it to root: {found['said']}")
    return Finding(False, f"{what}: {found.get('said') or 'it stayed as large as it was'}")


PROBE = Probe(
    name="shrink",
    about="Makes a file system or a volume of the same kind smaller, in use or else at rest.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=LARGE_MIB * MIB,
    tools={**OF_RESIZING, **TOOLS},
)
