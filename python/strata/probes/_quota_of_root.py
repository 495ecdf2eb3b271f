"""A quota against root of a container, who makes subvolumes of his own and changes the project of what is his: what the
probes of it share, which differ in what makes him root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.probes._probe import MIB, SHELL, TOOLS, Finding, number
from strata.probes._quota import LIMIT_MIB, LIMITED, OVER, TRIED_MIB, refusal

_WAYS = {"nested": "through a subvolume of his own", "project": "after he took the project off a directory"}

# In the tenant's part. The ways past a limit are opened before anything is written: once it is full, it is too late.
_INNER = """\
mkdir project || exit 1
chattr -P -p 0 project 2>/dev/null || rmdir project
btrfs subvolume create nested >/dev/null 2>&1
fill() {
  n=0 said=
  while [ "$n" -lt TRIED ]; do
    said=$(dd if=/dev/urandom of="$1/$n" bs=1M count=1 iflag=fullblock status=none 2>&1 && sync --file-system "$1" 2>&1)
    [ $? = 0 ] || break
    n=$((n + 1))
  done
  echo "$2=$((n * 1048576))"; echo "$2_refused=$(echo $said)"
}
fill . plain
for way in nested project; do if [ -d "$way" ]; then fill "$way" "$way"; fi; done"""

_SCRIPT = (
    SHELL
    + LIMITED
    + """\
dir=$1 inner='INNER'
limited >"$dir/limited"
if grep -q '^method=none' "$dir/limited"; then cat "$dir/limited"; exit 0; fi
chown OWNER:OWNER "$dir/tenant" || exit 1
(cd "$dir/tenant" && exec ROOT sh -c "$inner") 2>"$dir/refused" || say said "$(line <"$dir/refused")"
# beside the tenant's part there is room
shown outside fill "$dir/outside" 1 2>/dev/null"""
)

TRIED_BYTES = 2 * TRIED_MIB * MIB
"""What is written at most."""

TOOLS_OF_ROOT = {**TOOLS, **dict.fromkeys(("setpriv", "unshare"), "util-linux"), "chattr": "e2fsprogs"}


def script(owner: int, root: Sequence[str]) -> str:
    """`owner`: whose the tenant's part is. `root`: the command that makes its argument run as root of a container."""
    filled = _SCRIPT.replace("INNER", _INNER).replace("TRIED", str(TRIED_MIB))
    return filled.replace("OWNER", str(owner)).replace("ROOT", " ".join(root))


def judged(found: Mapping[str, str], who: str, figure: str) -> Finding:
    if found.get("method") == "none":
        return Finding(False, f"no limit can be set: {found.get('said') or 'no message'}")
    wrote = {way: number(found, way) for way in ("plain", *_WAYS)}
    if wrote["plain"] is None:
        return Finding(None, f"{who} could not try it: {found.get('said') or 'no message'}")
    total = sum(value or 0 for value in wrote.values())
    ways = "".join(
        f", {value / MIB:.0f} of it {_WAYS[way]}" for way, value in wrote.items() if value and way != "plain"
    )
    why = f"of {LIMIT_MIB} MiB that were allowed, {who} wrote {total / MIB:.0f} MiB{ways}"
    if total > OVER * LIMIT_MIB * MIB:
        return Finding(False, why, {figure: total})
    return refusal(found.get("plain_refused", ""), found.get("outside"), total, why, {figure: total})
