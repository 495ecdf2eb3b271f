"""What is kept of a measured trial so that its figures can be recomputed (strata/analysis/recomputed.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strata.model import Call, TrialOutput
from strata.run.outside import Outside, Watched


def of_program(call: Call, output: TrialOutput, sampled: str | None) -> dict[str, Any]:
    """What the program left, and the engine's samples as they were written."""
    return {
        "workload": call.text,
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
        "rows": list(watched.samples.rows),
        "started_unix_s": watched.samples.header["started_unix_s"],
        "ahead_s": ahead_s,
        "devices": [layer for layer, _ in outside.devices],
    }


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
    load: Mapping[str, Any], devices: Sequence[tuple[str, str]], *, in_guest: bool, cut_s: float
) -> dict[str, Any]:
    """What `of_load` gave, with what else its figures were made of. `cut_s`: the warm-up that the figure which decides
    leaves out."""
    layers = [layer for layer, _ in devices]
    return {**load, "tenant": None, "devices": layers, "in_guest": in_guest, "cut_s": cut_s}
