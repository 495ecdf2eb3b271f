"""O_DIRECT: what is read past the page cache is not in the page cache after it."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 16

_SCRIPT = (
    SHELL
    + """\
dir=$1
command -v fincore >/dev/null 2>&1 || { say taken unknown; exit 0; }
fill "$dir/plain" DATA
if ! dd if="$dir/plain" of="$dir/file" bs=1M oflag=direct status=none 2>"$dir/said"; then
  say taken no; say said "$(line <"$dir/said")"; exit 0
fi
sync --file-system -- "$dir"
echo 3 >/proc/sys/vm/drop_caches
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
    if found.get("taken") == "unknown":
        return Finding(None, "the program fincore is not installed, which shows what is in the page cache")
    if found.get("taken") == "no":
        return Finding(False, f"opening a file for it is refused: {found.get('said') or 'without a word'}")
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
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"fincore": "util-linux-extra (Debian 12: util-linux)", "dd": "coreutils", **TOOLS},
)
