"""Limits of I/O on containers, for the clients of engines: three words more of their contract.

    client create IMAGE NAME ... [limit:WHAT=RATE]... -- CMD    WHAT: read-bps, write-bps, read-iops, write-iops
    client limits NAME     what the kernel limits of a running container, one WHAT=RATE a line and device
    client traffic NAME    bytes read from and written to the devices below a running container's root, since boot

An engine that has options for it is given them; for the others the control group of the container is written once it
runs, as `systemd-run` or an orchestrator would. A limit holds for a device: those that the root of a container, or the
directory of the engine, lies on.
"""

from __future__ import annotations

THROTTLE = r"""
# MAJOR:MINOR of the whole disks below the root of process $1, or below the engine's directory.
devices() {
  number=
  if [ -n "$1" ]; then number=$(awk '$5 == "/" { found = $3 } END { print found }' "/proc/$1/mountinfo"); fi
  # That of an overlay, a subvolume or a data set is no device's.
  if [ -z "$number" ] || [ ! -e "/sys/dev/block/$number" ]; then
    number=$(findmnt --noheadings --output MAJ:MIN --target "$d/storage/." | tail -n 1 | tr -d ' ')
  fi
  if [ ! -e "/sys/dev/block/$number" ]; then
    source=$(findmnt --noheadings --nofsroot --output SOURCE --target "$d/storage/." | tail -n 1)
    case $(stat --file-system --format=%T "$d/storage/.") in
      btrfs)
        member=$(basename -- "$(readlink -f -- "$source")")
        for member in /sys/fs/btrfs/*/devices/"$member"; do number=$(cat "${member%/*}"/*/dev); done ;;
      zfs)
        number=$(zpool status -LP "${source%%/*}" | awk '$1 ~ "^/dev/" { print $1 }' | while IFS= read -r leaf; do
          leaf=$(basename -- "$(readlink -f -- "$leaf")"); cat "/sys/class/block/$leaf/dev"
        done) ;;
    esac
  fi
  for each in $number; do
    [ -e "/sys/dev/block/$each" ] || continue
    if [ -e "/sys/dev/block/$each/partition" ]; then each=$(cat "/sys/dev/block/$each/../dev"); fi
    echo "$each"
  done | sort -u
}
some_devices() {
  found=$(devices "$1")
  if [ -z "$found" ]; then echo "no block device is known below the containers, so none can be limited" >&2; exit 65; fi
  echo "$found"
}
# The device file of MAJOR:MINOR.
node() { echo "/dev/$(basename -- "$(readlink -f -- "/sys/dev/block/$1")" | tr ! /)"; }
# Directory of the control group of process $1 that limits I/O: of v1 or, without that, of v2.
group_of() {
  path=$(sed -n 's/^[0-9]*:\([^:]*,\)\{0,1\}blkio\(,[^:]*\)\{0,1\}:/blkio/p' "/proc/$1/cgroup")
  [ -n "$path" ] || path=$(sed -n 's/^0:://p' "/proc/$1/cgroup")
  echo "/sys/fs/cgroup/${path#/}"
}
# $1 process, $2 what and rate.
limit() {
  group=$(group_of "$1") what=${2%%=*} rate=${2#*=}
  devices=$(some_devices "$1") || return 1
  for device in $devices; do
    case $group in
      /sys/fs/cgroup/blkio*)
        echo "$device $rate" >"$group/blkio.throttle.$(echo "$what" | tr - _)_device" || return 1 ;;
      *)
        case $what in read-*) key=r${what#read-} ;; *) key=w${what#write-} ;; esac
        echo "$device $key=$rate" >"$group/io.max" || return 1 ;;
    esac
  done
}
limits() {
  group=$(group_of "$1")
  for what in read-bps write-bps read-iops write-iops; do
    file=$group/blkio.throttle.$(echo "$what" | tr - _)_device
    if [ -e "$file" ]; then awk -v what="$what" '{ print what "=" $2 }' "$file"; fi
  done
  if [ -e "$group/io.max" ]; then
    sed 's/ \([rw]\)\(bps\|iops\)=/\n\1-\2=/g' "$group/io.max" |
      sed -n '/=max$/d; s/^r-/read-/p; s/^w-/write-/p'
  fi
}
traffic() {
  some_devices "$1" >/dev/null || exit 1
  for device in $(devices "$1"); do cat "/sys/dev/block/$device/stat"; done |
    awk '{ read += $3; written += $7 } END { printf "%.0f %.0f\n", read * 512, written * 512 }'
}
"""
"""Functions of the shell. Set before: d, the directory of the client."""

OPTIONS = r"""      elif [ "${word#limit:}" != "$word" ]; then
        word=${word#limit:}
        devices=$(some_devices "") || exit 1
        for device in $devices; do set -- "$@" "--device-${word%%=*}" "$(node "$device"):${word#*=}"; done"""
"""For the verb create of engines with Docker's command line, in a loop over its words."""

AT_START = r"""
kept_limits="$d/limits"
keep_limit() { mkdir -p "$kept_limits" && echo "${2#limit:}" >>"$kept_limits/$1"; }
has_limits() { [ -e "$kept_limits/$1" ]; }
# $1 name, $2 process.
set_limits() { while IFS= read -r one; do limit "$2" "$one" || return 1; done <"$kept_limits/$1"; }
# $1 name, or nothing: of all.
forget_limits() { rm -rf -- "$kept_limits${1:+/$1}"; }
"""
"""For engines that take no limits when a container is made: kept until it runs."""

VERBS = r"""
  limits) limits "$("$d/client" pid "$1")" ;;
  traffic) traffic "$("$d/client" pid "$1")" ;;
"""
