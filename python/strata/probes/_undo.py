"""What removes all that a probe made, also one that was killed: found by where it lies or by its name, not by a record.

A probe puts what it makes in its target directory, in its notes, or under a name that `UNDO` knows in the group or pool
of the stack, which is the visit's own. Whatever else it changes, it notes before.
"""

from __future__ import annotations

from strata.probes._devices import POOL_OF
from strata.probes._probe import NOTES, SHELL

MAKE_NOTES = f'mkdir -- "$2/{NOTES}"'
"""$1, $2 as for a probe. Where there are no notes, nothing was made."""

REMOVE_NOTES = f'rm -rf --one-file-system -- "$2/{NOTES}"'
"""The undo of a probe that changes nothing else, or whose layer removes what it made, as an engine its containers."""

UNDO = (
    f'[ -d "$2/{NOTES}" ] || exit 0\n'
    + SHELL
    + POOL_OF
    + """\
target=$1 scratch=$2
real=$(readlink -m -- "$target") real_notes=$(readlink -m -- "$notes")
# Whether $1 lies in the target or in the notes.
ours() { case $1 in "$real"/* | "$real_notes"/*) return 0 ;; *) return 1 ;; esac; }
# What was mounted for a process that was killed is busy for a moment longer.
patiently() {
  for pause in 0.2 0.5 1 2 4; do "$@" 2>/dev/null && return 0; sleep "$pause"; done
  "$@"
}
[ ! -S /run/udev/control ] || udevadm settle --timeout=60
# A command of LVM that was killed may have left volumes suspended, and whoever reads them waits for ever.
mapped=$(cat "/sys/class/block/${source##*/}/dm/name" 2>/dev/null || basename "$source")
if [ -n "$mapped" ] && [ -e "/dev/mapper/$mapped" ]; then
  dmsetup info --columns --noheadings --separator ' ' --options suspended,name | while read -r state name; do
    case $state:$name in Suspended:"${mapped%-*}"-*) dmsetup resume "$name" || exit 1 ;; esac
  done || exit 1
fi
findmnt --list --noheadings --output TARGET | sort --reverse | while read -r each; do
  ! ours "$each" || patiently umount -- "$each" || exit 1
done || exit 1
# Without ZFS in the kernel, asking for pools would load it.
if [ -d /proc/spl/kstat/zfs ]; then
  for each in $(zpool list -H -o name); do
    ! zpool status -P "$each" | grep --quiet --fixed-strings " $notes/" || zpool destroy -f "$each" || exit 1
  done
  top=
  if [ "$fs" = zfs ]; then top=$source; fi
  case $target in /dev/zvol/*) top=$(pool_of "$target") ;; esac
  if [ -n "$top" ]; then
    for each in "$top/bare" "$top/copy" "$top/probe" "${top%%/*}/strata-probe"; do
      ! zfs list "$each" >/dev/null 2>&1 || patiently zfs destroy -R "$each" || exit 1
    done
  fi
  if [ -s "$notes/zfs_arc_max" ]; then
    while read -r each; do echo "$each" >/sys/module/zfs/parameters/zfs_arc_max || exit 1; done <"$notes/zfs_arc_max"
  fi
fi
losetup --list --noheadings --output NAME,BACK-FILE | while read -r loop file; do
  ! ours "$file" || losetup --detach "$loop" || exit 1
done || exit 1
set -- $(volume)
if [ -n "${1:-}" ]; then
  made=$(lvs --config "$LVM" --noheadings --options lv_name "$1") || exit 1
  for each in strata-one strata-two strata-probe; do
    case " $(echo $made) " in
      *" $each "*) lvremove -qq --force --yes --config "$LVM" "$1/$each" || exit 1 ;;
    esac
  done
fi
if [ "$fs" = btrfs ]; then
  # 256 is the inode that a subvolume begins with. Where its limit is reached, nothing in it can be deleted.
  subvolumes() { find "$target" -mindepth 1 -depth -type d -inum 256; }
  subvolumes | while read -r each; do btrfs qgroup limit none "$each" 2>/dev/null; done
  subvolumes | while read -r each; do btrfs subvolume delete "$each" >/dev/null || exit 1; done || exit 1
fi
if [ -s "$notes/group" ]; then
  group=$(cat "$notes/group")
  [ ! -d "$group" ] || patiently rmdir -- "$group" || exit 1
  [ ! -s "$notes/controlled" ] || echo -io >"$(cat "$notes/controlled")" 2>/dev/null
fi
[ ! -f "$target" ] || rm -f -- "$target".probe "$target".probe.*
set -- "$target" "$scratch"
"""
    + REMOVE_NOTES
)
"""$1, $2 as for a probe. It succeeds where nothing is left, and may be repeated."""

TOOLS = {"find": "findutils", "losetup": "mount", "umount": "mount"}
"""Of `UNDO`, beside those of `SHELL`."""
