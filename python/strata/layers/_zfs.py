"""What a pool and a volume in it share: what ZFS asks of a machine, its properties, snapshots."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.layers._steps import output, run, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Param, ParamType, Snapshots, Step, Value
from strata.units import format_size

TOOLS = {"zpool": "zfsutils-linux", "zfs": "zfsutils-linux"}

_COMPRESSION = re.compile(r"on|off|lz4|lzjb|zle|(gzip)(-([1-9]))?|(zstd)(-([1-9]|1[0-9]))?|zstd-fast(-[1-9]\d{0,3})?")

# ZFS shows some values under another name than they may be set by.
_SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "compression": {"gzip-6": ("gzip",), "zstd-fast-1": ("zstd-fast",)},
    "xattr": {"sa": ("sa", "on"), "on": ("on", "sa", "dir")},
}


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a dataset that has an argument of its own."""

    param: Param
    check: Callable[[Value], str | None] = lambda value: None  # what is wrong with a value, as a sentence

    @property
    def name(self) -> str:
        return self.param.name

    def text(self, value: Value) -> str:
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    def differs(self, value: Value, now: str) -> bool:
        text = self.text(value)
        return now not in (text, *_SHOWN.get(self.name, {}).get(text, ()))


def _compression(value: Value) -> str | None:
    if _COMPRESSION.fullmatch(str(value)):
        return None
    known = "on, off, lz4, zstd, zstd-1 to zstd-19, zstd-fast-N, gzip, gzip-1 to gzip-9, zle or lzjb"
    return f"ZFS knows no compression={value}; write {known}."


def power_of_two(name: str) -> Callable[[Value], str | None]:
    def check(value: Value) -> str | None:
        size = int(value)
        if size & (size - 1):
            return f"ZFS takes powers of two for {name}, not {format_size(size)}; round it to one."
        return None

    return check


def choice(name: str, about: str, *choices: str) -> Property:
    return Property(Param(name, ParamType.CHOICE, about, choices=choices, group="set"))


COMPRESSION = Property(
    Param("compression", ParamType.TEXT, "off, lz4, zstd, zstd-3, gzip-6 ...; ZFS chooses lz4", group="set"),
    _compression,
)
DEDUP = Property(Param("dedup", ParamType.FLAG, "store equal blocks once, found by a table in memory", group="set"))
COMMON = (
    COMPRESSION,
    DEDUP,
    choice("sync", "when a synchronous write is acknowledged", "standard", "always", "disabled"),
    choice("primarycache", "what is kept in memory", "all", "metadata", "none"),
    choice("secondarycache", "what is kept on cache devices", "all", "metadata", "none"),
    choice("logbias", "what synchronous writes are placed for", "latency", "throughput"),
)
"""Of file systems and volumes."""


def chosen(properties: Sequence[Property], spec: Call) -> list[tuple[Property, Value]]:
    found = []
    for each in properties:
        value = spec[each.name]
        if value is not None:
            found.append((each, value))
    return found


def zfs_reasons(spec: Call, facts: Facts, tools: Mapping[str, str], properties: Sequence[Property]) -> list[str]:
    reasons = standard_reasons(facts, tools)
    if "zfs" not in facts.modules:
        reasons.append(
            f"The kernel {facts.kernel_text} has no zfs module; install the Debian package zfs-dkms, which builds it, "
            "or use a lab that has it: add --on lab."
        )
    return reasons + [wrong for each, value in chosen(properties, spec) if (wrong := each.check(value))]


def words(param: str, spec: Call) -> dict[str, str]:
    """The pairs of an argument such as set="quota=1G copies=2". Raises BadInput with a sentence."""
    text = str(spec[param] or "")
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{param}={text!r} cannot be split into words ({error}); close the quotes.") from error
    pairs = {}
    for word in found:
        name, is_pair, value = word.partition("=")
        # A value with a slash could name a file or dataset that nobody gave us.
        if not is_pair or not value or "/" in value or not re.fullmatch(r"[a-z][a-z0-9_@:]*", name):
            raise BadInput(f"{param}= takes words like name=value without '/', and '{word}' is none; correct it.")
        pairs[name] = value
    return pairs


def word_reasons(param: str, spec: Call, taken: Mapping[str, str]) -> list[str]:
    """`taken`: properties that may not be set so, with what to do instead."""
    try:
        pairs = words(param, spec)
    except BadInput as error:
        return [str(error)]
    return [f"{param}= may not set {name}; {taken[name]}." for name in pairs if name in taken]


def ask_properties(tool: str, names: Sequence[str], of: str) -> Command:
    return run(tool, "get", "-H", "-p", "-o", "property,value", ",".join(names), of)


def properties_of(seen: Sequence[Completed], index: int) -> dict[str, str]:
    answer = output(seen, index)
    lines = answer.stdout.splitlines() if answer else []
    return {name: value for name, is_pair, value in (line.partition("\t") for line in lines) if is_pair}


def property_differences(what: str, asked: Sequence[tuple[Property, Value]], now: Mapping[str, str]) -> list[str]:
    return [
        f"{what} has {each.name}={now.get(each.name, 'unknown')} instead of {each.text(value)}."
        for each, value in asked
        if each.differs(value, now.get(each.name, ""))
    ]


# $1 dataset. Numbered on from the snapshots that it has.
_SNAPSHOT = """\
number=1
while zfs list -H -t snapshot -o name -- "$1@held-$number" >/dev/null 2>&1; do number=$((number + 1)); done
zfs snapshot -- "$1@held-$number\""""


def snapshots(dataset: str, count: int) -> list[Step]:
    """They go with the dataset, so there is nothing to undo."""
    return [
        Step(sh(_SNAPSHOT, dataset), None, f"take snapshot {number} of {count} of {dataset}")
        for number in range(1, count + 1)
    ]


# $1 dataset, $2 number.
_HOLD = 'zfs snapshot -- "$1@held$2"'

# $1 dataset. What is destroyed is freed in the background.
_DROP = """\
for snapshot in $(zfs list -H -d 1 -t snapshot -o name -- "$1" | grep '@held[0-9]*$'); do
  zfs destroy -- "$snapshot" || exit 1
done
zpool wait -t free "${1%%/*}\""""

# $1 dataset. What was written lately is only counted once it is on the disks.
_LOOK = """\
zpool sync "${1%%/*}" || exit 1
snapshots=$(zfs list -H -p -d 1 -t snapshot -o name,referenced -- "$1") || exit 1
echo "$snapshots" | awk '
  $1 ~ /@held[0-9]+$/ { held++; shared = $2 }
  END { printf "held=%d\\nshared=%.0f\\n", held, shared }'
zfs get -H -p -o value usedbydataset,usedbysnapshots -- "$1" |
  awk '{ room += $1 } END { printf "room=%.0f\\n", room }'"""


def holding(dataset: str) -> Snapshots:
    """Of this data set or volume alone, without those below it. They go with it, so a visit has nothing to undo."""
    return Snapshots(
        take=lambda count: [
            Step(sh(_HOLD, dataset, str(number)), None, f"take snapshot {number} of {count} of {dataset}")
            for number in range(1, count + 1)
        ],
        drop=sh(_DROP, dataset, timeout_s=3600.0),
        look=sh(_LOOK, dataset),
    )


def load_module() -> Step:
    """It stays loaded: a pool of somebody else's may be in use by the time we end."""
    return Step(run("modprobe", "zfs"), None, "load the zfs module", again=run("modprobe", "zfs"))
