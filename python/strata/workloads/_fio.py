"""What the presets and a user's own job file have in common."""

from __future__ import annotations

import re

from strata.errors import Refused
from strata.gate import BEGIN, END
from strata.model import Call, Command, Facts, Kind
from strata.units import format_size
from strata.workloads import _fio_json

OLDEST = (3, 16)  # Ubuntu 20.04's, the oldest whose JSON is tested

_SECTOR_BYTES = 512  # of most disks; of those that have larger ones only the machine knows
_WITHIN = 'cd "$1" && shift && exec "$@"'
_ENDS_A_NAME = "#;"  # on its command line as in a job file, and nothing escapes them


def reasons(facts: Facts) -> list[str]:
    """Why fio cannot be used on this machine; [] = it can."""
    version = facts.tools.get("fio")
    if version is None:
        return ["fio is not installed; install it with `apt-get install fio`"]
    match = re.search(r"(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        return [f"fio {match[0]} is older than {OLDEST[0]}.{OLDEST[1]}; install a newer one"]
    return []


def block_reasons(spec: Call, *, direct: bool) -> list[str]:
    """Why fio does nothing with requests of `bs`: bypassing the page cache they are whole sectors (open(2),
    O_DIRECT)."""
    block, size = int(spec["bs"] or 0), int(spec["size"] or 0)
    found = []
    if direct and block % _SECTOR_BYTES:
        found.append(
            f"{spec.text}: bypassing the page cache bs= is a multiple of {_SECTOR_BYTES} bytes, and {block} is none; "
            "round it."
        )
    if block > size:
        found.append(
            f"{spec.text}: bs={format_size(block)} is more than size={format_size(size)}; correct one of them."
        )
    return found


def seconds(value_s: float) -> str:
    """A time as fio reads it: "30s", "1500ms"."""
    return f"{round(value_s)}s" if value_s == round(value_s) else f"{round(value_s * 1000)}ms"


def randseed(seed: int) -> int:
    """fio reads a signed 64-bit number here, and refuses a larger one."""
    return seed % (1 << 32)


def within(directory: str) -> tuple[str, ...]:
    """What to put before `fio` to start it in `directory`."""
    return ("sh", "-c", _WITHIN, "sh", directory)


def reach(path: str) -> tuple[tuple[str, ...], str]:
    """What to put before `fio`, and the value of `filename` by which it then finds `path`, and nothing else.

    fio splits the value at ":", which can be escaped, and cuts it at what cannot; then it starts in the directory.
    Raises Refused when the last part of `path` itself would be cut.
    """
    before: tuple[str, ...] = ()
    name = path
    if any(end in path for end in _ENDS_A_NAME):
        directory, _, last = path.rpartition("/")
        before, name = within(directory or "/"), f"./{last}"
    if any(end in name for end in _ENDS_A_NAME) or name != name.rstrip():
        raise Refused(f"fio cannot open {path!r}: it cuts names at '#' and ';'; give the device by another name.")
    return before, name.replace(":", "\\:")


def layout(path: str, size_bytes: int, scratch: str, seed: int, extra: tuple[str, ...]) -> Command:
    """Writes every block once, so that nothing is sparse or unwritten when the clock starts.

    Through the page cache, because that works on every file system, lets it choose extents as it does for
    any large file, and is the way on which btrfs compresses; random data, so that a stack that
    compresses or drops duplicates gains nothing that it would not gain in use.
    """
    before, filename = reach(path)
    argv = (
        *before,
        "fio",
        "--name=layout",
        f"--filename={filename}",
        "--rw=write",
        "--bs=1M",
        f"--size={format_size(size_bytes)}",
        "--ioengine=psync",
        "--direct=0",
        "--fallocate=none",
        "--end_fsync=1",
        "--refill_buffers=1",
        "--randrepeat=0",
        f"--randseed={randseed(seed)}",
        *extra,
        "--eta=never",
        f"--output={scratch}/layout.txt",
    )
    return Command(argv, timeout_s=patience_s(size_bytes))


def patience_s(size_bytes: int) -> float:
    """How long writing or reading this much may take: slower than 1 MiB/s is not a result any more."""
    return 600.0 + size_bytes / (1 << 20)


def reporting(scratch: str, runtime_s: float | None) -> tuple[str, ...]:
    """Options, without dashes, for what `_fio_json.read` needs: the 1 s series, and percentiles of the whole latency.

    fio's default percentiles leave out the submission, where some file systems do most of their work.
    """
    written = (f"{option}={prefix}" for option, prefix in log_options(scratch, runtime_s).items())
    return ("lat_percentiles=1", "clat_percentiles=0", *written, "log_avg_msec=1000", "per_job_logs=0")


def log_options(scratch: str, runtime_s: float | None, group: int = 0) -> dict[str, str]:
    """The options that name the logs of a group of jobs, 0 the first. Each has its own, for each starts at second 0."""
    return dict.fromkeys(("write_iops_log", "write_bw_log"), _log_prefix(scratch, runtime_s, group))


def logs(scratch: str, runtime_s: float | None, groups: int = 1) -> dict[str, str]:
    """Where the series of `reporting` will be: name of the collected file -> path."""
    found: dict[str, str] = {}
    for group in range(groups):
        prefix = _log_prefix(scratch, runtime_s, group)
        found[_fio_json.log_name(_fio_json.IOPS_LOG, group)] = f"{prefix}_iops.log"
        found[_fio_json.log_name(_fio_json.BANDWIDTH_LOG, group)] = f"{prefix}_bw.log"
    return found


# fio opens a device once before its jobs begin, to learn its size. When fio closes it, udev reads some 50 blocks of it:
# the jobs wait for that. As BEGIN, without the characters that end a value of fio's.
_UDEV_AT_REST = "( [ ! -S /run/udev/control ] || udevadm settle --timeout=60 || : )"


def around_jobs(kind: Kind, *, gated: bool) -> dict[str, str]:
    """Options by which each job carries out commands right before and right after its I/O, off its clock.

    `gated`: it passes the gate of its tenant itself, for fio takes long to start and to end on a slow machine.
    """
    first = f"{_UDEV_AT_REST} && " if kind is Kind.BLOCK else ""
    if gated:
        return {"exec_prerun": first + BEGIN, "exec_postrun": END}
    return {"exec_prerun": f"{first}exit 0 || :"} if first else {}


def output(scratch: str) -> tuple[str, ...]:
    return ("--eta=never", "--output-format=json", f"--output={scratch}/fio.json")


def _log_prefix(scratch: str, runtime_s: float | None, group: int) -> str:
    # fio appends to a log shared by its jobs: a second, longer run in the same scratch needs another name
    name = "series" if runtime_s is None else f"series-{seconds(runtime_s)}"
    return f"{scratch}/{name}-group{group + 1}" if group else f"{scratch}/{name}"
