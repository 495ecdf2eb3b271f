"""Copy on write: what is changed goes to a new place, and the old bytes stay where they were."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._devices import DEVICES
from strata.probes._devices import TOOLS as OF_DEVICES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 4

_SCRIPT = (
    SHELL
    + DEVICES
    + """\
dir=$1
fill "$dir/file" DATA
dd if="$dir/file" of="$notes/old" bs=4096 count=1 status=none
used "$dir" >/dev/null
places "$dir/file" "$dir" | head -n 1 >"$notes/places" || exit 1
say hits "$(wc -l <"$notes/places")"
dd if=/dev/urandom of="$dir/file" bs=4096 count=1 conv=notrunc,fsync status=none
used "$dir" >/dev/null
forget $(devices "$dir")
if cmp -s -n 4096 -- "$notes/old" "$dir/file"; then say changed no; fi
while read -r device offset; do
  if same "$device" "$offset" "$notes/old"; then say old there; else say old gone; fi
done <"$notes/places"
rm -f "$dir/file\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if not number(found, "hits"):
        return Finding(None, "the bytes of the file are not on the devices below as they were written")
    if found.get("changed") == "no":
        return Finding(None, "4 KiB of a file were changed, it was said, but it reads as before")
    match found.get("old"):
        case "there":
            return Finding(True, "4 KiB of a file were changed, and the old ones are still where they were")
        case "gone":
            return Finding(False, "4 KiB of a file were changed, and were written over the old ones")
        case _:
            return Finding(None, "the probe does not say what is where the old bytes were")


PROBE = Probe(
    name="cow",
    about="Finds where the bytes of a file lie on the device, changes them, and looks for the old ones there.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=2 * _DATA_MIB * MIB,
    tools={**OF_DEVICES, **TOOLS},
)
