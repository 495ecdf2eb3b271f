"""Workloads that are phases of commands, each timed by strata-engine: the plan as data, and the report read back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from strata.errors import WorkloadFailed
from strata.model import Command, Metric, TrialOutput
from strata.workloads._common import last_lines

REPORT = "batch.json"

_PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


@dataclass(frozen=True, slots=True)
class Phase:
    """Commands of one kind, `parallel` of them at a time; the next phase waits for the last of them."""

    name: str
    commands: Sequence[Sequence[str]]
    parallel: int = 1
    expect: str | None = None  # what each must print
    keep: bool = False  # what they print is in the report


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a phase."""

    wall_s: float
    took_s: tuple[float, ...]  # of each command, in the order of the plan
    printed: tuple[str, ...]  # of a phase with `keep`


def plan_text(phases: Sequence[Phase]) -> str:
    """The file that `strata-engine batch` reads."""
    return json.dumps({"phases": [_as_json(phase) for phase in phases]})


def _as_json(phase: Phase) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": phase.name,
        "parallel": phase.parallel,
        "commands": [list(command) for command in phase.commands],
    }
    if phase.expect is not None:
        found["expect"] = phase.expect
    return found | ({"keep": True} if phase.keep else {})


def plan_path(scratch: str) -> str:
    return f"{scratch}/plan.json"


def measure(scratch: str, timeout_s: float) -> Command:
    return Command(("strata-engine", "batch", plan_path(scratch), "--out", f"{scratch}/{REPORT}"), timeout_s=timeout_s)


def collect(scratch: str) -> dict[str, str]:
    return {REPORT: f"{scratch}/{REPORT}"}


def read(output: TrialOutput, names: Sequence[str]) -> dict[str, Done]:
    """The phases by name. Raises WorkloadFailed with what the first command that failed said, or for a phase of `names`
    that is missing."""
    try:
        report = json.loads(output.files.get(REPORT) or "")
        failure = report["failure"]
        if failure is not None:
            words = failure["argv"]
            # Of a script its arguments say which it was.
            argv = " ".join(words[4:7] if words[:2] == ["sh", "-c"] else words[1:4])
            said = last_lines(str(failure["said"]))
            raise WorkloadFailed(f"in the phase {failure['phase']}, '{argv}' failed: {said or 'it said nothing'}")
        found = {
            str(phase["name"]): Done(
                float(phase["wall_s"]),
                tuple(float(command["took_s"]) for command in phase["commands"]),
                tuple(str(command.get("stdout", "")) for command in phase["commands"]),
            )
            for phase in report["phases"]
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        said = last_lines(output.stderr) or "it said nothing"
        raise WorkloadFailed(f"strata-engine ended with exit code {output.exit_code}: {said}") from error
    missing = [name for name in names if name not in found or not found[name].took_s]
    if missing:
        raise WorkloadFailed(f"strata-engine left out the phase {missing[0]}; report this as a bug")
    return found


def operation_metrics(operation: str, about: str) -> Iterator[Metric]:
    """What `operation_figures` gives for one operation; `about` completes "time of"."""
    yield Metric(f"{operation}_s", "s", "lower", f"time of all of them: {about}", merge="largest")
    yield Metric(f"{operation}_mean_ms", "ms", "lower", f"mean time of one: {about}")
    for name, share in _PERCENTILES:
        what = "longest time of one" if share == 1.0 else f"{share:.0%} of them took no longer than this"
        yield Metric(
            f"{operation}_{name}_ms",
            "ms",
            "lower",
            f"{what}: {about}",
            merge="largest" if share == 1.0 else "worst",
        )


def operation_figures(operation: str, done: Done) -> dict[str, float]:
    """Percentiles by nearest rank: each is the time of one of them. Raises WorkloadFailed for an impossible time."""
    took = sorted(done.took_s)
    if not all(math.isfinite(each) and each > 0 for each in (*took, done.wall_s)):
        raise WorkloadFailed("a command took no time; this machine's clock cannot be used")
    figures = {f"{operation}_s": done.wall_s, f"{operation}_mean_ms": 1e3 * sum(took) / len(took)}
    for name, share in _PERCENTILES:
        figures[f"{operation}_{name}_ms"] = 1e3 * took[math.ceil(share * len(took)) - 1]
    return figures


def median(took_s: Sequence[float]) -> float:
    """Of times that are erratic the best to tell."""
    ordered = sorted(took_s)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
