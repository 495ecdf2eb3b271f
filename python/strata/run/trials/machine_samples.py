"""What the machine did during a trial, from the engine's samples. Pure.

The engine's format is documented with `strata-engine sample --help`: JSON lines, counters cumulative since boot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strata.errors import WorkloadFailed
from strata.model import Measured
from strata.planning.machine_metrics import GUEST_METRICS, OWN_QEMU, TELLING_BYTES

# Samples come a little early or late.
_SLACK_S = 0.05


@dataclass(frozen=True, slots=True)
class Samples:
    header: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]
    end: Mapping[str, Any]


def parse(text: str | None, said: str = "") -> Samples:
    """Raises WorkloadFailed when the engine did not complete, with what it `said`."""
    try:
        lines = [json.loads(line) for line in (text or "").splitlines()]
    except ValueError:  # the last line was cut off
        lines = []
    if len(lines) < 2 or not isinstance(lines[-1], dict) or not lines[-1].get("end"):
        last = " | ".join(line.strip() for line in said.splitlines()[-3:] if line.strip())
        raise WorkloadFailed(
            "strata-engine was stopped before the trial ended"
            + (f" and said: {last}; mend that." if last else "; look for an out-of-memory kill.")
        )
    return Samples(lines[0], tuple(lines[1:-1]), lines[-1])


def between(samples: Samples, began_s: float, ended_s: float) -> Samples:
    """Without what was seen before and after two instants, Unix time by the clock of the measured machine: a load may
    have to wait for others, and its program take its time to end. From the last sample before to the first one after.
    """
    started_s = samples.header["started_unix_s"]
    times = [row["t_s"] for row in samples.rows]
    first = max((number for number, t in enumerate(times) if t <= began_s - started_s), default=0)
    last = min((number for number, t in enumerate(times) if t >= ended_s - started_s), default=len(times) - 1)
    rows = samples.rows[first : last + 1]
    if not rows:
        return samples
    first_s, last_s = times[first], min(times[last], samples.end["wall_s"])
    return Samples(
        {**samples.header, "started_unix_s": started_s + first_s},
        tuple({**row, "t_s": row["t_s"] - first_s} for row in rows),
        {**samples.end, "wall_s": last_s - first_s},
    )


def processes_s(samples: Samples) -> dict[str, float]:
    """Processor time that each sampled process spent, by its name, in s; without those that have ended."""
    if not samples.rows:
        return {}
    first, last = (samples.rows[number].get("processes") or {} for number in (0, -1))
    return {
        name: last[name] - before for name, before in first.items() if before is not None and last.get(name) is not None
    }


def figures(samples: Samples, devices: Iterable[tuple[str, str]], measured: Measured) -> dict[str, float]:
    """The declared machine metrics that the samples give. `devices`: (layer, name given to the engine)."""
    if len(samples.rows) < 2:
        return {}
    first, last = samples.rows[0], samples.rows[-1]
    span_s = last["t_s"] - first["t_s"]
    found: dict[str, float] = {}
    busy_s = _cpu(found, first, last)
    _pressure(found, first, last, span_s)
    if (spent_s := processes_s(samples).get(OWN_QEMU)) is not None:
        found["guest.qemu_cpu_s"] = spent_s
    dirty = [row["memory"]["dirty_bytes"] for row in samples.rows if (row.get("memory") or {}).get("dirty_bytes")]
    if dirty:
        found["host.dirty_max_bytes"] = max(dirty)
    layers: dict[str, list[str]] = {}
    for layer, device in devices:
        layers.setdefault(layer, []).append(device)
    for layer, names in layers.items():
        _devices(found, layer, names, samples.rows, span_s)
    operations = found.get("disk.reads", 0) + found.get("disk.writes", 0)
    moved = (measured.bytes_read or 0) + (measured.bytes_written or 0)
    if busy_s is not None and operations:
        found["host.cpu_per_io_us"] = busy_s * 1e6 / operations
    if busy_s is not None and moved >= TELLING_BYTES:
        found["host.cpu_per_gib_s"] = busy_s / (moved / 2**30)
    if (measured.bytes_written or 0) >= TELLING_BYTES and "disk.write_bytes" in found:
        found["disk.write_amplification"] = found["disk.write_bytes"] / (measured.bytes_written or 1)
    if (measured.bytes_read or 0) >= TELLING_BYTES and "disk.read_bytes" in found:
        found["disk.read_ratio"] = found["disk.read_bytes"] / (measured.bytes_read or 1)
    return found


def as_guest(found: Mapping[str, float]) -> dict[str, float]:
    """Figures of a machine that is a guest: its processors by another name, and without its pressure."""
    processors = {name.replace("host.", "guest.", 1): value for name, value in found.items()}
    declared = {metric.name for metric in GUEST_METRICS}
    return {name: v for name, v in processors.items() if not name.startswith(("guest.", "psi.")) or name in declared}


def series(samples: Samples) -> dict[str, list[tuple[float, float]]]:
    """Every counter as sampled, by a dotted name: "device.disk0.reads", "cpu_s.user", "memory.dirty_bytes"."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in samples.rows:
        groups: dict[str, Mapping[str, Any] | None] = {
            "cpu_s": row.get("cpu_s"),
            "memory": row.get("memory"),
            "psi": row.get("psi"),
            **{f"device.{name}": device for name, device in (row.get("devices") or {}).items()},
        }
        for group, values in groups.items():
            for name, value in (values or {}).items():
                if value is not None:
                    found.setdefault(f"{group}.{name}", []).append((row["t_s"], value))
    return found


def rates(samples: Samples, devices: Iterable[tuple[str, str]]) -> dict[str, list[tuple[float, float]]]:
    """Bytes per second at the disks, per second of the trial: "disk.read_bytes" and "disk.write_bytes"."""
    names = [name for layer, name in devices if layer == "disk"]
    found: dict[str, list[tuple[float, float]]] = {}
    for counter in ("read_bytes", "write_bytes"):
        before: tuple[float, float] | None = None
        for row in samples.rows:
            sampled = [(row.get("devices") or {}).get(name) for name in names]
            values: list[float] = [device[counter] for device in sampled if device and device.get(counter) is not None]
            if not names or len(values) < len(names):
                continue
            now = (row["t_s"], sum(values))
            if before is None:
                before = now
            elif now[0] - before[0] >= 1.0 - _SLACK_S:
                rate = (now[1] - before[1]) / (now[0] - before[0])
                found.setdefault(f"disk.{counter}", []).append((now[0], rate))
                before = now
    return found


def _cpu(found: dict[str, float], first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    """Adds the processor figures; returns the busy time in s, None when the machine does not tell."""
    before, after = first.get("cpu_s"), last.get("cpu_s")
    if not before or not after:
        return None
    spent = {
        mode: after[mode] - before[mode] for mode in after if after[mode] is not None and before.get(mode) is not None
    }
    total = sum(spent.values())
    if total <= 0:
        return None
    user = spent.get("user", 0.0) + spent.get("nice", 0.0)
    system = spent.get("system", 0.0) + spent.get("irq", 0.0) + spent.get("softirq", 0.0)
    found["host.cpu_user_s"] = user
    found["host.cpu_system_s"] = system
    found["host.cpu_busy_pct"] = 100 * (user + system) / total
    if "iowait" in spent:
        found["host.cpu_iowait_pct"] = 100 * spent["iowait"] / total
    return float(user + system)


def _pressure(found: dict[str, float], first: Mapping[str, Any], last: Mapping[str, Any], span_s: float) -> None:
    before, after = first.get("psi"), last.get("psi")
    if not before or not after or span_s <= 0:
        return
    for name in ("cpu_some", "io_some", "io_full", "memory_some"):
        start, stop = before.get(f"{name}_us"), after.get(f"{name}_us")
        if start is not None and stop is not None:
            found[f"psi.{name}_pct"] = (stop - start) / 1e4 / span_s


def _devices(
    found: dict[str, float], layer: str, names: list[str], rows: tuple[Mapping[str, Any], ...], span_s: float
) -> None:
    def sampled(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        return (row.get("devices") or {}).get(name)

    firsts, lasts = [sampled(rows[0], n) for n in names], [sampled(rows[-1], n) for n in names]
    for counter in ("reads", "writes", "read_bytes", "write_bytes", "flushes", "busy_ms"):
        before = [device[counter] for device in firsts if device and device.get(counter) is not None]
        after = [device[counter] for device in lasts if device and device.get(counter) is not None]
        if len(before) < len(names) or len(after) < len(names):
            continue  # one device that does not tell: the sum is not known
        spent = sum(after) - sum(before)
        if counter != "busy_ms":
            found[f"{layer}.{counter}"] = spent
        elif span_s > 0:
            found[f"{layer}.busy_pct"] = spent / 10 / span_s / len(names)
    in_flight = [[(sampled(row, name) or {}).get("in_flight") for name in names] for row in rows]
    known = [[count for count in counts if count is not None] for counts in in_flight]
    sums = [sum(counts) for counts in known if len(counts) == len(names)]
    if sums:
        found[f"{layer}.in_flight_mean"] = sum(sums) / len(sums)
