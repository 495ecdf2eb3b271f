"""What every shell recipe ends in: checks before anything is touched, the verbs, and undoing. POSIX shell."""

from __future__ import annotations

FRAME = """\
# The echo of some shells carries out what follows a backslash.
echo() { printf '%s\\n' "$*"; }
say() { echo "$name: $*"; }
fail() { echo "$name: $*" >&2; exit 1; }
refuse() { echo "$name: $*" >&2; exit 3; }

# ---------------------------------------------------------------- what is not touched

# $1 a device as it was given. Every reason why it is not free; nothing when it is.
against() {
  if [ ! -b "$1" ]; then echo "$1 is no block device of this machine: make the recipe with another --map"; return; fi
  node=$(readlink -f -- "$1")
  mounts=$(lsblk --noheadings --list --output MOUNTPOINT -- "$node" | grep . | tr '\\n' ' ')
  if [ -n "$mounts" ]; then echo "$1 is mounted or swap: $mounts"; fi
  held=$(lsblk --noheadings --list --paths --output NAME,TYPE -- "$node" | sed -n '2,$p' | grep -v ' part$' || true)
  if [ -n "$held" ]; then echo "$1 carries" $held; fi
  loops=$(losetup --noheadings --list --output NAME,BACK-FILE | grep -F " $node" || true)
  if [ -n "$loops" ]; then echo "$1 carries the loop device" $loops; fi
  # It opens the device for itself alone, which fails when anything else has it so, and erases signatures of a type that
  # there is not.
  if ! wipefs --quiet --all --types strata-none -- "$node" 2>/dev/null; then
    echo "$1 cannot be had alone, so something uses it"
  fi
}

# $1 a device as it was given: what is written on it and its partitions.
written() {
  for part in $(lsblk --noheadings --list --paths --output NAME,TYPE -- "$(readlink -f -- "$1")" |
    awk 'NR == 1 || $2 == "part" { print $1 }'); do
    wipefs --noheadings --output TYPE -- "$part" || echo "something that cannot be read"
  done
}

erase() {
  node=$(readlink -f -- "$1")
  lsblk --noheadings --list --paths --output NAME,TYPE -- "$node" |
    awk 'NR == 1 || $2 == "part" { print $1 }' | sort -r | while read -r part; do
      wipefs --quiet --all -- "$part" || exit 1
    done
  partx --delete -- "$node" 2>/dev/null || true
}

look_before() {
  [ "$(id -u)" = 0 ] || refuse "building needs root"
  missing=$(for each in $programs; do
    command -v "${each%%:*}" >/dev/null 2>&1 || echo "${each%%:*} (${each#*:})"
  done)
  [ -z "$missing" ] || refuse "programs are missing, each with its Debian package:" $missing
  [ -z "$mount" ] || [ ! -e "$mount" ] ||
    refuse "$mount is there already: make the recipe again with another --at, or take it away"
  reasons=$(for device in $devices; do against "$device"; done)
  [ -z "$reasons" ] || refuse "nothing was touched:
$reasons"
  for device in $devices; do
    found=$(written "$device" | sort -u | tr '\\n' ' ')
    [ -z "$found" ] && continue
    [ "$wipe" = yes ] ||
      refuse "nothing was touched: $device carries $found; add --wipe if nothing on the devices is needed any more"
  done
  if [ "$wipe" = yes ]; then
    for device in $devices; do erase "$device" || fail "$device could not be erased"; done
  fi
}

# ---------------------------------------------------------------- what it does

# What is in place under this name may be of another recipe, whose own script alone can look at it and take it back.
ours() {
  [ ! -e "$state/recipe" ] || [ "$(cat -- "$state/recipe")" = "$made" ]
}

refuse_others() {
  ours || refuse "in place is another recipe: $(cat -- "$state/recipe")
make this one again with another --name, or take that one back first: sh $state/script remove"
}

apply() {
  refuse_others
  if [ -e "$state/complete" ]; then
    bring_back
    check && say "it is in place; nothing had to be built"
    return
  fi
  [ ! -e "$state" ] || refuse "a build was cut short: run \\`$0 remove\\` first"
  look_before
  mkdir -p -- "${state%/*}"
  mkdir -- "$state" $places
  if ! cp -- "$0" "$state/script"; then
    rm -rf -- "$state"
    refuse "run it as a file, for a copy of it is kept for the way back"
  fi
  echo "$made" >"$state/recipe"
  number=1
  while [ "$number" -le "$steps" ]; do
    echo "$number" >>"$state/journal"
    sync -- "$state/journal"
    say "$("why_$number")"
    if ! "do_$number"; then
      echo "$name: could not $("why_$number"); taking back what was built" >&2
      take_back || fail "not all of it could be taken back: end what uses it, then run \\`$0 remove\\`"
      exit 1
    fi
    number=$((number + 1))
  done
  : >"$state/complete"
  check && say "it is in place"
}

bring_back() {
  number=1
  while [ "$number" -le "$steps" ]; do
    "again_$number" || fail "could not $("why_$number") again"
    number=$((number + 1))
  done
}

check() {
  if [ ! -e "$state/complete" ]; then say "it is not in place"; return 1; fi
  if ! ours; then say "in place is another recipe: $(cat -- "$state/recipe")"; return 1; fi
  wrong=0
  for device in $devices; do
    if [ ! -b "$device" ]; then say "$device is not there"; wrong=1; fi
  done
  number=1
  while [ "$number" -le "$questions" ]; do
    if ! said=$("ask_$number" 2>&1 >/dev/null); then say "$("layer_$number") does not answer: $said"; wrong=1; fi
    number=$((number + 1))
  done
  see || wrong=1
  if command -v strata >/dev/null 2>&1; then
    inspect >"$state/seen"
    judge "$state/seen" || wrong=1
  fi
  return "$wrong"
}

# One line for every question: exit code, standard output and standard error of the answer.
inspect() {
  if [ ! -d "$state" ]; then refuse "it is not in place: apply first"; fi
  refuse_others
  number=1
  while [ "$number" -le "$questions" ]; do
    code=0
    "ask_$number" >"$state/out" 2>"$state/err" || code=$?
    echo "$code $(base64 -w 0 <"$state/out"). $(base64 -w 0 <"$state/err")."
    number=$((number + 1))
  done
  rm -f -- "$state/out" "$state/err"
}

take_back() {
  [ -e "$state/journal" ] || : >"$state/journal"
  for number in $(sort -rnu -- "$state/journal"); do
    "undo_$number" || return 1
  done
  below=$(findmnt --noheadings --list --output TARGET | grep -F -- "$state/" || true)
  if [ -n "$below" ]; then echo "$name: still mounted below $state:" $below >&2; return 1; fi
  rm -rf --one-file-system -- "$state"
}

remove() {
  [ "$(id -u)" = 0 ] || refuse "removing needs root"
  if [ ! -e "$state" ]; then say "there is nothing of it"; return; fi
  refuse_others
  if [ -e "$state/complete" ] && [ "$destroy" != yes ]; then
    refuse "what it holds would be lost: add --destroy-data if nothing of it is needed any more"
  fi
  take_back || fail "not all of it could be removed: end what uses it, then run it again"
  say "it is removed"
}

usage() {
  echo "usage: $0 apply [--wipe] | check | inspect | remove [--destroy-data]" >&2
  exit 2
}

wipe=no destroy=no
case "$*" in
  apply) apply ;;
  'apply --wipe') wipe=yes; apply ;;
  check) check ;;
  inspect) inspect ;;
  remove) remove ;;
  'remove --destroy-data') destroy=yes; remove ;;
  *) usage ;;
esac
"""

# What findmnt calls it, and what is there: the UUID that the file system was made with; or, where a program of its own
# mounts it (ZFS), the source.
SEE_MOUNT = """\
see() {
  now=$(findmnt --noheadings --output %s --mountpoint "$mount" || true)
  if [ "$now" != %s ]; then
    say "$mount holds ${now:-nothing that is mounted} instead of the file system made here"; return 1
  fi
}"""

SEE_NOTHING = "see() { :; }"
