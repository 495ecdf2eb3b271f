"""Online growth: it becomes larger while it is in use, and what was in it stays."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number
from strata.probes._resize import LARGE_MIB, ON, RESIZE, denied, lost
from strata.probes._resize import TOOLS as OF_RESIZING

_SCRIPT = (
    SHELL
    + RESIZE
    + """\
resize() {
  case $method in
    thin | lvm) lvm lvextend --size "${large}m" "$group/strata-probe" ;;
    zvol) zfs set volsize="${large}M" "$name" ;;
    zfs) truncate --size "${large}M" "$box/disk" && zpool online -e strata-probe "$box/disk" ;;
    *)
      truncate --size "${large}M" "$target/disk" && losetup --set-capacity "$loop" || return 1
      case $method in
        ext4) resize2fs "$loop" >/dev/null ;;
        xfs) xfs_growfs "$box" >/dev/null ;;
        btrfs) btrfs filesystem resize max "$box" >/dev/null ;;
      esac ;;
  esac
}
make "$small" && fill_it || exit 1
try"""
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(None, "no second one of its kind can be made here to be made larger")
    before, after, took = (number(found, name) for name in ("before", "after", "seconds"))
    what = ON.get(found.get("method", ""), f"{found.get('method')} on a file of the stack")
    if (bad := lost(found, "same")) is not None:
        return Finding(False, f"{what} in use was to become larger, and {bad}")
    if before is None or after is None or found.get("same") != "yes":
        return Finding(None, "the probe does not say how large it was")
    if took is None and denied(found):
        return Finding(None, f"this machine denies it to root: {found['said']}")
    if took is None:
        return Finding(False, f"{what} in use: {found.get('said') or 'refused without a message'}")
    why = f"{what} in use became {after / MIB:.0f} MiB from {before / MIB:.0f} MiB in {took:.2f} s"
    return Finding(after > before, f"{why}, and has its data")


PROBE = Probe(
    name="grow",
    about="Makes a file system or a volume of the same kind larger while it is in use.",
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=LARGE_MIB * MIB,
    tools={**OF_RESIZING, **TOOLS},
)
