"""What the scripts share that look at the devices below: which there are, and where on them a file begins."""

from __future__ import annotations

# Prints DEVICE OFFSET of copies of the 64 bytes in the file $ARGV[0]: those of the places in the file $ARGV[1] that
# hold them; where none does, the first on each of the devices that follow. Random bytes are stored as they are, also
# where data are compressed; what does not begin with a sector is in a journal, and nobody reads it.
_LOOK = """\
open(my $f, "<:raw", shift) or die; read($f, my $want, 64) == 64 or die; close $f;
open(my $h, "<", shift) or die; my @told = map { [split] } <$h>; close $h;
my $found = 0;
for (@told) {
  my ($device, $at) = @$_;
  open(my $d, "<:raw", $device) or next;
  sysseek($d, $at, 0); sysread($d, my $part, 64);
  if ($part eq $want) { print "$device $at\\n"; $found++; }
}
exit 0 if $found;
DEVICE: for my $device (@ARGV) {
  open(my $d, "<:raw", $device) or die "$device: $!";
  my ($at, $rest, $part) = (0, "", "");
  while (my $got = sysread($d, $part, 4 << 20)) {
    my $all = $rest . $part;
    for (my $from = -1; ($from = index($all, $want, $from + 1)) >= 0;) {
      my $place = $at - length($rest) + $from;
      next if $place % 512;
      printf "%s %d\\n", $device, $place; next DEVICE;
    }
    $rest = substr($all, -63); $at += $got;
  }
}
"""

POOL_OF = 'pool_of() { echo "$1" | cut -d / -f 4; }\n'
"""A function of the shell: the pool that /dev/zvol/... is of."""

DEVICES = (
    POOL_OF
    + "LOOK=$(cat <<'PERL'\n"
    + _LOOK
    + """\
PERL
)
# Those of pool $1.
pool_disks() { zpool status -P "$1" | sed -n 's|^[[:space:]]*\\(/dev/[^[:space:]]*\\) .*|\\1|p'; }
# Devices that the file system of directory $1 lies on; where it lies on an array of md, the array.
devices() {
  case $fs in
    btrfs)
      uuid=$(findmnt --noheadings --output UUID --target "$1")
      [ -n "$uuid" ] || uuid=$(btrfs filesystem show "$source" | sed -n 's/.*uuid: //p')
      for each in /sys/fs/btrfs/"$uuid"/devices/*; do echo "/dev/${each##*/}"; done ;;
    zfs) pool_disks "${source%%/*}" ;;
    *) echo "$source" ;;
  esac
}
# The kernel's names of the disks that all of $1 stands on in the end.
leaves() {
  for each in $(case $source in /dev/zd*) pool_disks "$(pool_of "$1")" ;; *) devices "$1" ;; esac); do
    lsblk --inverse --noheadings --raw --output KNAME "$each"
  done | sort -u | while read -r name; do
    # those that stand on nothing
    [ -n "$(ls "/sys/class/block/$name/slaves" 2>/dev/null)" ] || [ -e "/sys/class/block/$name/partition" ] ||
      echo "$name"
  done
}
# A directory in $1 that is dropped from memory completely: `forget` does not reach the memory of ZFS.
bare() {
  if [ "$fs" != zfs ]; then mkdir "$1/bare"
  else zfs create -o primarycache=none -o mountpoint="$1/bare" "$source/bare"
  fi
}
unbare() { if [ "$fs" = zfs ]; then zfs destroy "$source/bare"; else rm -rf -- "$1/bare"; fi; }
# The kernel's name of device $1.
kernel_name() { basename -- "$(readlink -f -- "$1")"; }
# Nothing of the devices given is in memory any more.
forget() {
  sync; echo 3 >/proc/sys/vm/drop_caches
  # ZFS lets go of what it is not to keep once a second
  [ "$fs" != zfs ] || sleep 2
  for each; do blockdev --flushbufs "$each"; done
}
# DEVICE OFFSET of the copies of the first bytes of file $1, which lies in directory $2; nothing where none is found.
places() {
  forget $(devices "$2")
  head --bytes 64 "$1" >"$notes/want"
  at=$(filefrag -b512 -v "$1" 2>/dev/null | awk -F '[ .:]+' '$2 == "0" && $3 == "0" { print $5 * 512; exit }')
  case $fs:$at in
    *: | zfs:*) : ;;
    btrfs:*) btrfs-map-logical --logical "$at" --bytes 4096 "$source" 2>/dev/null |
      sed -n 's/^mirror .* physical \\([0-9]*\\) device \\(.*\\)$/\\2 \\1/p' ;;
    *) echo "$source $at" ;;
  esac >"$notes/told"
  perl -e "$LOOK" "$notes/want" "$notes/told" $(devices "$2")
  rm -f "$notes/want" "$notes/told"
}
# 4 KiB at offset $2 of device $1 become zeros, and come back from file $3; and whether they are as in the file.
spoil() { dd if=/dev/zero of="$1" bs=4096 count=1 seek="$2" oflag=seek_bytes conv=notrunc,fsync status=none; }
put_back() { dd if="$3" of="$1" bs=4096 count=1 seek="$2" oflag=seek_bytes conv=notrunc,fsync status=none; }
same() { dd if="$1" bs=4096 count=1 skip="$2" iflag=direct,skip_bytes status=none | cmp -s -n 4096 - "$3"; }
# What was spoiled on purpose is to leave no mark on the stack: a ZFS pool forgets an error at the second scrub.
forget_errors() {
  case $fs in
    btrfs) sync --file-system -- "$1"; btrfs device stats --reset "$1" >/dev/null ;;
    zfs) for again in 1 2; do zpool clear "${source%%/*}"; zpool scrub -w "${source%%/*}"; done ;;
  esac
}
"""
)
"""After `SHELL`."""

TOOLS = {
    "lsblk": "util-linux",
    "perl": "perl",
    "blockdev": "util-linux",
    "filefrag": "e2fsprogs",
    "cmp": "diffutils",
    "dd": "coreutils",
}
