"""What is kept of a measured trial so that its figures can be recomputed (strata/analysis/recomputed.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strata.model import Call, TrialOutput
from strata.run.trials.caches import Caches
from strata.run.trials.machine_samples import Samples
from strata.run.trials.outside import Outside, Watched


def of_program(call: Call, output: TrialOutput, sampled: str | None) -> dict[str, Any]:
    """What the program left, and the engine's samples as they were written."""
    return {
        "workload": call.text,
        "arguments": {name: value for name, value in call.values.items() if isinstance(value, int | float)},
        "exit_code": output.exit_code,
        "wall_s": output.wall_s,
        "stdout": output.stdout,
        "stderr": output.stderr,
        "files": dict(output.files),
        "samples": sampled or "",
    }


def of_outside(outside: Outside, watched: Watched, ahead_s: float) -> dict[str, Any]:
    """Of the machine that carries the guest of a trial, whole; how far its clock is ahead of the controller's."""
    return {
        **_rows(watched.samples),
        "ahead_s": ahead_s,
        "devices": [layer for layer, _ in outside.devices],
        "guests": [guest.name for guest in outside.guests],
        "starter": None if watched.starter is watched.samples else _rows(watched.starter),
    }


def _rows(samples: Samples) -> dict[str, Any]:
    return {"rows": list(samples.rows), "started_unix_s": samples.header["started_unix_s"]}


def of_memory(machines: Mapping[str, tuple[Caches, Caches | None]]) -> list[dict[str, Any]]:
    """What memory kept, by the name of the machine ("guest", "host"), at the start of a trial and, where that was
    looked at for the ARC of ZFS, at its end."""
    return [
        {"name": name, "start": start.text, "end": None if end is None else end.text}
        for name, (start, end) in machines.items()
    ]


def of_load(
    program: Mapping[str, Any] | None,
    gate: tuple[float, float] | None,
    ahead_s: float = 0.0,
    outside: Mapping[str, Any] | None = None,
) -> Mapping[str, Any] | None:
    """What `of_program` gave, with when the load itself began and ended, by the clock of its machine, which is ahead of
    the controller's by so much. `gate` is None where the program does not say it."""
    return program and {**program, "gate": gate and list(gate), "ahead_s": ahead_s, "outside": outside}


def of_trial(
    load: Mapping[str, Any],
    devices: Sequence[tuple[str, str]],
    *,
    in_guest: bool,
    cut_s: float,
    flush_s: Sequence[float] = (),
    memory: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What `of_load` gave, with what else its figures were made of. `cut_s`: the warm-up that the figure which decides
    leaves out. `flush_s`: of every command that emptied a cache. `memory`: see `of_memory`."""
    layers = [layer for layer, _ in devices]
    more = {"tenant": None, "devices": layers, "in_guest": in_guest, "cut_s": cut_s}
    return {**load, **more, "flush_s": list(flush_s), "memory": list(memory)}


def of_tenants(
    loads: Sequence[Mapping[str, Any]],
    outside: Mapping[str, Any] | None,
    guests: Mapping[int, str],
    memory: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What the figures that belong to all tenants were made of; it stands after their loads. `loads`: when each began
    and ended by its clock, how that differs, the bytes that it moved, the times of emptying its caches. `guests`: the
    tenants' guests by name. `memory`: of the machine that carries all."""
    named = {str(tenant): name for tenant, name in guests.items()}
    return {"loads": list(loads), "outside": outside, "guests": named, "memory": list(memory), "rules": {}}


def with_rules(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Sequence[str]]) -> tuple[Mapping[str, Any], ...]:
    """`rules`: how each figure of all tenants is made of theirs: the rule, which way is better, and "decides" for the
    one that keeps its name under every rule."""
    return tuple(part if "workload" in part else {**part, "rules": dict(rules)} for part in parts)
