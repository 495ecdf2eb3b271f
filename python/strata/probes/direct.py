"""O_DIRECT: what is read bypassing the page cache is not in it after that, or comes from the disks every time."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._devices import DEVICES
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 16
_SHARE = 0.9  # of the file, that has to come from the disks again where nobody can say what is in the page cache

_SCRIPT = (
    SHELL
    + DEVICES
    + """\
dir=$1
# Nothing else has these bytes: what is stored once for two files is read once, too.
if ! dd if=/dev/urandom of="$dir/file" bs=1M count=DATA iflag=fullblock oflag=direct status=none 2>"$dir/said"; then
  say taken no; say said "$(line <"$dir/said")"; exit 0
fi
used "$dir" >/dev/null
echo 3 >/proc/sys/vm/drop_caches
# Bytes that the disks below have read.
from_disks() {
  total=0
  for each in $(leaves "$dir"); do total=$((total + $(awk '{ print $3 }' "/sys/class/block/$each/stat"))); done
  echo "$((total * 512))"
}
if ! command -v fincore >/dev/null 2>&1; then
  for again in 1 2; do
    start=$(from_disks)
    if ! dd if="$dir/file" of=/dev/null bs=1M iflag=direct status=none 2>"$dir/said"; then
      say taken no; say said "$(line <"$dir/said")"; exit 0
    fi
    say "disk_$again" "$(($(from_disks) - start))"
  done
  exit 0
fi
say before "$(fincore --bytes --noheadings --output RES "$dir/file" | tr -d ' ')"
if ! dd if="$dir/file" of=/dev/null bs=1M iflag=direct status=none 2>"$dir/said"; then
  say taken no; say said "$(line <"$dir/said")"; exit 0
fi
say taken yes
say cached "$(fincore --bytes --noheadings --output RES "$dir/file" | tr -d ' ')"
cat "$dir/file" >/dev/null
say cached_plain "$(fincore --bytes --noheadings --output RES "$dir/file" | tr -d ' ')\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("taken") == "no":
        return Finding(False, f"opening a file for it is refused: {found.get('said') or 'no message'}")
    first, second = number(found, "disk_1"), number(found, "disk_2")
    if first is not None and second is not None:
        why = f"{_DATA_MIB} MiB were read with it twice: disks read {first / MIB:.1f} MiB, then {second / MIB:.1f} MiB"
        if first < _SHARE * _DATA_MIB * MIB:
            return Finding(None, f"{why}, so the count says nothing")
        return Finding(second >= _SHARE * _DATA_MIB * MIB, why)
    before, cached, plain = (number(found, name) for name in ("before", "cached", "cached_plain"))
    if before is None or cached is None or plain is None:
        return Finding(None, "the probe does not say what is in the page cache")
    if plain == 0:
        return Finding(None, "nothing of this file system is ever in the page cache, so it shows nothing")
    why = f"of {_DATA_MIB} MiB {cached / MIB:.1f} MiB were in the page cache after it, else {plain / MIB:.1f} MiB"
    return Finding(cached <= before, why)


PROBE = Probe(
    name="direct",
    about="Writes and reads a file with O_DIRECT, and looks for it in the page cache.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    data_bytes=2 * _DATA_MIB * MIB,
    tools={"lsblk": "util-linux", "dd": "coreutils", **TOOLS},
    own_files_only=True,
)
