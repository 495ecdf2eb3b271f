"""`command:PATH`: a user's own script, timed on the target, with figures of its own if it writes some."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Param,
    ParamType,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
    WorkloadInfo,
)
from strata.workloads._common import declared, last_lines

_OUTPUT = "output.json"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_DURATION = Metric("duration_s", "s", "lower", "wall time of the whole script", merge="largest")
_EXAMPLE = '{"requests": {"value": 120.5, "unit": "1/s", "better": "higher"}}'

# exec keeps the script's own first line (#!...); a script without one is read by sh
_SCRIPT = 'cd "$2" && STRATA_TARGET="$3" STRATA_OUTPUT="$4" exec "$1"'


class UserCommand:
    info = WorkloadInfo(
        name="command:",
        about=(
            "A script of your own, timed. It starts in the target directory; STRATA_TARGET is the target, and "
            f"STRATA_OUTPUT the path of a JSON file that it may write its own figures to: {_EXAMPLE}."
        ),
        params=(
            Param("primary", ParamType.TEXT, "one of the script's own figures that decides in place of its run time"),
            Param("unit", ParamType.TEXT, "the unit of that figure, if the script does not say", default=""),
            Param("better", ParamType.CHOICE, "its direction", default="higher", choices=("higher", "lower")),
            Param("size", ParamType.SIZE, "how much room the script needs in the target", default=0),
            Param("timeout", ParamType.TIME, "stop it after this long", default=3600.0, minimum=1.0),
        ),
        metrics=(_DURATION,),
        primary=_DURATION.name,
        accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
        tools={"sh": "dash", "chmod": "coreutils"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        name = spec["primary"]
        if name is not None and not _NAME.fullmatch(str(name)):
            return [
                f"{spec.text}: '{name}' is no name of a figure; use letters, digits and _.- and start with a letter"
            ]
        return []

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        name = spec["primary"]
        if name is None or name == _DURATION.name:
            return declared(self.info, _DURATION.name)
        better: Any = spec["better"]
        return _own(str(name), str(spec["unit"]), better)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        script, written = f"{scratch}/script", f"{scratch}/{_OUTPUT}"
        directory = target.path if target.kind is Kind.DIRECTORY else scratch
        return TrialPlan(
            prepare=(Command(("chmod", "+x", script), timeout_s=60.0),),
            measure=Command(
                ("sh", "-c", _SCRIPT, "sh", script, directory, target.path, written),
                timeout_s=float(spec["timeout"] or 0),
            ),
            collect={_OUTPUT: written},
            put={script: str(spec["content"])},
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            said = last_lines(output.stderr) or last_lines(output.stdout) or "it said nothing"
            raise WorkloadFailed(f"the script {spec.path} ended with exit code {output.exit_code}: {said}")
        values, extra = _own_figures(output.files.get(_OUTPUT), spec.path)
        primary = self.primary_of(spec)
        if primary.name != _DURATION.name:
            if primary.name not in values:
                raise WorkloadFailed(
                    f"the script {spec.path} did not write '{primary.name}', which is to decide; "
                    "let it write that to the file $STRATA_OUTPUT"
                )
            its = next(metric for metric in extra if metric.name == primary.name)
            if its.better not in ("neither", primary.better):
                raise WorkloadFailed(
                    f"the script {spec.path} says that {its.better} is better for '{primary.name}', the campaign "
                    f"says {primary.better}; make them agree"
                )
            if its.unit and primary.unit and its.unit != primary.unit:
                raise WorkloadFailed(
                    f"the script {spec.path} gives '{primary.name}' in {its.unit}, the campaign says {primary.unit}; "
                    "make them agree"
                )
            decides = replace(primary, unit=primary.unit or its.unit)
            extra = tuple(decides if metric.name == primary.name else metric for metric in extra)
        return Measured(metrics={_DURATION.name: output.wall_s} | values, extra=extra)


def _own_figures(text: str | None, path: str | None) -> tuple[dict[str, float], tuple[Metric, ...]]:
    """Values and declarations from {"name": number} or {"name": {"value", "unit", "better"}}."""
    if text is None:
        return {}, ()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise WorkloadFailed(
            f"what the script {path} wrote to $STRATA_OUTPUT is no JSON ({problem}); write such as {_EXAMPLE}"
        ) from problem
    if not isinstance(document, dict):
        raise WorkloadFailed(f"what the script {path} wrote to $STRATA_OUTPUT is no object; write such as {_EXAMPLE}")
    values: dict[str, float] = {}
    extra: list[Metric] = []
    for name, figure in document.items():
        fields: Mapping[str, Any] = figure if isinstance(figure, dict) else {"value": figure}
        value = _number(fields.get("value"))
        better = fields.get("better", "neither")
        unit = fields.get("unit", "")
        wrong = (
            "has a name that cannot be used"
            if not _NAME.fullmatch(name) or name == _DURATION.name
            else "has no value that is a number"
            if value is None
            else "has a direction that is neither higher nor lower"
            if better not in ("higher", "lower", "neither")
            else "has a unit that is no text"
            if not isinstance(unit, str)
            else "has keys other than value, unit and better"
            if fields.keys() - {"value", "unit", "better"}
            else None
        )
        if wrong or value is None:
            raise WorkloadFailed(f"the figure '{name}' of the script {path} {wrong}; write such as {_EXAMPLE}")
        values[name] = value
        extra.append(_own(name, unit, better))
    return values, tuple(extra)


def _own(name: str, unit: str, better: Any) -> Metric:
    """A figure that the script names. Of those only rates can be known to add up over tenants."""
    rate = better == "higher" and (unit.endswith("/s") or unit == "IOPS")
    return Metric(name, unit, better, "the script's own figure", merge="sum" if rate else "worst")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


WORKLOADS: tuple[Workload, ...] = (UserCommand(),)
