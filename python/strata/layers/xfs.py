"""XFS."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from strata.errors import BadInput
from strata.layers._filesystem import (
    DAY_S,
    MKFS,
    TOOLS,
    XFS_SMALLEST_BYTES,
    FileSystem,
    mkfs_words,
    mount_point_of,
    share_extents,
)
from strata.layers._mkfs import XFS
from strata.layers._options import ATIME, COMMON, flag, number, size
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
    Step,
)
from strata.units import format_size

OPTIONS = (
    *COMMON,
    number("logbufs", "how many buffers the log has in memory", minimum=2, maximum=8),
    size("logbsize", "size of one log buffer: 32K, 64K, 128K or 256K", minimum=16384, maximum=262144, kib=True),
    size(
        "allocsize",
        "how much to allocate ahead of a growing file, a power of two",
        minimum=4096,
        maximum=1 << 30,
        kib=True,
    ),
    flag("inode64", "inodes anywhere on the disk (the default)"),
    flag("inode32", "inodes only where their numbers have 32 bits"),
    flag("largeio", "tell programs that the stripe is the best size for I/O"),
    flag(
        "nolargeio",
        "tell programs that the page is the best size for I/O (the default)",
        hidden=True,
        against=("largeio",),
    ),
    flag("swalloc", "start large allocations at a stripe"),
    flag("noalign", "do not align to the stripe"),
    flag("wsync", "create and remove files synchronously"),
    flag("discard", "tell the disk of freed blocks at once"),
    flag("nodiscard", "do not tell the disk of freed blocks (the default)", hidden=True, against=("discard",)),
    flag("filestreams", "keep the files of a directory together"),
    flag("uquota", "account and limit by user", names=("usrquota",)),
    flag("gquota", "account and limit by group", names=("grpquota",)),
    flag("pquota", "account and limit by project, as container engines do", names=("prjquota",)),
    flag("noquota", "no accounting (the default)"),
    flag("barrier", "flush the disk's cache where order matters (always so since Linux 4.19)", gone=(4, 19)),
    flag("nobarrier", "do not flush the disk's cache", gone=(4, 19)),
    flag("ikeep", "keep empty inode clusters", gone=(6, 18)),
    flag("noikeep", "return empty inode clusters to free space", gone=(6, 18)),
    flag("attr2", "attributes inside the inode where they fit", gone=(6, 18)),
    flag("noattr2", "attributes inside the inode as old kernels placed them", gone=(6, 18)),
)

FEATURES = {"reflink": "files may share blocks", "rmapbt": "map from blocks to their owners"}
"""Named because studies vary them; everything else goes through mkfs=."""

_SMALLEST_LOG_BYTES = 64 << 20  # as of xfsprogs 5.19: "Log size must be at least 64MB"
_ANY_SIZE = "--unsupported"  # with which mkfs refuses neither a small log nor a small disk

_QUOTAS = ("uquota", "gquota", "pquota")


def _make(spec: Call, uuid: str) -> list[str]:
    argv = ["mkfs.xfs", "-q", "-f", "-m", f"uuid={uuid}"]
    for name in FEATURES:
        if spec[name] is not None:
            argv += ["-m", f"{name}={int(bool(spec[name]))}"]
    if spec["logsize"] is not None:
        argv += ["-l", f"size={spec['logsize']}"]
    return argv + mkfs_words(spec)


def _check(spec: Call, facts: Facts) -> list[str]:
    reasons = []
    for name in ("logbsize", "allocsize"):
        value = int(spec[name] or 1)
        if value & (value - 1):
            reasons.append(f"XFS takes powers of two for {name}, not {format_size(value)}; round it to one.")
    log = spec["logsize"]
    if log is not None and int(log) < _SMALLEST_LOG_BYTES and _ANY_SIZE not in str(spec["mkfs"]):
        reasons.append(
            f"mkfs.xfs makes no log of less than {format_size(_SMALLEST_LOG_BYTES)}, not of {format_size(int(log))}; "
            f"make logsize= larger, or write mkfs={_ANY_SIZE}."
        )
    if quotas := [name for name in _QUOTAS if spec[name] and "xfs quotas" in facts.without]:
        reasons.append(
            f"The kernel {facts.kernel_text} was built without the quotas of XFS; leave {' and '.join(quotas)} out, or "
            "boot a kernel that has them (CONFIG_XFS_QUOTA)."
        )
    return reasons


def _smallest(spec: Call, devices: int) -> int:
    return 0 if _ANY_SIZE in str(spec["mkfs"]) else XFS_SMALLEST_BYTES


def _ask(spec: Call, device: str, mount_point: str, place: Place) -> list[Command]:
    return [run("xfs_info", mount_point)]


def _answer(spec: Call, seen: Sequence[Completed], devices: Sequence[str]) -> list[str]:
    geometry = output(seen, 0)
    if geometry is None:
        return [f"xfs_info cannot read the file system: {said(seen, 0)}."]
    wrong = []
    for name in FEATURES:
        asked = spec[name]
        if asked is not None and not re.search(rf"\b{name}={int(bool(asked))}\b", geometry.stdout):
            wrong.append(f"{name}={'on' if asked else 'off'} was asked for but xfs_info does not show it.")
    log = re.search(r"^log\b.*?\bbsize=(\d{1,9})\s+blocks=(\d{1,18})", geometry.stdout, re.MULTILINE)
    log_bytes = int(log[1]) * int(log[2]) if log else None
    if spec["logsize"] is not None and log_bytes != spec["logsize"]:
        wrong.append(f"The log has {log_bytes} bytes instead of {spec['logsize']}.")
    return wrong


def _can(spec: Call, devices: Sequence[str], place: Place) -> Mapping[str, Ability]:
    def dedupe(count: int) -> list[Step]:
        if spec["reflink"] is False:
            raise BadInput("XFS made with reflink=off cannot share blocks; leave reflink=off out.")
        return share_extents(mount_point_of(place), count)

    return {"dedupe": dedupe}


# What was written lately is only counted once it is on the disk.
_TAKEN = 'sync --file-system -- "$1" && df --output=used --block-size=1 -- "$1"'


def _measure(mount_point: str, place: Place) -> list[Command]:
    return [
        sh(_TAKEN, mount_point),
        run("du", "--summarize", "--block-size=1", "--", mount_point, timeout_s=DAY_S),
    ]


def _measured(seen: Sequence[Completed]) -> dict[str, float]:
    taken, held = output(seen, 0), output(seen, 1)
    found = {
        "xfs.logical_bytes": re.match(r"(\d{1,18})\s", held.stdout) if held else None,
        "xfs.physical_bytes": re.search(r"\s(\d{1,18})\s*\Z", taken.stdout) if taken else None,
    }
    return {name: float(match[1]) for name, match in found.items() if match}


DRIVER = FileSystem(
    info=LayerInfo(
        name="xfs",
        about="The XFS file system.",
        params=(
            *(option.param for option in OPTIONS),
            *(Param(name, ParamType.FLAG, about, group="mkfs") for name, about in FEATURES.items()),
            Param("logsize", ParamType.SIZE, "size of the log", minimum=1 << 20, group="mkfs"),
            MKFS,
        ),
        accepts=frozenset({Kind.BLOCK}),
        provides=Kind.DIRECTORY,
        tools={"mkfs.xfs": "xfsprogs", "xfs_info": "xfsprogs", "du": "coreutils", "df": "coreutils", **TOOLS},
        metrics=(
            Metric(
                "xfs.logical_bytes", "bytes", "neither", "blocks of all files, shared ones as often as they are used"
            ),
            Metric("xfs.physical_bytes", "bytes", "lower", "what is in use of the device, log and metadata included"),
        ),
        offers=frozenset({"dedupe"}),
    ),
    options=OPTIONS,
    exclusive=(
        ATIME,
        ("barrier", "nobarrier"),
        ("inode64", "inode32"),
        ("largeio", "nolargeio"),
        ("discard", "nodiscard"),
        ("ikeep", "noikeep"),
        ("attr2", "noattr2"),
        ("swalloc", "noalign"),
        ("noquota", "uquota"),
        ("noquota", "gquota"),
        ("noquota", "pquota"),
    ),
    make=_make,
    keeping="-K",
    takes=XFS,
    sets_uuid=r"uuid=",
    check=_check,
    quotas="pquota",
    smallest=_smallest,
    ask=_ask,
    answer=_answer,
    can=_can,
    measure=_measure,
    measured=_measured,
)
