"""Options that `mkfs=` may hold, by program. Everything else is refused: a word that is no option names a device to
format, and some options name files or devices that nobody gave to Strata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from getopt import GetoptError, gnu_getopt

_SIZE = r"\d{1,20}[a-zA-Z%]{0,3}"
_NUMBER = r"\d{1,20}(\.\d{1,9})?"
_WORDS = r"[A-Za-z0-9_.,:^-]+"
_LABEL = r"[^/\x00-\x1f\x7f]*"


@dataclass(frozen=True, slots=True)
class Options:
    """Of one mkfs program. Names of one letter are short options, longer ones are long options.

    `allowed`: None, an option without a value; a pattern of its value; or the names of which its value, a list of
    `name` and `name=value`, may consist. `naming`: options that are refused, with what they name. `own`: of an option,
    a pattern of values that an argument of the layer is for, and how to write that: what documents say of the argument
    holds, and what is hidden here nobody is warned of.
    """

    program: str
    allowed: Mapping[str, str | frozenset[str] | None]
    naming: Mapping[str, str]
    own: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def reasons(self, words: Sequence[str]) -> list[str]:
        """Why these words may not be passed on; [] when each is an allowed option or the value of one."""
        every = {**self.allowed, **dict.fromkeys(self.naming, "")}
        short = "".join(name + ("" if kind is None else ":") for name, kind in every.items() if len(name) == 1)
        long = [name + ("" if kind is None else "=") for name, kind in every.items() if len(name) > 1]
        # A program takes the beginning of a long option for all of it, and has more of them than are listed here.
        unknown = [
            word for word in words if word.startswith("--") and word[2:].partition("=")[0] not in self._long_names()
        ]
        if unknown:
            return [self._unknown(word) for word in unknown]
        try:
            found, rest = gnu_getopt(list(words), short, long)
        except GetoptError as error:
            name = error.opt if len(error.opt) > 1 else f"-{error.opt}"
            if "requires argument" in error.msg or "must not have" in error.msg:
                return [f"mkfs= has an option of {self.program} that is not complete ({error.msg}); correct it."]
            return [self._unknown(name)]
        reasons = [
            f"mkfs= takes options only, and '{word}' is neither an option of {self.program} nor the value of one: it "
            "would be taken for a device to format; leave it out."
            for word in rest
        ]
        for name, value in found:
            reasons += self._reasons_against(name, value)
        return reasons

    def _long_names(self) -> set[str]:
        return {name for name in (*self.allowed, *self.naming) if len(name) > 1}

    def _unknown(self, name: str) -> str:
        known = ", ".join(f"{'-' if len(each) == 1 else '--'}{each}" for each in self.allowed)
        return f"mkfs= does not take '{name}' for {self.program}; it takes {known}. Leave it out."

    def _reasons_against(self, name: str, value: str) -> list[str]:
        letter = name.lstrip("-")
        if letter in self.naming:
            return [f"mkfs= may not name files or devices, and {name} names {self.naming[letter]}; leave it out."]
        own = self.own.get(letter)
        if own is not None and re.search(own[0], value):
            return [f"mkfs= may not hold {name} {value} for {self.program}; write {own[1]} instead."]
        kind = self.allowed[letter]
        if isinstance(kind, frozenset):
            parts = [part.partition("=") for part in value.split(",")]
            wrong = [part[0] for part in parts if part[0] not in kind or not re.fullmatch(r"[^/\s]*", part[2])]
            known = ", ".join(sorted(kind))
            return [
                f"mkfs= does not take '{part}' in {name} of {self.program}; {name} takes {known}." for part in wrong
            ]
        if kind is not None and not re.fullmatch(kind, value):
            return [f"mkfs= has '{value}' as the value of {name} of {self.program}, which is none; correct it."]
        return []


# mke2fs(8) of e2fsprogs 1.47. Not -F, -n and -S: whether a file system is made, and on what, is not up to mkfs=.
EXT4 = Options(
    "mkfs.ext4",
    {
        **dict.fromkeys("DKcjqv"),
        **dict.fromkeys("bCIN", _SIZE),
        **dict.fromkeys("gGimr", _NUMBER),
        **dict.fromkeys("eoOT", _WORDS),
        "L": _LABEL,
        "J": frozenset({"size", "fast_commit_size", "location"}),
        "E": frozenset(
            [
                "assume_storage_prezeroed",
                "desc_size",
                "discard",
                "encoding",
                "encoding_flags",
                "hash_seed",
                "lazy_itable_init",
                "lazy_journal_init",
                "mmp_update_interval",
                "no_copy_xattrs",
                "nodiscard",
                "num_backup_sb",
                "orphan_file_size",
                "packed_meta_blocks",
                "quotatype",
                "resize",
                "revision",
                "root_owner",
                "root_perms",
                "stride",
                "stripe-width",
                "stripe_width",
                "test_fs",
            ]
        ),
    },
    {
        "d": "a directory or archive to copy",
        "l": "a file of bad blocks",
        "M": "a mount point",
        "z": "a file for undoing",
    },
    # mke2fs knows features by name in any case, by number, and "none" for leaving out all.
    {"O": ("(?i)has_journal|none|feature_", "the argument journal of ext4")},
)

# mkfs.xfs(8) of xfsprogs 6.1 to 6.13. Not -N and -C, for the same reason.
XFS = Options(
    "mkfs.xfs",
    {
        **dict.fromkeys("Kfq"),
        "unsupported": None,
        "L": _LABEL,
        "b": frozenset({"log", "size"}),
        "d": frozenset(
            [
                "agcount",
                "agsize",
                "concurrency",
                "cowextsize",
                "daxinherit",
                "extszinherit",
                "noalign",
                "projinherit",
                "rtinherit",
                "sectlog",
                "sectsize",
                "size",
                "su",
                "sunit",
                "sw",
                "swidth",
            ]
        ),
        "i": frozenset(
            ["align", "attr", "exchange", "log", "maxpct", "nrext64", "perblock", "projid32bit", "size", "sparse"]
        ),
        "l": frozenset(["agnum", "concurrency", "lazy-count", "sectlog", "sectsize", "size", "su", "sunit", "version"]),
        "m": frozenset(["autofsck", "bigtime", "crc", "finobt", "inobtcount", "metadir", "reflink", "rmapbt"]),
        "n": frozenset(["ftype", "log", "parent", "size", "version"]),
        "s": frozenset(["log", "sectlog", "sectsize", "size"]),
    },
    {"c": "a file of options", "p": "a file of files to make", "r": "a device for real-time data"},
)

# mkfs.btrfs(8) of btrfs-progs 6.2 to 6.14.
BTRFS = Options(
    "mkfs.btrfs",
    {
        **dict.fromkeys(("M", "mixed", "K", "nodiscard", "f", "force", "q", "quiet", "v", "verbose")),
        **dict.fromkeys(("b", "byte-count", "n", "nodesize", "s", "sectorsize"), _SIZE),
        **dict.fromkeys(("d", "data", "m", "metadata", "csum", "checksum"), _WORDS),
        **dict.fromkeys(("O", "features", "R", "runtime-features"), _WORDS),
        **dict.fromkeys(("L", "label"), _LABEL),
    },
    {
        **dict.fromkeys(("r", "rootdir"), "a directory to copy"),
        **dict.fromkeys(("u", "subvol"), "a directory to copy"),
        "inode-flags": "a file",
    },
    {
        **dict.fromkeys(("d", "data"), ("", "a profile such as btrfs(raid1)")),
        **dict.fromkeys(("m", "metadata"), ("", "the argument metadata of btrfs")),
    },
)

# mkfs.f2fs(8) of f2fs-tools 1.15 and 1.16.
F2FS = Options(
    "mkfs.f2fs",
    {
        **dict.fromkeys("imqrf"),
        **dict.fromkeys("adoswtTz", _NUMBER),
        **dict.fromkeys("CeEgOR", _WORDS),
        "l": _LABEL,
    },
    {"c": "further devices"},
)
