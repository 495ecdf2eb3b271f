"""What workloads on a container engine share: a local image, and phases of commands of the engine's client."""

from __future__ import annotations

from collections.abc import Sequence

from strata.model import Call, Command, Facts, Metric, TrialPlan, Work, WorkloadInfo
from strata.workloads import _batch, _image
from strata.workloads._batch import Phase
from strata.workloads._common import declared

# One call of an engine's client: 400 took 72 s with Docker and 73 s with Podman, and, emulated, eight took 23 to 41 s
# with containerd and four 38 s with Incus (benchmarks/results).
_CALL = Work(native_s=0.2, emulated_s=5.0)


class OnEngine:
    """All of a Workload but what it does, how much room that takes, and how its report is read."""

    info: WorkloadInfo

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return _image.reasons(spec)

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        return int(spec["size"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)


def created(client: str, names: Sequence[str], parallel: int = 1, *, volumes: Sequence[str] = ()) -> Phase:
    """Containers of the local image that stay until they are asked to stop."""
    words = (*volumes, "--", *_image.STAY)
    return Phase("create", [(client, "create", _image.IMAGE, name, *words) for name in names], parallel)


def each(client: str, verb: str, names: Sequence[str], parallel: int = 1) -> Phase:
    """One verb of the client for each of them."""
    return Phase(verb, [(client, verb, name) for name in names], parallel)


def trial(scratch: str, prepare: Sequence[Command], phases: Sequence[Phase], timeout_s: float) -> TrialPlan:
    calls = sum(len(phase.commands) for phase in phases)
    return TrialPlan(
        prepare=tuple(prepare),
        measure=_batch.measure(scratch, timeout_s),
        collect=_batch.collect(scratch),
        put={_batch.plan_path(scratch): _batch.plan_text(phases)},
        work=Work(_CALL.native_s * calls, _CALL.emulated_s * calls),
    )
