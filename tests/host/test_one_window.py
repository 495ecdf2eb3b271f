"""What a machine did is counted from the beginning of the load to its end, also where it is the only one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from strata.gate import GATE
from strata.hosts.local import LocalHost
from strata.model import Call, Command, Kind, Outcome, Target, TrialPlan
from strata.run.trials import trial
from strata.workloads.null import WORKLOADS

pytestmark = pytest.mark.host

# As a server that starts, serves and stops.
LOAD = f"{GATE}sleep 1; gate; sleep 1; passed; sleep 1"


class Served:
    def __init__(self) -> None:
        self._null = WORKLOADS[0]
        self.info = self._null.info
        self.read, self.primary_of = self._null.read, self._null.primary_of
        self.reasons_not_to_run, self.checks = self._null.reasons_not_to_run, self._null.checks
        self.data_bytes = self._null.data_bytes

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        command = Command(("sh", "-c", LOAD), timeout_s=60.0)
        return replace(self._null.plan(spec, target, scratch, seed), measure=command, gated=command)


def test_what_a_program_does_before_and_after_its_load_is_not_counted(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    bench = trial.Bench(LocalHost("one-window"), (), 1, frozenset())
    about = (Served(), Call("null", "null", {}), Target(Kind.DIRECTORY, str(target), None, True), str(scratch), 1)
    began = monotonic()
    result = trial.run(bench, *about)
    took_s = monotonic() - began
    assert result.outcome is Outcome.OK, result.reason
    (*_, (last_s, _)) = (result.series or {})["machine.cpu_s.user"]
    assert 0.9 < last_s < took_s - 1.5 and result.wall_s == last_s
