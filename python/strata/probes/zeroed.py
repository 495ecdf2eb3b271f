"""A new volume reads zeros: nothing of the tenant who had the room before."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_SIZE_MIB = 64
_MOST_MIB = 6144  # of room of a pool, that is filled to see
_OVERLAP_MIB = 256  # of a new volume in a ZFS pool, that is in the room of the old one for certain

# Of a plain volume the next one has the same room. A thin pool gives out room that nobody had before as long as it has
# any: so the old tenant fills nearly all of it, and the new one writes a page in each chunk of half of it and reads the
# page beside. This does not show what a ZFS pool returns.
_SCRIPT = (
    (
        SHELL
        + """\
PAGES=$(cat <<'PERL'
my ($device, $step, $count) = @ARGV;
open(my $d, "+<:raw", $device) or die "$device: $!";
for my $n (0 .. $count - 1) { sysseek($d, $n * $step, 0); syswrite($d, "\\0" x 4096) == 4096 or die "$device: $!"; }
close $d or die "$device: $!";
system("sync"); system("blockdev", "--flushbufs", $device);
open($d, "<:raw", $device) or die; my $old = 0;
for my $n (0 .. $count - 1) {
  sysseek($d, $n * $step + 4096, 0); sysread($d, my $page, 4096);
  $old += ($page =~ tr/\\0//c);
}
print "old=$old\\n";
PERL
)
target=$1
set -- $(volume)
size=SIZE
remove() { lvremove -qq --force --config "$LVM" "$1/strata-probe"; }
case $target in
  /dev/zvol/*)
    pool=${target#/dev/zvol/}; pool=${pool%%/*}
    device=/dev/zvol/$pool/strata-probe
    size=$(zfs get -Hp -o value available "$pool" | awk '{ printf "%d", $1 * 0.9 / 1048576 }')
    say filled "$size"
    [ "$size" -le MOST ] || exit 0
    again=$(($(zpool list -Hp -o free "$pool") / 1048576 - size + OVERLAP))
    [ "$again" -le "$size" ] || again=0
    set -- "$1" "" zvol "" "" "" 131072
    make() {
      zfs create -s -V "${size}M" -o compression=off -o dedup=off -o volblocksize=128K "$pool/strata-probe" &&
        udevadm settle
    }
    remove() {
      udevadm settle; zfs destroy "$pool/strata-probe"
      # what was destroyed comes free some groups of writes later
      zpool wait -t free "$pool"; zpool sync "$pool"; zpool sync "$pool"
    } ;;
  *)
    case ${3:-} in
      thin)
        room="lv_size,data_percent,chunk_size"
        set -- "$@" $(lvs --config "$LVM" --noheadings --nosuffix --units b --options "$room" "$1/$4")
        size=$(awk -v s="$5" -v u="$6" 'BEGIN { printf "%d", s * (100 - u) / 100 * 0.96 / 1048576 }')
        say filled "$size"
        [ "$size" -le MOST ] || exit 0
        how="--type thin --virtualsize ${size}m --thinpool $4" ;;
      linear | striped) how="--size ${size}m" ;;
      *) say method none; exit 0 ;;
    esac
    make() {
      lvcreate -qq --yes --wipesignatures n --config "$LVM" $how --name strata-probe "$1" &&
        device=/dev/$1/strata-probe
    } ;;
esac
if ! make "$1" 2>"$notes/said"; then
  say method none; say said "$(line <"$notes/said")"; exit 0
fi
tr '\\0' 'S' </dev/zero | dd of="$device" bs=1M count="$size" iflag=fullblock oflag=direct status=none || exit 1
sync
remove "$1" && make "$1" || exit 1
case ${3:-} in
  thin | zvol)
    pages=$((${again:-$((size / 2))} * 1048576 / $7)); say pages "$pages"
    perl -e "$PAGES" "$device" "$7" "$pages" || exit 1 ;;
  *) perl -e "$PAGES" "$device" 1048576 "$size" >/dev/null || exit 1
    say old "$(dd if="$device" bs=1M iflag=direct status=none | tr -d '\\0' | wc -c)" ;;
esac"""
    )
    .replace("SIZE", str(_SIZE_MIB))
    .replace("MOST", str(_MOST_MIB))
    .replace("OVERLAP", str(_OVERLAP_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(
            None, f"no second volume can be made here: {found.get('said') or 'it is no volume of LVM or ZFS'}"
        )
    old, filled, pages = (number(found, name) for name in ("old", "filled", "pages"))
    if filled is not None and filled > _MOST_MIB:
        return Finding(None, f"the pool has {filled:.0f} MiB free, more than is filled here to see ({_MOST_MIB} MiB)")
    if old is None:
        return Finding(None, "the probe does not say what it read")
    if filled is not None:
        if not pages:
            return Finding(None, f"{filled:.0f} MiB are free in the pool, too few to see")
        why = (
            f"another had filled {filled:.0f} MiB of the pool; beside what was written to {pages:.0f} chunks of a new "
            f"volume, {old / MIB:.2f} of {pages * 4096 / MIB:.2f} MiB of his could be read"
        )
        return Finding(old == 0, why)
    why = f"of {_SIZE_MIB} MiB that another had before, {old / MIB:.2f} MiB could be read in a new volume"
    return Finding(old == 0, why)


PROBE = Probe(
    name="zeroed",
    about="Fills a volume, removes it, makes another in its room, and looks for what was in the first.",
    accepts=frozenset({Kind.BLOCK}),
    script=_SCRIPT,
    judge=judge,
    tools={**dict.fromkeys(("dd", "tr", "wc", "sync"), "coreutils"), "perl": "perl-base", **TOOLS},
)
