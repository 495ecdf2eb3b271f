"""F2FS."""

from __future__ import annotations

from strata.layers._filesystem import MKFS, TOOLS, FileSystem, mkfs_words
from strata.layers._mkfs import F2FS
from strata.layers._options import ATIME, COMMON, choice, flag, number
from strata.model import Call, Facts, Kind, LayerInfo

# Not every kernel shows what was turned off, so it is enough that the opposite is not shown.
OPTIONS = (
    *COMMON,
    choice("background_gc", "when to collect garbage in the background", "on", "off", "sync"),
    flag("gc_merge", "let the background thread collect garbage for programs too", since=(5, 13)),
    flag("nogc_merge", "let programs collect garbage themselves", hidden=True, against=("gc_merge",), since=(5, 13)),
    flag("discard", "tell the disk of freed blocks when there is little to do"),
    flag("nodiscard", "do not tell the disk of freed blocks", hidden=True, against=("discard",)),
    choice("discard_unit", "how much is told of at once", "block", "segment", "section", since=(5, 15)),
    choice("mode", "where to write: adaptive, or at the log's end only", "adaptive", "lfs"),
    choice("alloc_mode", "how to choose free segments", "default", "reuse"),
    choice("fsync_mode", "what fsync promises", "posix", "strict", "nobarrier"),
    number("active_logs", "logs written side by side: 2, 4 or 6", minimum=2, maximum=6),
    flag("inline_xattr", "extended attributes inside the inode"),
    flag("noinline_xattr", "extended attributes in blocks of their own", hidden=True, against=("inline_xattr",)),
    flag("inline_data", "small files inside the inode"),
    flag("noinline_data", "small files in blocks of their own", hidden=True, against=("inline_data",)),
    flag("inline_dentry", "small directories inside the inode"),
    flag("noinline_dentry", "small directories in blocks of their own", hidden=True, against=("inline_dentry",)),
    flag("flush_merge", "make one cache flush serve several that wait"),
    flag("noflush_merge", "flush the cache for each that asks", hidden=True, against=("flush_merge",)),
    flag(
        "barrier",
        "flush the disk's cache where order matters (the default)",
        hidden=True,
        against=("nobarrier",),
        since=(6, 3),
    ),
    flag("nobarrier", "do not flush the disk's cache: a power cut may destroy the file system"),
    flag("fastboot", "mount sooner after a clean unmount"),
    flag("extent_cache", "cache where files lie"),
    flag("noextent_cache", "do not cache where files lie", hidden=True, against=("extent_cache",)),
    flag("age_extent_cache", "tell hot from cold blocks by their age", since=(6, 2)),
    flag("data_flush", "write data out with every checkpoint"),
    flag("checkpoint_merge", "let a thread write checkpoints for several that wait", since=(5, 12)),
    flag(
        "nocheckpoint_merge",
        "let everyone write checkpoints themselves",
        hidden=True,
        against=("checkpoint_merge",),
        since=(5, 13),
    ),
    flag("atgc", "choose what to clean by age", since=(5, 10)),
    choice("memory", "how much memory it may use", "normal", "low", since=(5, 19)),
    choice(
        "compress_algorithm",
        "how files are compressed, if made so by mkfs",
        "lzo",
        "lz4",
        "zstd",
        "lzo-rle",
        since=(5, 6),
    ),
    number("compress_log_size", "log2 of the pages that are compressed together", minimum=2, maximum=8, since=(5, 6)),
    flag("compress_chksum", "checksum what was compressed", since=(5, 11)),
)


def _make(spec: Call, uuid: str) -> list[str]:
    return ["mkfs.f2fs", "-q", "-f", "-U", uuid, *mkfs_words(spec)]


def _check(spec: Call, facts: Facts) -> list[str]:
    if spec["active_logs"] not in (None, 2, 4, 6):
        return [f"f2fs writes 2, 4 or 6 logs side by side; correct active_logs={spec['active_logs']}."]
    return []


DRIVER = FileSystem(
    info=LayerInfo(
        name="f2fs",
        about="The F2FS file system, made for flash.",
        params=(*(option.param for option in OPTIONS), MKFS),
        accepts=frozenset({Kind.BLOCK}),
        provides=Kind.DIRECTORY,
        tools={"mkfs.f2fs": "f2fs-tools", **TOOLS},
    ),
    options=OPTIONS,
    exclusive=(
        ATIME,
        ("gc_merge", "nogc_merge"),
        ("discard", "nodiscard"),
        ("inline_xattr", "noinline_xattr"),
        ("inline_data", "noinline_data"),
        ("inline_dentry", "noinline_dentry"),
        ("flush_merge", "noflush_merge"),
        ("barrier", "nobarrier"),
        ("extent_cache", "noextent_cache"),
        ("checkpoint_merge", "nocheckpoint_merge"),
    ),
    make=_make,
    keeping="-t 0",
    takes=F2FS,
    sets_uuid=r"^-[A-Za-z]*U",
    check=_check,
)
