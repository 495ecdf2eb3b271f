"""What the programs of a trial wrote, read for the second time (strata/analysis/recomputed.py).

It shares no code with the workloads, which read it first. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MIB = 1024 * 1024


@dataclass(slots=True)
class Program:
    """What one load says of itself."""

    figures: dict[str, float] = field(default_factory=dict)
    courses: dict[str, list[float]] = field(default_factory=dict)  # values at 1 s, of figures that lose their warm-up
    read_bytes: int | None = None
    written_bytes: int | None = None


def of_load(part: Mapping[str, Any]) -> Program:
    """The figures that the program of a load left. `part`: strata/run/trials/records.py."""
    program = Program()
    family = str(part["workload"]).partition("(")[0].partition("@")[0]
    files = part["files"]
    if "fio.json" in files:
        _fio(program, files)
    elif family == "guest/fio":
        _fio(program, {"fio.json": part["stdout"]})
    elif "wml.json" in files:
        _wml(program, json.loads(files["wml.json"]))
    elif "batch.json" in files:
        phases = {phase["name"]: phase for phase in json.loads(files["batch.json"])["phases"]}
        _OF_ENGINES[family.partition("/")[0] if family.startswith("instance/") else family](program, part, phases)
    elif family in _OTHERS:
        _OTHERS[family](program, part)
    elif family.partition(":")[0] in _OTHERS:
        _OTHERS[family.partition(":")[0]](program, part)
    return program


def _wall_s(part: Mapping[str, Any]) -> float:
    """As strata-engine measured it, in the last line of its samples."""
    return float(json.loads(part["samples"].splitlines()[-1])["wall_s"])


# ---------------------------------------------------------------- fio, wml, databases, dd


def _fio(program: Program, files: Mapping[str, str]) -> None:
    text = files["fio.json"]
    report = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    if any(name.startswith("group") for name in files):
        return  # groups of jobs that follow each other have a time of their own each
    rates: dict[str, float] = {}
    seconds = 0.0
    moved = {"read": 0, "write": 0}
    for job in report["jobs"]:
        for way in moved:
            side = job[way]
            moved[way] += side["io_bytes"]
            seconds = max(seconds, side["runtime"] / 1000)
            if side["total_ios"]:
                for name, value in ((f"{way}_iops", side["iops"]), (f"{way}_bandwidth", side["bw_bytes"] / _MIB)):
                    rates[name] = rates.get(name, 0.0) + value
    for kind in ("iops", "bandwidth"):
        rates[kind] = sum(value for name, value in rates.items() if name.endswith(f"_{kind}"))
    program.figures |= {**rates, "runtime_s": seconds}
    program.read_bytes, program.written_bytes = moved["read"], moved["write"]
    if len(report["jobs"]) == 1:
        program.figures |= dict(_fio_times(report["jobs"][0]))
    ways: dict[str, str | None] = {"": None, "read_": "0", "write_": "1"}
    for name, log, scale in (("iops", "iops.log", 1.0), ("bandwidth", "bw.log", 1024.0)):
        lines = [line.split(", ") for line in files.get(log, "").splitlines()]
        for prefix, wanted in ways.items():
            course = [0.0] * max(math.ceil(seconds - 0.1) - 1, 0)
            for at, value, direction, *_ in lines:
                place = max(1, round(int(at) / 1000)) - 1
                if wanted in (None, direction) and place < len(course):
                    course[place] += float(value) / scale
            program.courses[f"{prefix}{name}"] = course


def _fio_times(job: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield from (("cpu_usr_pct", job["usr_cpu"]), ("cpu_sys_pct", job["sys_cpu"]))
    for way in ("read", "write", "sync"):
        side = job.get(way) or {}
        times = side.get("lat_ns") or {}
        if times.get("max"):
            steps = times.get("percentile") or (side.get("clat_ns") or {}).get("percentile") or {}
            yield from ((f"{way}_lat_p{float(p):g}_ms", min(at, times["max"]) / 1e6) for p, at in steps.items())
            yield from ((f"{way}_lat_{what}_ms", times[what] / 1e6) for what in ("mean", "max"))


def _wml(program: Program, report: Mapping[str, Any]) -> None:
    summary = report["summary"]
    times = {f"lat_{name.replace('_', '.')}_ms": at for name, at in summary["latency_ms"].items()}
    given = {
        **times,
        "ops": summary["per_s"],
        "read_ops": summary["reads_per_s"],
        "write_ops": summary["writes_per_s"],
        "bandwidth": summary["bytes_per_s"] / _MIB,
        "lat_mean_ms": summary["mean_ms"],
        "cpu_us_per_op": report["cpu"]["us_per_op"],
    }
    program.figures |= {name: value for name, value in given.items() if value is not None}
    program.courses = {"ops": summary["count_series"], "bandwidth": [size / _MIB for size in summary["bytes_series"]]}
    program.read_bytes, program.written_bytes = summary["read_bytes"], summary["written_bytes"]


def _sysbench(program: Program, part: Mapping[str, Any]) -> None:
    names = {"transactions": "tps", "queries": "qps", "ignored errors": "errors_per_s"}
    times = {"avg": "latency_mean_ms", "95th percentile": "latency_p95_ms", "max": "latency_max_ms"}
    for line in part["stdout"].splitlines():
        label, colon, rest = line.strip().partition(":")
        if colon and label in names and "(" in rest:
            program.figures[names[label]] = float(rest.split("(")[1].split()[0])
        elif colon and label in times:
            program.figures[times[label]] = float(rest)
        elif line.startswith("[ ") and " tps: " in line:
            program.courses.setdefault("tps", []).append(float(line.split(" tps: ")[1].split()[0]))


def _dd(program: Program, part: Mapping[str, Any]) -> None:
    """`532676608 bytes (533 MB, 508 MiB) copied, 1.5 s, 355 MB/s`"""
    program.figures["duration_s"] = _wall_s(part)
    for size, took in re.findall(r"^(\d+) bytes? .*copied, ([0-9.e-]+) s,", part["stderr"], re.MULTILINE):
        program.figures["throughput"] = int(size) / _MIB / _wall_s(part)
        program.figures["dd_throughput"] = int(size) / _MIB / float(took)
        program.read_bytes, program.written_bytes = 0, int(size)


def _whole_time(name: str) -> Callable[[Program, Mapping[str, Any]], None]:
    def read(program: Program, part: Mapping[str, Any]) -> None:
        program.figures[name] = _wall_s(part)

    return read


def _words(program: Program, part: Mapping[str, Any]) -> None:
    """Lines of a name and a number."""
    for line in part["stdout"].splitlines():
        name, _, value = line.partition(" ")
        if name.endswith("_s"):
            program.figures[name] = float(value)


def _boot(program: Program, part: Mapping[str, Any]) -> None:
    program.figures["boot_s"] = float(part["stdout"].split()[0])


def _vagrant(program: Program, part: Mapping[str, Any]) -> None:
    at = {line.partition("=")[0]: float(line.partition("=")[2]) for line in part["files"]["times"].splitlines()}
    program.figures |= {"up_s": at["up"] - at["begin"], "destroy_s": at["gone"] - at["asked"]}
    program.figures["machines"] = sum(",state," in line for line in part["files"]["status"].splitlines())


def _script(program: Program, part: Mapping[str, Any]) -> None:
    own = json.loads(part["files"].get("output.json") or "{}")
    program.figures |= {name: each["value"] if isinstance(each, dict) else each for name, each in own.items()}
    program.figures["duration_s"] = _wall_s(part)


_OTHERS: Mapping[str, Callable[[Program, Mapping[str, Any]], None]] = {
    "postgres/oltp-complex": _sysbench,
    "postgres/prepare": _words,
    "dd/seqwrite-sync": _dd,
    "null": _whole_time("duration_s"),
    "command": _script,
    "guest/boot": _boot,
    "guest/install": _whole_time("install_s"),
    "guest/debian-installer": _words,
    "vagrant": _vagrant,
}

# ---------------------------------------------------------------- phases of a container engine

_Phases = Mapping[str, Mapping[str, Any]]


def _took(phase: Mapping[str, Any]) -> list[float]:
    return sorted(command["took_s"] for command in phase["commands"])


def _middle(ordered: Sequence[float]) -> float:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _operations(program: Program, phases: _Phases, *names: str) -> None:
    for name in names:
        ms = [1000 * each for each in _took(phases[name])]
        program.figures |= {f"{name}_s": phases[name]["wall_s"], f"{name}_mean_ms": math.fsum(ms) / len(ms)}
        # The smallest that at least this share of them does not pass.
        for label, share in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100)):
            program.figures[f"{name}_{label}_ms"] = next(
                each for rank, each in enumerate(ms, 1) if 100 * rank >= share * len(ms)
            )


def _lifecycle(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    names = ("create", "start", "stop", "remove")
    _operations(program, phases, *names)
    program.figures["settle_s"] = phases["settle"]["wall_s"]
    program.figures["lifecycle_s"] = math.fsum(phases[name]["wall_s"] for name in (*names, "settle"))


def _density(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    _operations(program, phases, "start")
    count = len(phases["start"]["commands"])
    room = [_numbers(phases[f"room {when}"]) for when in ("before", "after")]
    memory = [_numbers(phases[f"memory {when}"]) for when in ("before", "after")]
    program.figures["bytes_per_container"] = (room[1][0] - room[0][0]) / count
    if all(len(each) > 1 for each in room) and room[1][1] != room[0][1]:
        program.figures["inodes_per_container"] = (room[1][1] - room[0][1]) / count
    if all(memory):
        program.figures["memory_per_container"] = (memory[0][0] - memory[1][0]) / count


def _numbers(phase: Mapping[str, Any]) -> list[float]:
    """What its only command printed, up to the first word that is no number."""
    numbers = []
    for word in phase["commands"][0]["stdout"].split():
        if not re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", word):
            break
        numbers.append(float(word))
    return numbers


def _build(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    _operations(program, phases, "builds")
    program.figures["build_s"] = _middle(_took(phases["builds"]))


def _write(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    _operations(program, phases, "copy_up", "small")
    program.figures["write_s"] = phases["copy_up"]["wall_s"] + phases["small"]["wall_s"]
    files = len(phases["small"]["commands"]) * part["arguments"]["small"]
    program.figures["small_files_per_s"] = files / phases["small"]["wall_s"]


def _outgrow(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    grown, *said = phases["grow"]["commands"][0]["stdout"].splitlines()
    size, base = int(grown), phases["base"]["commands"][0]["stdout"].strip()
    without, before, after = (_numbers(phases[f"room {when}"])[0] for when in ("without", "before", "after"))
    refused = any(line.strip() for line in said[:1])
    kept_there = after - before >= 0.8 * size or (base.isdecimal() and before - without >= 0.8 * int(base))
    program.figures |= {
        "grown_bandwidth": size / phases["grow"]["wall_s"] / _MIB,
        "grown_bytes": size,
        "refused": float(refused),
        "storage_path_honoured": float(kept_there),
    }
    if base.isdecimal():
        program.figures["base_size_bytes"] = int(base)
        if size > int(base) or (refused and 2 * size >= int(base)):
            program.figures["base_size_honoured"] = float(size <= int(base))
    program.written_bytes = size


def _neighbours(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    asked = part["arguments"]
    program.read_bytes = program.written_bytes = 0
    for way in ("direct", "buffered"):
        texts = [text for name, text in part["files"].items() if name.startswith(f"{way}-")]
        if not texts:
            continue
        each = [Program() for _ in texts]
        for one, text in zip(each, texts, strict=True):
            _fio(one, {"fio.json": text})
        program.read_bytes += sum(one.read_bytes or 0 for one in each)
        program.written_bytes += sum(one.written_bytes or 0 for one in each)
        rates = sorted(one.figures["bandwidth"] for one in each)
        total = math.fsum(rates)
        given = {
            "bandwidth": total,
            "iops": math.fsum(one.figures["iops"] for one in each),
            "p50_bandwidth": _middle(rates),
            "min_bandwidth": rates[0],
            "max_bandwidth": rates[-1],
            "fairness": total / len(rates) * total / math.fsum(rate * rate for rate in rates),
        }
        limits = [(asked.get(name), figure, unit) for name, figure, unit in
                  (("bps", "bandwidth", _MIB), ("iops", "iops", 1))]  # fmt: skip
        binding = [(limit, figure, unit) for limit, figure, unit in limits if limit is not None]
        if binding:
            shares = sorted(max(one.figures[figure] * unit / limit for limit, figure, unit in binding) for one in each)
            given["limit_ratio"] = _middle(shares)
            given["limit_held"] = len([share for share in shares if share <= 1.1]) / len(shares)
        given |= _below_neighbours(asked, way, phases, part, len(each))
        program.figures |= {f"{way}_{name}": value for name, value in given.items()}
        program.figures.setdefault("bandwidth", total)


def _below_neighbours(
    asked: Mapping[str, float], way: str, phases: _Phases, part: Mapping[str, Any], count: int
) -> dict[str, float]:
    """`read written`, then two lines of /proc/stat: `cpu  user nice system idle iowait irq softirq steal ...`"""
    before, *times = phases[f"{way} at once"]["commands"][0]["stdout"].splitlines()
    after = phases[f"{way} traffic"]["commands"][0]["stdout"]
    column = 0 if re.search(r"pattern=(rand)?read\b", part["workload"]) else 1
    given: dict[str, float] = {}
    try:
        moved = int(after.split()[column]) - int(before.split()[column])
        ticks = [[int(word) for word in line.split()[1:9]] for line in times[:2]]
        spent = [late - early for early, late in zip(*ticks, strict=True)]
    except (IndexError, ValueError):
        return given
    if sum(spent) > 0:
        given["iowait_pct"] = spent[4] / sum(spent) * 100
    given["disk_bandwidth"] = moved / _MIB / (asked["runtime"] + phases[f"{way} settled"]["wall_s"])
    if asked.get("bps") is not None:
        given["disk_limit_ratio"] = given["disk_bandwidth"] * _MIB / asked["bps"] / count
    return given


def _instance(program: Program, part: Mapping[str, Any], phases: _Phases) -> None:
    name = str(part["workload"]).partition("(")[0].partition("/")[2]
    _operations(program, phases, name)
    program.figures["median_s"] = _middle(_took(phases[name]))


_OF_ENGINES: Mapping[str, Callable[[Program, Mapping[str, Any], _Phases], None]] = {
    "container/lifecycle": _lifecycle,
    "container/density": _density,
    "container/build": _build,
    "container/write": _write,
    "container/outgrow": _outgrow,
    "container/neighbours": _neighbours,
    "instance": _instance,
}
