"""ext4. Its tables and its journal are written when it is made, not by a thread during the measurement."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._filesystem import MKFS, TOOLS, FileSystem, mkfs_words
from strata.layers._mkfs import EXT4
from strata.layers._options import ATIME, COMMON, choice, flag, number
from strata.layers._steps import output, run, said
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place

OPTIONS = (
    *COMMON,
    choice("data", "what the journal holds and in which order data go out", "ordered", "writeback", "journal"),
    flag("barrier", "flush the disk's cache where order matters (the default)", hidden=True, against=("nobarrier",)),
    flag("nobarrier", "do not flush the disk's cache: a power cut may destroy the file system"),
    number("commit", "seconds between commits of the journal", minimum=1, maximum=900, unshown=(5,)),
    flag("delalloc", "place blocks when they are written out (the default)", hidden=True, against=("nodelalloc",)),
    flag("nodelalloc", "place blocks when they are written to the cache"),
    # Shown only by file systems made without metadata checksums; with them the journal has its own.
    flag("journal_checksum", "checksum the journal", hidden=True, against=("nojournal_checksum",)),
    flag("journal_async_commit", "do not wait for the blocks of a commit before writing its end"),
    number("journal_ioprio", "I/O priority of the journal, 0 the highest", maximum=7, hidden=True),
    flag(
        "dioread_nolock",
        "write to unwritten extents so that direct reads need no lock (the default)",
        hidden=True,
        against=("dioread_lock", "nodioread_nolock"),
    ),
    flag("dioread_lock", "take a lock for direct reads", names=("dioread_lock", "nodioread_nolock")),
    flag(
        "auto_da_alloc",
        "write out a file's data before it replaces another (the default)",
        hidden=True,
        against=("noauto_da_alloc",),
    ),
    flag("noauto_da_alloc", "do not write data out early when a file replaces another"),
    number(
        "min_batch_time", "microseconds to wait for more synchronous writes to join a commit, at least", unshown=(0,)
    ),
    number(
        "max_batch_time", "microseconds to wait for more synchronous writes to join a commit, at most", unshown=(15000,)
    ),
    number("stripe", "file system blocks that make one stripe of the array below", minimum=1),
    number("inode_readahead_blks", "inode table blocks to read ahead, a power of two", minimum=1, unshown=(32,)),
    flag("discard", "tell the disk of freed blocks at once"),
    flag("nodiscard", "do not tell the disk of freed blocks (the default)", hidden=True, against=("discard",)),
    flag(
        "block_validity", "check that data stay off metadata (the default)", hidden=True, against=("noblock_validity",)
    ),
    flag("noblock_validity", "do not check that data stay off metadata"),
    flag("nombcache", "do not cache extended attribute blocks"),
    flag("no_prefetch_block_bitmaps", "do not read block bitmaps in the background after mounting", since=(5, 12)),
    flag("prjquota", "account and limit by project, as the dir drivers of Incus and LXD do"),
    number("mb_optimize_scan", "1 or 0: search groups by free space", maximum=1, since=(5, 13), unshown=(0, 1)),
)

JOURNAL_OPTIONS = ("data", "commit", "journal_checksum", "journal_async_commit", "journal_ioprio")


def _make(spec: Call, uuid: str) -> list[str]:
    extended = ["lazy_itable_init=0", "lazy_journal_init=0"]
    rest: list[str] = []
    words = iter(mkfs_words(spec))
    for word in words:
        # mke2fs heeds only its last -E, so the user's and ours become one; the user's come last and win.
        if word == "-E":
            extended.append(next(words, ""))
        elif word.startswith("-E"):
            extended.append(word[2:])
        else:
            rest.append(word)
    if spec["prjquota"]:
        extended.insert(0, "quotatype=prjquota")
    argv = ["mkfs.ext4", "-q", "-F", "-U", uuid, "-E", ",".join(extended)]
    if spec["inodes"] is not None:
        argv += ["-N", str(spec["inodes"])]
    if spec["journal"] is False:
        argv += ["-O", "^has_journal"]
    if spec["prjquota"]:
        argv += ["-O", "quota,project"]
    return argv + rest


def _check(spec: Call, facts: Facts) -> list[str]:
    reasons = []
    if spec["journal"] is False:
        used = [name for name in JOURNAL_OPTIONS if spec[name] not in (None, False)]
        if used:
            reasons.append(f"ext4 with journal=off has no use for {' and '.join(used)}; leave one or the other out.")
    elif spec["journal_async_commit"] and spec["data"] not in ("writeback", "journal"):
        reasons.append("ext4 refuses journal_async_commit with ordered data; add data=writeback or leave it out.")
    if spec["data"] == "journal":
        used = [name for name in ("delalloc", "dioread_nolock") if spec[name]]
        if used:
            reasons.append(f"ext4 refuses data=journal with {' and '.join(used)}; leave one or the other out.")
    if spec["prjquota"] and "ext4 quotas" in facts.without:
        reasons.append(
            f"The kernel {facts.kernel_text} was built without quotas for ext4; leave prjquota out, or boot one that "
            "has them (CONFIG_QFMT_V2)."
        )
    readahead = int(spec["inode_readahead_blks"] or 1)
    if readahead & (readahead - 1):
        reasons.append(f"inode_readahead_blks={readahead} is not a power of two; round it to one.")
    return reasons


def _ask(spec: Call, device: str, mount_point: str, place: Place) -> list[Command]:
    return [run("dumpe2fs", "-h", device)]


def _answer(spec: Call, seen: Sequence[Completed], devices: Sequence[str]) -> list[str]:
    header = output(seen, 0)
    if header is None:
        return [f"dumpe2fs cannot read the file system: {said(seen, 0)}."]
    fields = dict(line.split(":", 1) for line in header.stdout.splitlines() if ":" in line)
    features = fields.get("Filesystem features", "").split()
    wrong = []
    if ("has_journal" in features) is (spec["journal"] is False):
        wrong.append(f"The file system has {'a' if 'has_journal' in features else 'no'} journal.")
    return wrong


DRIVER = FileSystem(
    info=LayerInfo(
        name="ext4",
        about="The ext4 file system; its tables and journal are written out when it is made.",
        params=(
            *(option.param for option in OPTIONS),
            Param("journal", ParamType.FLAG, "with a journal", default=True, group="mkfs"),
            Param("inodes", ParamType.INT, "how many inodes to make", minimum=16, group="mkfs"),
            MKFS,
        ),
        accepts=frozenset({Kind.BLOCK}),
        provides=Kind.DIRECTORY,
        tools={"mkfs.ext4": "e2fsprogs", "dumpe2fs": "e2fsprogs", **TOOLS},
    ),
    options=OPTIONS,
    exclusive=(
        ATIME,
        ("barrier", "nobarrier"),
        ("delalloc", "nodelalloc"),
        ("dioread_lock", "dioread_nolock"),
        ("auto_da_alloc", "noauto_da_alloc"),
        ("discard", "nodiscard"),
        ("block_validity", "noblock_validity"),
    ),
    make=_make,
    keeping="-E nodiscard",
    takes=EXT4,
    sets_uuid=r"^-[A-Za-z]*U",
    check=_check,
    ask=_ask,
    answer=_answer,
)
