"""What is kept of a measured trial so that its figures can be recomputed (strata/analysis/recomputed.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strata.model import Call, TrialOutput
from strata.run.machine import Samples
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


def of_trial(
    program: Mapping[str, Any],
    samples: Samples,
    devices: Sequence[tuple[str, str]],
    outside: Outside | None,
    watched: Watched | None,
) -> dict[str, Any]:
    """With what its figures were made of besides. `samples`: the part of the engine's that counts, whose seconds are
    those since its first row; `outside`: of the machine that carries the guest, which is another."""
    import json

    whole = json.loads(program["samples"].partition("\n")[0] or "{}")
    began_s = samples.header.get("started_unix_s", 0.0) - whole.get("started_unix_s", 0.0)
    times = [row["t_s"] for row in samples.rows] or [0.0]
    outer = None
    if outside is not None and watched is not None:
        outer = {"rows": list(watched.samples.rows), "devices": [layer for layer, _ in outside.devices]}
    return {
        **program,
        "tenant": None,
        "devices": [layer for layer, _ in devices],
        "window": [began_s + times[0], began_s + times[-1]],
        "in_guest": outside is not None,
        "outside": outer,
    }
