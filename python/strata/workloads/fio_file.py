"""`fio:PATH`: any fio job file, pointed at the target."""

from __future__ import annotations

from dataclasses import replace

from strata.errors import Refused
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
from strata.workloads import _fio, _fio_jobfile, _fio_json
from strata.workloads._common import declared

# The target by a name of ours, relative to the scratch directory where fio starts: fio replaces $ncpus and ${HOME} in a
# job file, and cuts and splits names, so that no path of a user's may stand there.
_LINK = "target"


class FioFile:
    info = WorkloadInfo(
        name="fio:",
        about=(
            "A fio job file of your own, its files put on the target. What could write elsewhere or change the machine "
            "(paths, programs, I/O schedulers, engines of the network) is refused."
        ),
        params=(
            Param("runtime", ParamType.TIME, "make every job run this long; without it the file decides", minimum=1.0),
            Param(
                "primary",
                ParamType.CHOICE,
                "the metric that decides",
                default="iops",
                choices=tuple(metric.name for metric in _fio_json.METRICS),
            ),
            Param("timeout", ParamType.TIME, "without runtime, stop it after this long", default=3600.0, minimum=1.0),
        ),
        metrics=_fio_json.METRICS,
        primary="iops",
        accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
        tools={"fio": "fio", "sh": "dash", "ln": "coreutils"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        found = _fio.reasons(facts)
        if facts.io_uring_lacking and any(job.get("ioengine") == "io_uring" for job in _fio_jobfile.jobs(_text(spec))):
            found.append(f"{spec.text}: {facts.io_uring_lacking}, or write another ioengine into the file.")
        return found

    def checks(self, spec: Call) -> list[Command]:
        """Raises Refused when the job file could write outside its target."""
        return [Command(("fio", "--parse-only", "-"), timeout_s=60.0, stdin=_content(spec))]

    def data_bytes(self, spec: Call) -> int:
        return _fio_jobfile.data_bytes(_text(spec))

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, str(spec["primary"]))

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        """Raises Refused when the job file could write outside its target."""
        content = _content(spec)
        size = self.data_bytes(spec)
        runtime_s = None if spec["runtime"] is None else float(spec["runtime"])
        groups = _fio_jobfile.groups(content)
        expect_s = None if runtime_s is None else runtime_s * groups
        ours: dict[str, str | None] = {}
        if not _fio_jobfile.seeded(content):
            ours["randseed"] = str(_fio.randseed(seed))
        if runtime_s is not None:
            ours |= {"time_based": "1", "runtime": _fio.seconds(runtime_s)}
        put: dict[str, str] = {}
        link = ("ln", "--symbolic", "--no-dereference", "--force", "--", target.path, f"{scratch}/{_LINK}")
        prepare = [Command(link, timeout_s=60.0)]
        if target.kind is Kind.BLOCK:
            ours |= {"filename": _LINK, "nrfiles": "1", "allow_file_create": "0"}
            if size:  # written once as far as the job says that it reaches
                prepare.append(_fio.layout(target.path, size, scratch, seed, ("--allow_file_create=0",)))
        else:
            ours["directory"] = f"{_LINK}/"  # fio wants a directory there, and takes the bare link for none
            # fio lays its files out as it would itself before its clock starts
            put[f"{scratch}/layout.fio"] = _fio_jobfile.aimed(content, ours | {"create_only": "1"})
            options = ("--eta=never", f"--output={scratch}/layout.txt")
            prepare.append(_run(scratch, "layout.fio", options, _fio.patience_s(size)))
        reporting = dict(option.split("=", 1) for option in _fio.reporting(".", runtime_s))
        ours |= {"group_reporting": None, **reporting}

        def of_group(group: int) -> dict[str, str | None]:
            return {**_fio.log_options(".", runtime_s, group)}

        for name, gated in (("job", False), ("gated", True)):
            around = _fio.around_jobs(target.kind, gated=gated)
            put[f"{scratch}/{name}.fio"] = _fio_jobfile.aimed(content, ours | around, of_group)
        timeout_s = float(spec["timeout"] or 0) if expect_s is None else expect_s + 600.0
        return TrialPlan(
            prepare=tuple(prepare),
            measure=_run(scratch, "job.fio", _fio.output(scratch), timeout_s),
            collect={_fio_json.JSON: f"{scratch}/fio.json"} | _fio.logs(scratch, runtime_s, groups),
            put=put,
            expect_s=expect_s,
            buffered=_fio_jobfile.buffered(content),
            gated=_run(scratch, "gated.fio", _fio.output(scratch), timeout_s),
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        measured = _fio_json.read(output, sequential_groups=_fio_jobfile.groups(_text(spec)))
        jobs = list(_fio_jobfile.jobs(_text(spec)))
        pattern = _fio_json.pattern(jobs[0], measured) if len(jobs) == 1 else None
        return replace(measured, pattern=pattern)


def _text(spec: Call) -> str:
    return str(spec["content"])


def _content(spec: Call) -> str:
    content = _text(spec)
    reasons = _fio_jobfile.refusals(content)
    if reasons:
        raise Refused([f"the job file {spec.path}, {reason}" for reason in reasons])
    return content


def _run(scratch: str, job_file: str, options: tuple[str, ...], timeout_s: float) -> Command:
    # names in the job file without a directory (a verify state, a latency log) are relative to the working directory
    return Command((*_fio.within(scratch), "fio", *options, job_file), timeout_s=timeout_s)


WORKLOADS: tuple[Workload, ...] = (FioFile(),)
