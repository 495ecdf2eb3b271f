"""Checksums: bytes are changed on the devices below, and the file that they were of is read."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._devices import DEVICES
from strata.probes._devices import TOOLS as OF_DEVICES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number, unreadable

_DATA_MIB = 4

_SCRIPT = (
    SHELL
    + DEVICES
    + """\
dir=$1
bare "$dir" || exit 1
file=$dir/bare/file
fill "$file" DATA
sum=$(sha256sum <"$file")
used "$dir" >/dev/null
places "$file" "$dir" >"$notes/places" || exit 1
say hits "$(wc -l <"$notes/places")"
dd if="$file" of="$notes/old" bs=4096 count=1 status=none
while read -r device offset; do
  spoil "$device" "$offset" || exit 1
  forget "$device"
  if same "$device" "$offset" "$notes/old"; then say unspoiled "$device"; fi
done <"$notes/places"
# what was right may come from memory at first
for again in 1 2 3; do
  forget $(devices "$dir")
  now_sum=$(sha256sum <"$file" 2>"$dir/said") || { read=refused; break; }
  if [ "$now_sum" = "$sum" ]; then read=same; else read=changed; break; fi
done
say read "$read"
[ "$read" != refused ] || say said "$(line <"$dir/said")"
rm -f -- "$file"; unbare "$dir"
forget_errors "$dir\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    hits = number(found, "hits")
    if not hits:
        return Finding(None, "the bytes of the file are not on the devices below as they were written")
    if "unspoiled" in found:
        return Finding(None, f"{found['unspoiled']} kept the bytes that were to be changed")
    places = "one place" if hits == 1 else f"{hits:.0f} places"
    what = f"4 KiB of a file were changed in {places} below, and reading it "
    match found.get("read"):
        case "changed":
            return Finding(False, what + "gave what was changed")
        case "refused" if unreadable(found.get("said", "")):
            return Finding(True, what + f"was refused: {found['said']}")
        case "refused":
            return Finding(None, what + f"failed for another reason: {found.get('said') or 'no message'}")
        case "same":
            return Finding(None, what + "gave the right data: another copy of them is elsewhere")
        case _:
            return Finding(None, what + "said nothing")


PROBE = Probe(
    name="checksums",
    about="Changes bytes of a file on the devices below, on every copy that is found, and reads the file.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=2 * _DATA_MIB * MIB,
    tools={"sha256sum": "coreutils", **OF_DEVICES, **TOOLS},
)
