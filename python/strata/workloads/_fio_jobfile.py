"""A user's fio job file: what could write elsewhere is refused, and the rest is pointed at the target. Pure.

A job file can name any device, run any program and reach other machines. So this is a list of what is
allowed: a value with a slash in it, and an I/O engine that is not known to stay in its file, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata.units import parse_size

_LONGEST = 1000  # fio reads a longer line (4096) as several, so that its end would be an option of its own

# engines whose I/O goes to `filename` or the files that fio makes in `directory`, or nowhere
_ENGINES = (
    *("cpuio", "falloc", "filecreate", "filedelete", "filestat", "ftruncate", "io_uring", "libaio", "mmap", "null"),
    *("posixaio", "psync", "pvsync", "pvsync2", "splice", "sync", "vsync"),
)
# a slash is no path in these
_SLASHES = frozenset({"bssplit", "cmdprio_bssplit", "description", "random_distribution"})
_REFUSED: Mapping[str, str] = {
    "directory": "Strata sets it to the target; delete the line",
    "opendir": "it would do I/O to every file of a directory; delete the line",
    "read_iolog": "a recorded pattern names files of its own; delete the line",
    "write_iolog": "delete the line",
    "replay_redirect": "it sends I/O to a device of its own; delete the line",
    "merge_blktrace_file": "delete the line",
    "exec_prerun": "it starts a program; use a `command:` workload for that",
    "exec_postrun": "it starts a program; use a `command:` workload for that",
    "program": "it starts a program; use a `command:` workload for that",
    "profile": "it sets files of its own; write its options out",
    "cgroup": "it would leave control groups behind; delete the line",
}
# what Strata needs to read the results; what the file says of these is left out
_OURS = frozenset(
    {
        *("group_reporting", "unified_rw_reporting", "lat_percentiles", "clat_percentiles", "percentile_list"),
        *("write_iops_log", "write_bw_log", "per_job_logs", "log_avg_msec", "log_max_value", "log_unix_epoch"),
        *("log_alternate_epoch", "log_compression", "log_store_compressed"),
    }
)
_SEQUENTIAL = frozenset({"stonewall", "wait_for_previous", "wait_for"})


@dataclass(frozen=True, slots=True)
class Option:
    line: int  # 1-based
    key: str
    value: str | None  # None: a bare flag

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True)
class Section:
    line: int
    name: str
    options: tuple[Option, ...]

    @property
    def is_global(self) -> bool:
        return self.name.startswith("global")  # fio looks at no more than that


def parse(text: str) -> tuple[list[Section], list[str]]:
    """The sections, and a sentence for each line that is neither section, option nor comment."""
    sections: list[tuple[int, str, list[Option]]] = []
    problems: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if len(line) > _LONGEST:
            problems.append(f"line {number}: it is longer than {_LONGEST} characters; shorten it")
            continue
        if line.startswith("["):
            name, closed, _ = line[1:].partition("]")
            if not closed:
                problems.append(f"line {number}: '{line}' has no closing bracket; write [name]")
            sections.append((number, name, []))
            continue
        key, equals, value = line.partition("=")
        option = Option(number, key.strip(), value.strip() if equals else None)
        if option.key.startswith("include"):
            problems.append(f"line {number}: include reads another file; put its lines here")
        elif not sections:
            problems.append(f"line {number}: '{option}' stands before the first [section]; put it into [global]")
        else:
            sections[-1][2].append(option)
    found = [Section(line, name, tuple(options)) for line, name, options in sections]
    if not any(not section.is_global for section in found):
        problems.append("there is no job in it; add a section such as [job]")
    return found, problems


def refusals(text: str) -> list[str]:
    """Why this job file must not run, every reason at once, with its line; [] = it stays in its target."""
    sections, problems = parse(text)
    if "${" in text:
        problems.append("it takes values from the environment with ${...}; write them out")
    for section in sections:
        if "/" in section.name:
            problems.append(f"line {section.line}: [{section.name}] would become a path; use a name without a slash")
        for option in section.options:
            reason = _refusal(option)
            if reason:
                problems.append(f"line {option.line}: {option}: {reason}")
    return problems


def _refusal(option: Option) -> str | None:
    value = option.value or ""
    if option.key in _REFUSED:
        return _REFUSED[option.key]
    if option.key == "ioengine" and value not in _ENGINES:
        return f"this engine may work outside the target; use one of {', '.join(_ENGINES)}"
    if option.key == "filename" and any(name in ("", ".", "..") for name in value.split(":")):
        return "this is no file of the target; give a plain name, or delete the line"
    if "/" in value and option.key not in _SLASHES:
        if option.key == "filename":
            return "it would write outside the target; delete the line, or give a plain name"
        return "a path may lead outside the target; delete the line, or give a plain name"
    return None


def aimed(text: str, ours: Mapping[str, str | None]) -> str:
    """The job file with `ours` (option -> value, None for a flag) set in every job, in place of what it says itself."""
    drop = _OURS | set(ours)
    # fio puts a file into the directory that is known when it reads `filename`, and else where it was started.
    lines = ["[global]", f"directory={ours['directory']}"] if "directory" in ours else []
    for section in parse(text)[0]:
        lines.append(f"[{section.name}]")
        lines += [str(option) for option in section.options if option.key not in drop]
        if not section.is_global:
            lines += [key if value is None else f"{key}={value}" for key, value in ours.items()]
    return "\n".join(lines) + "\n"


def jobs(text: str) -> Iterator[dict[str, str | None]]:
    """The options of each job, those of the [global] sections before it included."""
    defaults: dict[str, str | None] = {}
    for section in parse(text)[0]:
        own = {option.key: option.value for option in section.options}
        if section.is_global:
            defaults |= own
        else:
            yield defaults | own


def groups(text: str) -> int:
    """How many groups of jobs follow one another; 1 when all run at once."""
    return 1 + sum(bool(_SEQUENTIAL & job.keys()) for job in list(jobs(text))[1:])


def seeded(text: str) -> bool:
    return any({"randseed", "randrepeat", "allrandrepeat"} & job.keys() for job in jobs(text))


def buffered(text: str) -> bool:
    """True when any job goes through the page cache, which is fio's default."""
    return any(not (_on(job, "direct") or job.get("buffered") == "0") for job in jobs(text))


def data_bytes(text: str) -> int:
    """How much room its files take, as far as the file says so in plain sizes."""
    named: dict[str, int] = {}
    total = 0
    for job in jobs(text):
        size = _size(job.get("size")) or _size(job.get("filesize")) * _count(job.get("nrfiles"))
        filename = job.get("filename")
        if filename is None:
            total += size * _count(job.get("numjobs"))
        else:
            named[filename] = max(size, named.get(filename, 0))  # jobs share the file
    return total + sum(named.values())


def _on(job: Mapping[str, str | None], key: str) -> bool:
    return key in job and job[key] in (None, "1")


def _size(text: str | None) -> int:
    try:
        return parse_size(text or "0")
    except ValueError:
        return 0


def _count(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1
