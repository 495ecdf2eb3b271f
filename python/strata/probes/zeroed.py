"""A new volume reads zeros: nothing of the tenant who had the room before."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_SIZE_MIB = 64

# The old tenant fills a volume; the new one writes a sector in every 64 KiB of his, so that a thin pool gives him the
# room, and reads what stands beside.
_SCRIPT = (
    SHELL
    + """\
target=$1
set -- $(volume)
size=SIZE
case $target in
  /dev/zvol/*)
    pool=${target#/dev/zvol/}; pool=${pool%%/*}
    device=/dev/zvol/$pool/strata-probe
    say elsewhere yes
    make() { zfs create -s -V "${size}M" "$pool/strata-probe" && udevadm settle; }
    remove() { udevadm settle; zfs destroy "$pool/strata-probe"; } ;;
  *)
    case ${3:-} in
      thin)
        say elsewhere yes  # a pool gives out room that nobody had before, as long as it has any
        how="--type thin --virtualsize ${size}m --thinpool $4" ;;
      linear | striped) how="--size ${size}m" ;;
      *) say method none; exit 0 ;;
    esac
    make() {
      lvcreate -qq --yes --wipesignatures n --config "$LVM" $how --name strata-probe "$1" &&
        device=/dev/$1/strata-probe
    }
    remove() { lvremove -qq --force --config "$LVM" "$1/strata-probe"; } ;;
esac
if ! make "$1" 2>/tmp/strata-probe-$$; then
  say method none; say said "$(line </tmp/strata-probe-$$)"; rm -f /tmp/strata-probe-$$; exit 0
fi
rm -f /tmp/strata-probe-$$
tr '\\0' 'S' </dev/zero | dd of="$device" bs=1M count="$size" iflag=fullblock oflag=direct status=none || exit 1
sync
remove "$1" && make "$1" || exit 1
number=0
while [ "$number" -lt "$((size * 16))" ]; do
  dd if=/dev/zero of="$device" bs=4096 count=1 seek="$((number * 16))" conv=notrunc oflag=direct status=none || exit 1
  number=$((number + 16))
done
say old "$(dd if="$device" bs=1M iflag=direct status=none | tr -d '\\0' | wc -c)"
remove "$1\""""
).replace("SIZE", str(_SIZE_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(
            None, f"no second volume can be made here: {found.get('said') or 'it is no volume of LVM or ZFS'}"
        )
    old = number(found, "old")
    if old is None:
        return Finding(None, "the probe does not say what it read")
    why = f"of {_SIZE_MIB} MiB that another had before, {old / MIB:.2f} MiB could be read in a new volume"
    if old == 0 and found.get("elsewhere"):
        return Finding(None, f"{why}; but the pool may have given it other room")
    return Finding(old == 0, why)


PROBE = Probe(
    name="zeroed",
    about="Fills a volume, removes it, makes another in its room, and looks for what was in the first.",
    accepts=frozenset({Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    tools={"dd": "coreutils", "tr": "coreutils", "wc": "coreutils", **TOOLS},
)
