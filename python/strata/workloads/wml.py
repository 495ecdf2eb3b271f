"""`wml:PATH`: a user's own program in filebench's language, as it is, run by strata-engine on the target."""

from __future__ import annotations

import re

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
from strata.workloads import _wml
from strata.workloads._common import declared

_PROGRAM = "program.f"
_SETTING = re.compile(r"[A-Za-z][A-Za-z0-9_]+=.+")


class WmlFile:
    info = WorkloadInfo(
        name="wml:",
        about=(
            "A filebench program of your own (a .f file, of 1.4.9 or 1.5), run by its own rules; its $dir is the "
            "target. Paths that lead elsewhere are refused, and so are commands for the shell unless system says "
            "otherwise. `strata wml check` says what it will do."
        ),
        params=(
            Param("runtime", ParamType.TIME, "in whole seconds; without it the program decides", minimum=1.0),
            Param("set", ParamType.TEXT, 'variables of the program, as "nfiles=5000;filesize=16k"', default=""),
            Param(
                "dialect",
                ParamType.CHOICE,
                "auto: told from the program",
                default="auto",
                choices=("auto", "1.4.9", "1.5"),
            ),
            Param(
                "system",
                ParamType.CHOICE,
                "what to do with its commands for the shell; run: as the user that measures, before the run and before "
                "its files are made",
                default="refuse",
                choices=("refuse", "skip", "run"),
            ),
            Param(
                "primary",
                ParamType.CHOICE,
                "the metric that decides",
                default="ops",
                choices=tuple(metric.name for metric in _wml.METRICS),
            ),
            Param("size", ParamType.SIZE, "how much room its files need in the target", default=0),
            Param("timeout", ParamType.TIME, "without runtime, stop it after this long", default=3600.0, minimum=1.0),
            _wml.COMPRESSIBLE,
        ),
        metrics=_wml.METRICS,
        primary="ops",
        accepts=frozenset({Kind.DIRECTORY}),
        tools=_wml.TOOLS,
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        found = [
            f"{spec.text}: '{setting}' sets nothing; write set=\"nfiles=5000;filesize=16k\""
            for setting in _settings(spec)
            if not _SETTING.fullmatch(setting)
        ]
        runtime_s = float(spec["runtime"] or 0)
        if runtime_s != round(runtime_s):
            found.append(f"{spec.text}: the runtime is in whole seconds; round it")
        return found

    def checks(self, spec: Call) -> list[Command]:
        argv = ("strata-engine", "wml", "check", "-", *_options(spec))
        return [Command(argv, timeout_s=60.0, stdin=str(spec["content"]))]

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, str(spec["primary"]))

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        runtime_s = None if spec["runtime"] is None else float(spec["runtime"])
        path = f"{scratch}/{_PROGRAM}"
        program = (path, *_options(spec), *_wml.data(spec))
        timeout_s = float(spec["timeout"] or 0)
        prepare = _wml.create(program, target.path, max(timeout_s, 3600.0))
        timeout_s = timeout_s if runtime_s is None else runtime_s + 600.0
        measure = _wml.run(program, target.path, scratch, seed, timeout_s)
        return TrialPlan(
            prepare=(prepare,),
            measure=measure,
            collect={_wml.JSON: f"{scratch}/{_wml.JSON}"},
            put={path: str(spec["content"])},
            expect_s=runtime_s,
            buffered=True,
            uses_up=True,
            gated=measure,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        return _wml.read(output)


def _settings(spec: Call) -> list[str]:
    return [setting.strip() for setting in str(spec["set"] or "").split(";") if setting.strip()]


def _options(spec: Call) -> tuple[str, ...]:
    dialect = () if spec["dialect"] == "auto" else (f"--dialect={spec['dialect']}",)
    seconds = () if spec["runtime"] is None else (f"--seconds={round(float(spec['runtime']))}",)
    sets = (f"--set={setting}" for setting in _settings(spec))
    return (*sets, *dialect, *seconds, f"--system={spec['system']}")


WORKLOADS: tuple[Workload, ...] = (WmlFile(),)
