"""btrfs on one device or many."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from strata.layers._daemon import FIND
from strata.layers._device import SETTLE
from strata.layers._filesystem import DAY_S, MKFS, TOOLS, FileSystem, mkfs_words, mount_point_of, share_extents
from strata.layers._members import LOST, REBUILT, choose, note, noted, read_notes
from strata.layers._mkfs import BTRFS
from strata.layers._options import ATIME, COMMON, Option, choice, flag, number, size, written
from strata.layers._steps import output, run, said, sh
from strata.model import (
    Ability,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Snapshots,
    Step,
    Value,
)

PROFILES = {
    "single": (1, 1.0),
    "dup": (1, 2.0),
    "raid0": (1, 1.0),
    "raid1": (2, 2.0),
    "raid1c3": (3, 3.0),
    "raid1c4": (4, 4.0),
    "raid10": (2, 2.0),
    "raid5": (2, 1.0),
    "raid6": (3, 1.0),
}
"""Profile -> the fewest devices it takes, how often each byte is stored (parity apart). Source: mkfs.btrfs(8)."""

PARITY = {"raid5": 1, "raid6": 2}
"""Profile -> devices' worth of parity."""

LOSABLE = {"raid1": 1, "raid10": 1, "raid1c3": 2, "raid1c4": 3, "raid5": 1, "raid6": 2}
"""Profile -> how many devices can be lost with no data lost."""

_COMPRESS = re.compile(r"(?P<how>zlib|lzo|zstd)(:(?P<level>-?\d+))?")
_LEVELS = {"zlib": (1, 9), "zstd": (1, 15)}
_DEFAULT_LEVEL = 3
_NEGATIVE_SINCE = (6, 15)  # levels of zstd below 1, down to -15. Source: btrfs(5), compression


def _compression(name: str, about: str) -> Option:
    def texts(value: Value) -> tuple[str, ...]:
        level = f":{_DEFAULT_LEVEL}" if value in _LEVELS else ""
        return (f"{name}={value}{level}",)

    return Option(Param(name, ParamType.TEXT, about, group="mount"), texts=texts)


def _discard() -> Option:
    about = "tell the disk of freed blocks in the background or at each commit"
    param = Param("discard", ParamType.CHOICE, about, choices=("async", "sync"), group="mount")
    return Option(param, (5, 6), texts=lambda value: ("discard",) if value == "sync" else ("discard=async",))


OPTIONS = (
    *COMMON,
    flag("nodatacow", "overwrite data in place, without checksums"),
    flag("nodatasum", "do not checksum data"),
    _compression("compress", "compress data that compress well: zstd, lzo or zlib, with a level as in zstd:3"),
    _compression("compress-force", "compress all data: zstd, lzo or zlib, with a level as in zstd:3"),
    flag("autodefrag", "rewrite small random writes in larger pieces"),
    flag("ssd", "place data as suits a disk without moving parts"),
    flag("ssd_spread", "as ssd, looking for larger free areas"),
    flag("nossd", "place data as suits a disk with moving parts", hidden=True, against=("ssd", "ssd_spread")),
    choice("space_cache", "how free space is kept", "v2"),
    number("commit", "seconds between commits; the kernel's default is 30", minimum=1, maximum=300, unshown=(30,)),
    flag("flushoncommit", "write out all data with every commit"),
    size("max_inline", "the largest file kept among the metadata", minimum=0, maximum=65536, unshown=(2048,)),
    flag("notreelog", "make fsync a full commit"),
    number("thread_pool", "how many worker threads", minimum=1, unshown=range(1, 9)),
    number("metadata_ratio", "allocate metadata after so many data chunks", minimum=1),
    _discard(),
    flag("nodiscard", "do not tell the disk of freed blocks", hidden=True, against=("discard", "discard=async")),
    flag("barrier", "flush the disk's cache where order matters (the default)", hidden=True, against=("nobarrier",)),
    flag("nobarrier", "do not flush the disk's cache: a power cut may destroy the file system"),
    flag("datacow", "copy on write (the default)", hidden=True, against=("nodatacow",)),
    flag("skip_balance", "do not continue with a balance that was interrupted"),
    flag("noacl", "no access control lists"),
)


def _make(spec: Call, uuid: str) -> list[str]:
    argv = ["mkfs.btrfs", "-q", "-f", "-U", uuid]
    if spec["profile"] is not None:
        argv += ["-d", str(spec["profile"])]
    if spec["metadata"] is not None:
        argv += ["-m", str(spec["metadata"])]
    return argv + mkfs_words(spec)


def _check(spec: Call, facts: Facts) -> list[str]:
    reasons = []
    for name in ("compress", "compress-force"):
        if spec[name] is None:
            continue
        match = _COMPRESS.fullmatch(str(spec[name]))
        low, high = _LEVELS.get(match["how"] if match else "", (0, 0))
        level = int(match["level"]) if match and match["level"] else None
        if match is None:
            reasons.append(f"btrfs knows no {name}={spec[name]}; write zstd, lzo or zlib, with a level as in zstd:3.")
        elif level is not None and not low:
            reasons.append(f"btrfs compresses with {match['how']} at one level only; write {name}={match['how']}.")
        elif level is not None and not low <= level <= high and not (match["how"] == "zstd" and -high <= level < 0):
            reasons.append(
                f"btrfs compresses with {match['how']} at levels {low} to {high}"
                f"{f', and -{high} to -1' if match['how'] == 'zstd' else ''}; correct {name}={spec[name]}."
            )
        elif level is not None and level < 0 and facts.kernel < _NEGATIVE_SINCE:
            reasons.append(
                f"{name}={spec[name]} needs Linux {_NEGATIVE_SINCE[0]}.{_NEGATIVE_SINCE[1]}, and this is "
                f"{facts.kernel_text}; write a level of 1 to 15, or boot a newer kernel."
            )
    return reasons


def _arity(spec: Call, inputs: int) -> list[str]:
    reasons = []
    for name, what in (("profile", "data"), ("metadata", "metadata")):
        profile = spec[name]
        fewest = PROFILES[str(profile)][0] if profile is not None else 1
        if inputs < fewest:
            reasons.append(
                f"btrfs needs at least {fewest} devices to keep {what} as {profile}; got {inputs}. "
                f"Give it {fewest}, or choose another profile."
            )
    return reasons


def _usable(spec: Call, sizes_bytes: Sequence[int]) -> int:
    profile = str(spec["profile"] or "single")
    copies, parity = PROFILES[profile][1], PARITY.get(profile, 0)
    share = (len(sizes_bytes) - parity) / len(sizes_bytes) if sizes_bytes else 0.0
    return int(sum(sizes_bytes) * share / copies)


# MiB that mkfs.btrfs wants of each device, by how metadata and data are spread (btrfs_min_dev_size of btrfs-progs 6.2,
# and asked of it). Words of the user's for mkfs may mix the two, which takes less.
_SMALLEST = 21
_SMALLEST_METADATA = {"single": 16, "dup": 80}
_SMALLEST_DATA = {"single": 8, "dup": 128}
_SMALLEST_SPREAD_METADATA, _SMALLEST_SPREAD_DATA = 40, 64
_SMALLEST_MIXED = 16


def _smallest(spec: Call, devices: int) -> int:
    if spec["mkfs"]:
        return _SMALLEST_MIXED << 20
    metadata = str(spec["metadata"] or ("dup" if devices == 1 else "raid1"))
    data = str(spec["profile"] or "single")
    of_metadata = _SMALLEST_METADATA.get(metadata, _SMALLEST_SPREAD_METADATA)
    return (_SMALLEST + of_metadata + _SMALLEST_DATA.get(data, _SMALLEST_SPREAD_DATA)) << 20


# The kernel goes on listing the devices of a file system that it has seen. Seen again on other devices, a newer one
# with the same UUID would be refused as the older: so forget ours before erasing them.
_UNMAKE = """\
uuid=$1; shift
for device; do
  [ -b "$device" ] || continue
  found=$(wipefs --noheadings --output OFFSET,UUID -- "$device") || exit 1
  ours=$(echo "$found" | grep -iwF -- "$uuid" | cut -d ' ' -f 1)
  [ -n "$ours" ] || continue
  btrfs device scan --forget "$device" || exit 1
  for offset in $ours; do wipefs --quiet --offset "$offset" -- "$device" || exit 1; done
done"""


def _unmake(uuid: str, devices: Sequence[str]) -> Command:
    return sh(_UNMAKE, uuid, *devices)


def _join(devices: Sequence[str]) -> list[Step]:
    if len(devices) == 1:
        return []
    # Undone by what undoes mkfs.
    scan = run("btrfs", "device", "scan", *devices)
    return [Step(scan, None, "tell the kernel of the devices", again=scan)]


def _finish(spec: Call, mount_point: str) -> list[Step]:
    if not spec["quotas"]:
        return []
    # Quotas go when the file system goes, so there is nothing to undo.
    return [
        Step(run("btrfs", "quota", "enable", mount_point), None, "turn on quotas"),
        Step(run("btrfs", "quota", "rescan", "-W", mount_point), None, "wait until quotas are counted"),
    ]


# What the kernel says of the file system with UUID $1: its devices, the profiles in use, and quotas.
_STATE = """\
cd "/sys/fs/btrfs/$1" || exit 1
for device in devices/*; do echo "$device"; done
for kind in data metadata; do
  for profile in allocation/$kind/*/total_bytes; do echo "${profile%/total_bytes}"; done
done
if [ -d qgroups ]; then echo quotas; fi"""


def _ask(spec: Call, device: str, mount_point: str, place: Place) -> list[Command]:
    return [sh(_STATE, place.uuid), run("btrfs", "device", "stats", mount_point), read_notes(place)]


def _answer(spec: Call, seen: Sequence[Completed], devices: Sequence[str]) -> list[str]:
    state, stats = output(seen, 0), output(seen, 1)
    if state is None:
        return [f"The kernel does not list the btrfs file system: {said(seen, 0)}."]
    if stats is None or output(seen, 2) is None:
        return [f"The devices of btrfs cannot be asked: {said(seen, 2 if stats else 1)}."]
    lost, rebuilt = noted(seen, 2, LOST), noted(seen, 2, REBUILT)
    lines = state.stdout.split()
    used = {line.removeprefix("devices/") for line in lines if line.startswith("devices/")}
    wrong = _device_differences(used, [device.removeprefix("/dev/") for device in devices], lost, rebuilt)
    for device, what, count in _ERRORS.findall(stats.stdout):
        if int(count):
            wrong.append(f"btrfs: {device} had {count} {what.replace('_', ' ')} errors.")
    for name, kind in (("profile", "data"), ("metadata", "metadata")):
        asked = spec[name]
        now = [line.rsplit("/", 1)[1] for line in lines if line.startswith(f"allocation/{kind}/")]
        # Without enough devices for the profile, what is written meanwhile gets another.
        kept = asked in now if lost or rebuilt else now == [asked]
        if asked is not None and not kept:
            wrong.append(f"The {kind} profile is {' and '.join(now) or 'unknown'} instead of {asked}.")
    if bool(spec["quotas"]) is not ("quotas" in lines):
        wrong.append(f"Quotas are {'on' if 'quotas' in lines else 'off'}, which was not asked for.")
    return wrong


_ERRORS = re.compile(r"^\[(\S+)\]\.(\w+?)(?:_io)?_errs\s+(\d{1,18})\s*$", re.MULTILINE)


def _device_differences(
    used: set[str], below: Sequence[str], lost: frozenset[int], rebuilt: frozenset[int]
) -> list[str]:
    asked = {device for number, device in enumerate(below) if number not in lost}
    if used - asked:
        return [
            f"The file system is on {' and '.join(sorted(used))} instead of {' and '.join(sorted(asked)) or 'any'}."
        ]
    # What is rebuilt is listed or not, as the rebuild goes on.
    coming = {device for number, device in enumerate(below) if number in rebuilt}
    return [f"btrfs: the file system lost {device}." for device in sorted(asked - used - coming)]


# ---------------------------------------------------------------- what can be done to it

# $1 mount point, $2 UUID, $3 mount options, $4 a device that stays, the rest: devices to lose. The kernel lets a device
# go only while nothing is mounted, and udev would bring back one that still says that it belongs here.
_LOSE = (
    SETTLE
    + """\
mnt=$1 uuid=$2 options=$3 stays=$4; shift 4
if ! umount -- "$mnt"; then
  echo "btrfs can only lose a device before anything uses it: put the condition right above btrfs" >&2; exit 1
fi
for device; do
  found=$(wipefs --noheadings --output OFFSET,UUID -- "$device") || exit 1
  for offset in $(echo "$found" | grep -iwF -- "$uuid" | cut -d ' ' -f 1); do
    wipefs --quiet --offset "$offset" -- "$device" || exit 1
  done
  settle
  btrfs device scan --forget "$device" || exit 1
done
mount -t btrfs -o "$options" -- "$stays" "$mnt\""""
)

# $1 mount point, the rest: number and device of what is to be rebuilt. One at a time; the last is not waited for, and
# the program that carries it is no stray of the trial that ends first.
_REBUILD = """\
mnt=$1; shift
while [ $# -gt 2 ]; do btrfs replace start -B "$1" "$2" "$mnt" || exit 1; shift 2; done
env --unset=STRATA_RUN btrfs replace start "$1" "$2" "$mnt" || exit 1
# It says "Never started" for a moment.
for pause in 0.05 0.1 0.2 0.4 0.8 1 2; do
  sleep "$pause"
  now=$(btrfs replace status -1 "$mnt") || exit 1
  case $now in
    *'% done'*) exit 0 ;;
    *finished*)
      echo "the rebuild was over before anything could be measured: fill it first, as in fill(30%)" >&2
      exit 1 ;;
  esac
done
echo "the rebuild did not start ($now): look at dmesg for the reason" >&2
exit 1"""

# $1 directory of the place, $2 the mount point in it: in one piece it would find itself. Where nothing of ours is
# mounted the path is on a file system of somebody else's. The program is gone a moment after its rebuild.
_CANCEL = (
    FIND
    + """\
mnt=$1$2
findmnt --types btrfs --mountpoint "$mnt" >/dev/null || exit 0
btrfs replace cancel "$mnt" >/dev/null 2>&1
for pause in 0.05 0.1 0.2 0.4 0.8 1 2 4 8 16; do
  if [ -z "$(found "$mnt")" ]; then exit 0; fi
  sleep "$pause"
done
echo "the rebuild on $mnt does not end ($(btrfs replace status -1 "$mnt")): wait for it, then clean up again" >&2
exit 1"""
)

# $1 mount point, $2 UUID. Prints what the devices wrote, in bytes: the kernel counts sectors of 512
# (Documentation/block/stat.rst). A balance says how many chunks it moved, and not how much was in them.
_BALANCE = """\
written() { cat "/sys/fs/btrfs/$1/devices"/*/stat | awk '{ sum += $7 } END { printf "%.0f", sum * 512 }'; }
sync --file-system -- "$1" && before=$(written "$2") || exit 1
btrfs balance start --full-balance "$1" >/dev/null && sync --file-system -- "$1" || exit 1
echo "moved=$(($(written "$2") - before))\""""

# $1 mount point, $2 number.
_HOLD = 'btrfs subvolume snapshot -r "$1" "$1/.held$2" >/dev/null'

# $1 mount point. What is deleted is freed in the background.
_DROP = """\
found=
for snapshot in "$1"/.held[0-9]*; do
  if [ -d "$snapshot" ]; then btrfs subvolume delete "$snapshot" >/dev/null || exit 1; found=yes; fi
done
[ -z "$found" ] || btrfs subvolume sync "$1" >/dev/null"""

# $1 mount point, $2 UUID. What was written lately is only counted once it is on the disks.
_LOOK_AT_HELD = """\
sync --file-system -- "$1" || exit 1
held=0 shared=0
while [ -d "$1/.held$((held + 1))" ]; do held=$((held + 1)); done
if [ "$held" -gt 0 ]; then
  shared=$(btrfs filesystem du -s --raw "$1/.held1" | awk 'NR > 1 { printf "%.0f", $1 - $2 }') || exit 1
fi
room=$(cat "/sys/fs/btrfs/$2/allocation/data/bytes_used") || exit 1
printf '%s\\n' "held=$held" "shared=$shared" "room=$room\""""

# $1 mount point. Numbered on from the snapshots that are there.
_SNAPSHOT = """\
number=1
while [ -e "$1/.held-$number" ]; do number=$((number + 1)); done
btrfs subvolume snapshot -r "$1" "$1/.held-$number\""""


def _losable(spec: Call, count: int) -> list[int]:
    """The members that can be lost, the last first."""
    data = LOSABLE.get(str(spec["profile"]), 0)
    # mkfs.btrfs keeps metadata twice where it has several devices.
    metadata = LOSABLE.get(str(spec["metadata"] or "raid1"), 0)
    return list(range(count - 1, 0, -1))[: min(data, metadata)]


def _losable_of_any(spec: Call, inputs: int) -> int:
    """With raid10 of many pairs more could go, but not whichever they are."""
    return len(_losable(spec, inputs))


def _holding(mount_point: str, place: Place) -> Snapshots:
    """They go with the file system, so a visit has nothing to undo."""
    return Snapshots(
        take=lambda count: [
            Step(sh(_HOLD, mount_point, str(number)), None, f"take snapshot {number} of {count}")
            for number in range(1, count + 1)
        ],
        drop=sh(_DROP, mount_point, timeout_s=DAY_S),
        look=sh(_LOOK_AT_HELD, mount_point, place.uuid, timeout_s=DAY_S),
    )


def _can(spec: Call, devices: Sequence[str], place: Place) -> Mapping[str, Ability]:
    mount_point = mount_point_of(place)

    def lose(what: str, count: int) -> tuple[list[int], list[Step]]:
        members = choose(f"btrfs({spec['profile'] or 'single'})", _losable(spec, len(devices)), count)
        options = ",".join(["degraded", *written(OPTIONS, spec)])
        gone = [devices[member] for member in members]
        # Undone by what undoes mkfs and the mount.
        steps = [
            note(place, what, members),
            Step(
                sh(_LOSE, mount_point, place.uuid, options, devices[0], *gone),
                None,
                f"take {len(gone)} of the devices away and mount the rest",
            ),
        ]
        return members, steps

    def degrade(count: int) -> list[Step]:
        return lose(LOST, count)[1]

    def rebuild(count: int) -> list[Step]:
        members, steps = lose(REBUILT, count)
        # Devices are numbered from 1 in the order of mkfs.
        pairs = [word for member in members for word in (str(member + 1), devices[member])]
        put_back = sh(_REBUILD, mount_point, *pairs, timeout_s=DAY_S)
        cancel = sh(_CANCEL, place.dir, mount_point.removeprefix(place.dir), timeout_s=120.0)
        return [*steps, Step(put_back, cancel, "put it back empty and start the rebuild")]

    def snapshot(count: int) -> list[Step]:
        return [
            Step(sh(_SNAPSHOT, mount_point), None, f"take snapshot {number} of {count}")
            for number in range(1, count + 1)
        ]

    def balance(count: int) -> list[Step]:
        all_of_it = sh(_BALANCE, mount_point, place.uuid, timeout_s=DAY_S)
        return [Step(all_of_it, None, "write everything again") for _ in range(count)]

    return {
        "degrade": degrade,
        "rebuild": rebuild,
        "snapshot": snapshot,
        "balance": balance,
        "dedupe": lambda count: share_extents(mount_point, count),
    }


# ---------------------------------------------------------------- figures

# $1 mount point, $2 UUID. What was written lately is only counted once it is on the disks.
_SPACE = """\
sync --file-system -- "$1" && cd "/sys/fs/btrfs/$2/allocation" || exit 1
for kind in data metadata system; do echo "$(cat $kind/bytes_used) $(cat $kind/disk_used)"; done"""


def _measure(mount_point: str, place: Place) -> list[Command]:
    return [
        sh(_SPACE, mount_point, place.uuid),
        run("btrfs", "filesystem", "du", "-s", "--raw", mount_point, timeout_s=DAY_S),
        run("btrfs", "replace", "status", "-1", mount_point),
    ]


def _measured(seen: Sequence[Completed]) -> dict[str, float]:
    space, held = output(seen, 0), output(seen, 1)
    found: dict[str, float] = {}
    total = re.search(r"^\s*(\d{1,18})\s", held.stdout, re.MULTILINE) if held else None
    if total:
        found["btrfs.logical_bytes"] = float(total[1])
    rows = re.findall(r"^(\d{1,18}) (\d{1,18})$", space.stdout, re.MULTILINE) if space else []
    if len(rows) == 3:
        found["btrfs.data_bytes"] = float(rows[0][0])
        found["btrfs.physical_bytes"] = float(sum(int(on_disks) for _, on_disks in rows))
    replace = output(seen, 2)
    done = re.search(r"\b(\d{1,3}(?:\.\d{1,6})?)% done|\bfinished on\b", replace.stdout) if replace else None
    if done:
        found["btrfs.sync_pct"] = float(done[1] or 100)
    return found


DRIVER = FileSystem(
    info=LayerInfo(
        name="btrfs",
        about="The btrfs file system on one device or several.",
        params=(
            Param(
                "profile",
                ParamType.CHOICE,
                "how data are spread over the devices",
                choices=tuple(PROFILES),
                positional=True,
                group="mkfs",
            ),
            Param(
                "metadata",
                ParamType.CHOICE,
                "how metadata are spread; mkfs chooses dup on one device and raid1 on several",
                choices=tuple(PROFILES),
                group="mkfs",
            ),
            Param("quotas", ParamType.FLAG, "account for every subvolume", default=False),
            *(option.param for option in OPTIONS),
            MKFS,
        ),
        accepts=frozenset({Kind.BLOCK}),
        provides=Kind.DIRECTORY,
        many=True,
        tools={"mkfs.btrfs": "btrfs-progs", "btrfs": "btrfs-progs", **TOOLS},
        metrics=(
            Metric("btrfs.logical_bytes", "bytes", "neither", "what files and snapshots refer to, before compression"),
            Metric("btrfs.data_bytes", "bytes", "lower", "what data take, one copy of them"),
            Metric("btrfs.physical_bytes", "bytes", "lower", "what data and metadata take on all devices together"),
            Metric(
                "btrfs.sync_pct", "%", "neither", "how much of a rebuild was done after the trial; 100: it was over"
            ),
        ),
        offers=frozenset({"snapshot", "degrade", "rebuild", "balance", "dedupe"}),
    ),
    options=OPTIONS,
    exclusive=(
        ATIME,
        ("nodatacow", "datacow"),
        ("nodatacow", "compress"),
        ("nodatacow", "compress-force"),
        ("nodatasum", "compress"),
        ("nodatasum", "compress-force"),
        ("compress", "compress-force"),
        ("ssd", "nossd"),
        ("ssd_spread", "nossd"),
        ("discard", "nodiscard"),
        ("barrier", "nobarrier"),
    ),
    make=_make,
    keeping="-K",
    takes=BTRFS,
    sets_uuid=r"^-[A-Za-z]*U|^--u",
    check=_check,
    quotas="quotas",
    arity=_arity,
    usable=_usable,
    smallest=_smallest,
    unmake=_unmake,
    join=_join,
    finish=_finish,
    ask=_ask,
    answer=_answer,
    can=_can,
    holding=_holding,
    losable=_losable_of_any,
    measure=_measure,
    measured=_measured,
    anonymous=True,
)
