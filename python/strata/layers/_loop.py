"""A file as a block device: attached to a loop device of the kernel, and let go again."""

from __future__ import annotations

# $1 file, $2 link to make. Another process may take the free loop device between our finding it and our binding it;
# then try the next one. A loop device keeps the I/O scheduler of whoever had its number before: every disk starts with
# none, the kernel's own choice for a new one.
ATTACH = """\
for pause in 0.1 0.2 0.4 0.8 ''; do
  if device=$(losetup --find --show --direct-io=on --partscan -- "$1"); then
    echo none > "/sys/block/${device##*/}/queue/scheduler"
    ln -s -- "$device" "$2"; exit
  fi
  [ -n "$pause" ] && sleep "$pause"
done
exit 1"""

# $1 file. One that cannot be looked at is known by its name: it was removed, or the program that served it has ended.
ATTACHED = """\
attached() {
  if [ -e "$1" ]; then losetup --noheadings --output NAME --associated "$1"; return; fi
  file=$(readlink -m -- "$1")
  grep -lxF -e "$file" -e "$file (deleted)" /sys/block/loop*/loop/backing_file 2>/dev/null |
    sed 's|/sys/block/\\(.*\\)/loop/backing_file|/dev/\\1|'
}
"""
"""A function of the shell: the loop devices of a file."""

# $1 file. losetup --detach succeeds even if something holds the device; the kernel then detaches when that lets go.
# So it is asked for once and then waited for: by a second time the device may be somebody else's.
LET_GO = """\
for device in $(attached "$1"); do losetup --detach "$device"; done
for pause in 0 0.05 0.1 0.2 0.4 0.8 1; do
  sleep "$pause"
  devices=$(attached "$1") || exit 1
  if [ -z "$devices" ]; then break; fi
done
if [ -n "$devices" ]; then
  echo "something still holds" $devices "of $1: end or unmount it, then clean up again" >&2; exit 1
fi
"""

# $1 file, $2 link. The link goes first: a link that is there never names a loop device which somebody else may have
# taken over.
DETACH = ATTACHED + 'rm -f -- "$2"\n' + LET_GO

# $1 file, $2 link to make. A loop device of a number of our own, which takes no discards: the kernel keeps that setting
# for whoever has the number next, and some kernels (6.18) let nobody set it back, so the number goes with the device.
ATTACH_WITHOUT_DISCARDS = """\
number=1000
while [ "$number" -lt 2000 ]; do
  device=/dev/loop$number
  if [ ! -e "/sys/block/loop$number" ] && ln -s -- "$device" "$2"; then
    if losetup --direct-io=on -- "$device" "$1"; then
      echo 0 > "/sys/block/loop$number/queue/discard_max_bytes"; exit
    fi
    rm -- "$2"
  fi
  number=$((number + 1))
done
echo "no loop device of an own number could be had" >&2
exit 1"""

# $1 file, $2 link. The kernel refuses to remove a device that is in use.
_REMOVE_NUMBER = """\
[ -L "$2" ] || exit 0
device=$(readlink -- "$2")
if [ -e "/sys/block/${device##*/}" ]; then
  perl -e 'open(F, "+<", "/dev/loop-control") && defined(ioctl(F, 0x4C81, $ARGV[0]+0)) or die "$!\\n"' \
    "${device##*/loop}" || exit 1
fi
rm -f -- "$2\""""
DETACH_AND_REMOVE = ATTACHED + LET_GO + _REMOVE_NUMBER

# $1 device or link. losetup knows a loop device by its own name only, not through a link.
SHOW = 'losetup --list --json --output NAME,BACK-FILE,DIO,RO -- "$(readlink -f -- "$1")"'
