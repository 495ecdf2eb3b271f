"""btrfs on one device or many."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.layers._filesystem import MKFS, TOOLS, FileSystem, mkfs_words
from strata.layers._options import ATIME, COMMON, Option, choice, flag, number, size
from strata.layers._steps import output, run, said, sh
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Step, Value

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

_COMPRESS = re.compile(r"(?P<how>zlib|lzo|zstd)(:(?P<level>-?\d+))?")
_LEVELS = {"zlib": (1, 9), "zstd": (1, 15)}
_DEFAULT_LEVEL = 3


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
    flag("skip_balance", "do not go on with a balance that was interrupted"),
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
        elif level is not None and not low <= level <= high:
            reasons.append(
                f"btrfs compresses with {match['how']} at levels {low} to {high}; correct {name}={spec[name]}."
            )
    return reasons


def _arity(spec: Call, inputs: int) -> list[str]:
    reasons = []
    for name, what in (("profile", "data"), ("metadata", "metadata")):
        profile = spec[name]
        fewest = PROFILES[str(profile)][0] if profile is not None else 1
        if inputs < fewest:
            reasons.append(
                f"btrfs keeps {what} as {profile} on at least {fewest} devices and here {_count(inputs)}; "
                f"give it {fewest} or choose another profile."
            )
    return reasons


def _count(n: int) -> str:
    return "is one" if n == 1 else f"are {n}"


def _usable(spec: Call, sizes_bytes: Sequence[int]) -> int:
    profile = str(spec["profile"] or "single")
    copies, parity = PROFILES[profile][1], PARITY.get(profile, 0)
    share = (len(sizes_bytes) - parity) / len(sizes_bytes) if sizes_bytes else 0.0
    return int(sum(sizes_bytes) * share / copies)


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
    return [Step(run("btrfs", "device", "scan", *devices), None, "tell the kernel of the devices")]


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


def _ask(spec: Call, device: str, mount_point: str, uuid: str) -> list[Command]:
    return [sh(_STATE, uuid)]


def _answer(spec: Call, seen: Sequence[Completed], devices: Sequence[str]) -> list[str]:
    state = output(seen, 0)
    if state is None:
        return [f"The kernel does not list the btrfs file system: {said(seen, 0)}."]
    lines = state.stdout.split()
    wrong = []
    used = {line.removeprefix("devices/") for line in lines if line.startswith("devices/")}
    below = {device.removeprefix("/dev/") for device in devices}
    if used != below:
        wrong.append(
            f"The file system is on {' and '.join(sorted(used)) or 'no device'} instead of "
            f"{' and '.join(sorted(below)) or 'any'}."
        )
    for name, kind in (("profile", "data"), ("metadata", "metadata")):
        asked = spec[name]
        now = [line.rsplit("/", 1)[1] for line in lines if line.startswith(f"allocation/{kind}/")]
        if asked is not None and now != [asked]:
            wrong.append(f"The {kind} profile is {' and '.join(now) or 'unknown'} instead of {asked}.")
    if bool(spec["quotas"]) is not ("quotas" in lines):
        wrong.append(f"Quotas are {'on' if 'quotas' in lines else 'off'}, which was not asked for.")
    return wrong


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
    sets_uuid=r"^-[A-Za-z]*U|^--u",
    check=_check,
    arity=_arity,
    usable=_usable,
    unmake=_unmake,
    join=_join,
    finish=_finish,
    ask=_ask,
    answer=_answer,
    anonymous=True,
)
