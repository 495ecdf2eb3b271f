"""The end of a container engine, undoing its first step: processes, mounts, control groups and files of the visit, also
after a kill -9, and whatever the engine of a user left."""

from __future__ import annotations

# Directories that engines make for themselves and leave, empty, whatever they are told; inner ones first.
LEFT = r"""
left_by_engines() {
  for each in /run/docker/plugins /run/docker /run/containerd/s /run/containerd/fifo /run/containerd/runc \
    /run/containerd /run/runc /run/crun /run/lxc/lock/run /run/lxc/lock /run/lxc \
    /var/lib/containers/cache /var/lib/containers /var/cache/containers \
    /sys/fs/cgroup/lxc.pivot /sys/fs/cgroup/*/lxc.pivot
  do
    if [ -d "$each" ]; then echo "$each"; fi
  done
}
"""

REMOVE_VOLUMES = r"""
remove_volumes() {
  number=$(dmsetup info --columns --noheadings --separator : --options major,minor "$1") || return 1
  dmsetup table --target thin | sed -n "s/^\(docker-.*\): 0 [0-9]* thin $number [0-9]*.*/\1/p" |
    while IFS= read -r volume; do dmsetup remove --retry -- "$volume" || exit 1; done
}
"""
"""A function of the shell: the volumes that Docker has in a thin pool go, $1 its name."""

# Functions that the ends of all engines share. Set before: name (the control group), dir (the place), root (on the
# stack), programs (names of the engine's own programs, " a b ").
_FUNCTIONS = (
    REMOVE_VOLUMES
    + LEFT
    + r"""
groups() {
  find /sys/fs/cgroup -depth -type d \( -path "*/$name" -o -path "*/$name/*" -o -path "*/lxc.*.$name-*" \) 2>/dev/null
}
ours() {
  for group in $(groups); do cat "$group/cgroup.procs" 2>/dev/null; done
  for process in $(grep -lF -e "$dir/" -e "$way/" /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${process%/cmdline}
    case $programs in *" $(cat "$process/comm" 2>/dev/null) "*) echo "${process#/proc/}" ;; esac
  done
}
end_all() {
  for pause in 0 0.05 0.1 0.2 0.4 0.8 1.6 3.2 6.4; do
    sleep "$pause"
    left=$(ours | sort -u)
    [ -n "$left" ] || return 0
    kill -KILL $left 2>/dev/null
  done
  echo "these processes of the engine were killed and still live: $(echo $left); see what they wait for" >&2
  return 1
}
# A user's Podman left what that user likes. What goes by a path in there is done as that user: a link on the way leads
# to nothing that is not the user's anyway. Of no user: as root.
as_owner() {
  owner=$(cat "$dir/user" 2>/dev/null)
  [ -z "$owner" ] || set -- strata-engine without-keys -- env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --reuid "$owner" --regid "$(id -g -- "$owner")" --init-groups -- "$@"
  (cd / && "$@")
}
# Sets point from $1, a mount point as mountinfo writes it.
plain() {
  point=$1
  case $1 in *\\*) point=$(printf "$(printf %s "$1" | sed 's/%/%%/g').") point=${point%.} ;; esac
}
# The kernel shows the way without links.
real_root=$(readlink -m -- "${root%/*}")/${root##*/} real_dir=$(readlink -m -- "$dir")
# As mountinfo writes them: each is one line, though its name may have line ends.
mounts() {
  while read -r _ _ _ _ written _; do
    plain "$written"
    case $point in "$real_root"|"$real_root"/*|"$real_dir"/*) printf '%s\n' "$written" ;; esac
  done </proc/self/mountinfo | tac
}
unmount() {
  case $point in
    "$real_root"/*|"$real_dir"/own/*) as_owner umount -- "$point" ;;
    *) umount -- "$point" ;;
  esac
}
unmount_all() {
  mounts | while IFS= read -r written; do plain "$written"; unmount || exit 1; done
}
# All but its own directory, which Docker mounts onto itself: what is open there may be the files of a pool.
unmount_inside() {
  mounts | while IFS= read -r written; do
    plain "$written"
    [ "$point" = "$real_root" ] || unmount || exit 1
  done
}
leave_groups() {
  groups | while IFS= read -r group; do rmdir -- "$group" 2>/dev/null || [ ! -d "$group" ] || exit 1; done
}
# What a user's Podman left may say anything, and it has nothing in root's directories.
is_root_engine() { [ -z "$(cat "$dir/user" 2>/dev/null)" ]; }
forget_sockets() {
  # containerd's shims listen in one directory for all of the machine, under names that only these files tell.
  ! is_root_engine || find "$dir" -path '*/io.containerd.runtime.v2.task/*' -name address 2>/dev/null |
    while IFS= read -r file; do
      socket=$(sed 's|^unix://||' "$file")
      case $socket in /run/containerd/s/*/*) ;; /run/containerd/s/*) rm -f -- "$socket" ;; esac
    done
  # Made at their start by containerd and Docker wherever their own state is; empty, and nobody's while none runs.
  rm -rf --one-file-system -- "/run/containerd/runc/$name"
  # Podman's runtimes keep their state in one directory for all of the machine, under the names of containers.
  ! is_root_engine || for kept in "$root" "$dir/state"; do
    find "$kept" -mindepth 2 -maxdepth 2 -path "$kept/*-containers/*" -type d 2>/dev/null
  done | while IFS= read -r container; do
    for runtime in runc crun; do rm -rf --one-file-system -- "/run/$runtime/${container##*/}"; done
  done
  # LXC locks below the path of its own directory.
  rm -rf --one-file-system -- "/run/lxc/lock/run/$name"
  # What was there before is the user's, empty or not.
  if [ -e "$dir/there" ]; then
    # A control group goes when the last process in it has ended, which LXC's monitor does a little after its container.
    left_by_engines | grep -vxF -f "$dir/there" | {
      pauses="0.1 0.4 1.6 3.2 "
      while IFS= read -r made; do
        until rmdir -- "$made" 2>/dev/null; do
          case $made in /sys/*) ;; *) break ;; esac
          [ -d "$made" ] && [ -n "$pauses" ] || break
          sleep "${pauses%% *}"; pauses=${pauses#* }
        done
      done
    }
  fi
  return 0
}
# The volumes that containers had in a thin pool; the pool forgets them when it goes.
free_pool() {
  [ -n "$pool" ] || return 0
  dmsetup ls 2>/dev/null | cut -f 1 | grep -F -e "$pool-snap-" | while IFS= read -r volume; do
    dmsetup remove --retry -- "$volume" || exit 1
  done || return 1
  if [ -S /run/udev/control ]; then udevadm settle --timeout=60; fi
}
# A pool that the engine made of files in its directory: known by these, removed or not.
free_loops() {
  kept=$real_root/
  loops=$(for file in /sys/block/loop*/loop/backing_file; do
    case $(cat "$file" 2>/dev/null) in "$kept"*) file=${file%/loop/backing_file}; echo "${file##*/}" ;; esac
  done)
  [ -n "$loops" ] || return 0
  for pool_of_files in $(dmsetup ls --target thin-pool 2>/dev/null | cut -f 1 | grep '^docker-.*-pool$'); do
    dmsetup deps -o devname "$pool_of_files" | grep -o 'loop[0-9]*' | grep -qxF -e "$loops" || continue
    remove_volumes "$pool_of_files" && dmsetup remove --retry -- "$pool_of_files" || return 1
  done
  for loop in $loops; do
    # One that is detached by itself, as its last mount goes, may be gone by now.
    losetup --detach "/dev/$loop" || [ ! -e "/sys/block/$loop/loop/backing_file" ] || return 1
  done
  if [ -S /run/udev/control ]; then udevadm settle --timeout=60; fi
}
remove_root() {
  [ -e "$root" ] || return 0
  is_btrfs=$([ "$(stat --file-system --format=%T -- "$root")" != btrfs ] || echo yes)
  if ! is_root_engine; then
    # Closed first: what of the user's still runs is not to fill it again, and comes in by no path any more.
    (cd -P -- "$root" && [ "$(pwd -P)" = "$real_root" ] && chown -- root . && chmod 0700 .) || return 1
    # As root: the user cannot enter what belongs to the subordinate ids. find and rm follow no link; each subvolume is
    # entered first and only then checked to be in here, so that a link in its place leads to nothing elsewhere. What
    # remains: a process of the user's that works in here can make one read-only again, and rm fails while it does.
    [ -z "$is_btrfs" ] || find "$root" -inum 256 -type d -execdir sh -c '
      cd -P -- "$2" && case $(pwd -P)/ in "$1"/*) btrfs property set -f -ts . ro false ;; esac' sh "$real_root" {} ';'
    # A subvolume, which is another file system to rm, goes as a directory does; what else could be mounted there by now
    # is a file system of that user's own making.
    if [ -n "$is_btrfs" ]; then rm -rf -- "$root"; else rm -rf --one-file-system -- "$root"; fi
    return
  fi
  if [ -n "$is_btrfs" ]; then
    # All writable first: from a read-only subvolume no other inside it can be deleted.
    find "$root" -inum 256 -type d -exec sh -c '
      for volume; do btrfs property set -f -ts "$volume" ro false 2>/dev/null || :; done' sh {} + || return 1
    find "$root" -depth -inum 256 -type d -exec sh -c '
      for volume; do btrfs --quiet subvolume delete -- "$volume" >/dev/null || exit 1; done' sh {} + || return 1
  fi
  if [ -e "$root" ]; then rm -rf --one-file-system -- "$root"; fi
}
"""
)

# $1 name, $2 place, $3 the engine's directory on the stack, $4 programs, $5 a thin pool or "". The
# engine itself was asked to stop before.
END = (
    "name=$1 dir=$2 root=$3 programs=$4 pool=$5 way=/run/$1\n"
    + _FUNCTIONS
    + "end_all && unmount_inside && free_pool && free_loops && unmount_all && leave_groups && forget_sockets && "
    + "remove_root"
)
