"""Checksums: bytes are changed on the devices below, and the file that they were of is read."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_DATA_MIB = 4

# Writes zeros over 4 KiB of the file, wherever its bytes lie on a device; random bytes are stored as they are, also
# where data are compressed. $ARGV[0] holds the bytes to look for, the rest are devices.
_SPOIL = """\
open(my $f, "<:raw", shift) or die; read($f, my $want, 64) == 64 or die; close $f;
my $hits = 0;
for my $device (@ARGV) {
  open(my $d, "+<:raw", $device) or die "$device: $!";
  my ($at, $rest, $part) = (0, "", "");
  while (my $got = sysread($d, $part, 4 << 20)) {
    my $all = $rest . $part; my $from = 0;
    while (($from = index($all, $want, $from)) >= 0) {
      my $place = $at - length($rest) + $from;
      my $here = sysseek($d, 0, 1);
      sysseek($d, $place, 0); syswrite($d, "\\0" x 4096); sysseek($d, $here, 0);
      $hits++; $from += 4096;
    }
    $rest = substr($all, -63); $at += $got;
  }
  close $d;
}
print "hits=$hits\\n";
"""

_SCRIPT = (
    SHELL
    + """\
dir=$1
devices=
case $fs in
  btrfs)
    uuid=$(findmnt --noheadings --output UUID --target "$dir")
    [ -n "$uuid" ] || uuid=$(btrfs filesystem show "$source" | sed -n 's/.*uuid: //p')
    for each in /sys/fs/btrfs/$uuid/devices/*; do devices="$devices /dev/${each##*/}"; done ;;
  zfs) devices=$(zpool status -P "${source%%/*}" | sed -n 's|^[[:space:]]*\\(/dev/[^[:space:]]*\\) .*|\\1|p') ;;
  *) devices=$source ;;
esac
fill "$dir/file" DATA
head --bytes 64 "$dir/file" >/tmp/strata-probe-$$
sum=$(sha256sum <"$dir/file")
used "$dir" >/dev/null
echo 3 >/proc/sys/vm/drop_caches
for each in $devices; do blockdev --flushbufs "$each"; done
perl -e "$SPOIL" /tmp/strata-probe-$$ $devices || exit 1
rm -f /tmp/strata-probe-$$
for each in $devices; do blockdev --flushbufs "$each"; done
sync; echo 3 >/proc/sys/vm/drop_caches
if now_sum=$(sha256sum <"$dir/file" 2>"$dir/said"); then
  if [ "$now_sum" = "$sum" ]; then say read same; else say read changed; fi
else
  say read refused; say said "$(line <"$dir/said")"
fi
rm -f -- "$dir/file"
# What it spoiled is gone, and the stack is not to bear the mark of it: a ZFS pool forgets an error at the second scrub.
case $fs in
  btrfs) sync --file-system -- "$dir"; btrfs device stats --reset "$dir" >/dev/null ;;
  zfs) pool=${source%%/*}; for again in 1 2; do zpool clear "$pool"; zpool scrub -w "$pool"; done ;;
esac"""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    hits = number(found, "hits")
    if not hits:
        return Finding(None, "the bytes of the file are not on the devices below as they were written")
    places = "one place" if hits == 1 else f"{hits:.0f} places"
    what = f"4 KiB of a file were changed in {places} below, and reading it "
    match found.get("read"):
        case "changed":
            return Finding(False, what + "gave what was changed")
        case "refused":
            return Finding(True, what + f"was refused: {found.get('said') or 'without a word'}")
        case "same":
            return Finding(None, what + "gave the right data: another copy of them is elsewhere")
        case _:
            return Finding(None, what + "said nothing")


PROBE = Probe(
    name="checksums",
    about="Changes bytes of a file on the devices below, on every copy that is found, and reads the file.",
    accepts=frozenset({Kind.DIRECTORY}),
    script="SPOIL=$(cat <<'PERL'\n" + _SPOIL + "PERL\n)\n" + _SCRIPT,
    judge=judge,
    data_bytes=2 * _DATA_MIB * MIB,
    tools={"perl": "perl", "sha256sum": "coreutils", "blockdev": "util-linux", **TOOLS},
)
