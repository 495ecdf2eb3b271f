"""Optimized transfer: a copy for another machine goes as what changed, in bytes and time against a plain copy."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB, _CHANGED_MIB = 64, 4
_SHARE = 0.25  # of the data, that what changed in a sixteenth of it may be as sent

_SCRIPT = (
    (
        SHELL
        + """\
dir=$1
case $fs in
  btrfs)
    btrfs subvolume create "$dir/live" >/dev/null && mkdir -- "$dir/there" || exit 1
    live=$dir/live
    take() { btrfs subvolume snapshot -r "$live" "$dir/$1" >/dev/null; }
    all() { btrfs send --quiet "$dir/one"; }
    changed() { btrfs send --quiet -p "$dir/one" "$dir/two"; }
    receive() { btrfs receive --quiet "$dir/there"; }
    copy=$dir/there/two/file ;;
  zfs)
    zfs create -o primarycache=none -o mountpoint="$dir/live" "$source/probe" || exit 1
    live=$dir/live
    take() { zfs snapshot "$source/probe@$1"; }
    all() { zfs send "$source/probe@one"; }
    changed() { zfs send -i @one "$source/probe@two"; }
    receive() { zfs receive -F -o primarycache=none -o mountpoint="$dir/there" "$source/copy"; }
    copy=$dir/there/file ;;
  *) say method none; exit 0 ;;
esac
say method "$fs"
fill "$live/file" DATA
take one || exit 1
dd if=/dev/urandom of="$live/file" bs=1M count=CHANGED conv=notrunc status=none
take two || exit 1
sum=$(sha256sum <"$live/file")
start=$(now)
cp --reflink=never -- "$live/file" "$dir/plain" && sync --file-system -- "$dir"
say plain_seconds "$(since "$start")"
say all_bytes "$(all | wc --bytes)"
all | receive || exit 1
say changed_bytes "$(changed | wc --bytes)"
start=$(now)
changed | receive && sync --file-system -- "$dir" || exit 1
say changed_seconds "$(since "$start")"
cold "$dir"
shown same [ "$(sha256sum <"$copy")" = "$sum" ]"""
    )
    .replace("DATA", str(_DATA_MIB))
    .replace("CHANGED", str(_CHANGED_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(False, "neither the file system nor LVM has a command that sends what changed")
    names = ("all_bytes", "changed_bytes", "changed_seconds", "plain_seconds")
    whole, changed, took, plain = (number(found, name) for name in names)
    if whole is None or changed is None or took is None or plain is None or found.get("same") not in ("yes", "no"):
        return Finding(None, "the probe does not say what was sent")
    why = (
        f"of {_DATA_MIB} MiB all went as {whole / MIB:.1f} MiB; {_CHANGED_MIB} MiB that changed went as "
        f"{changed / MIB:.1f} MiB in {took:.2f} s, and a plain copy of all takes {plain:.2f} s"
    )
    if found["same"] == "no":
        return Finding(False, f"{why}, but what arrived is not what was sent")
    return Finding(changed < _SHARE * _DATA_MIB * MIB, why, {"sent_bytes": changed, "sent_s": took, "copied_s": plain})


PROBE = Probe(
    name="send",
    about="Sends a snapshot of 64 MiB, changes 4 MiB, sends what changed, and compares what arrived.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("sent_bytes", "bytes", "lower", "what went where 4 MiB of 64 MiB had changed"),
        Metric("sent_s", "s", "lower", "time to send and receive these"),
        Metric("copied_s", "s", "lower", "time of a plain copy of all"),
    ),
    data_bytes=5 * _DATA_MIB * MIB,
    tools={"sha256sum": "coreutils", "wc": "coreutils", **TOOLS},
)
