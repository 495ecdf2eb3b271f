"""fio in a guest of the user's own: what is asked of Windows and of Linux, and what is read of the answer."""

from __future__ import annotations

import pytest

from strata.errors import WorkloadFailed
from strata.model import Kind, Target, TrialOutput
from strata.workloads import workloads

from .workload_calls import call, captured

LINUX = Target(Kind.GUEST, "/dev/disk/by-id/virtio-x", None)
WINDOWS = Target(Kind.GUEST, r"\\.\PhysicalDrive1", None)


def test_each_system_has_its_engine() -> None:
    plans = {target: workloads()["guest/fio"].plan(call("guest/fio"), target, "/s", 1) for target in (LINUX, WINDOWS)}
    for plan in (plans[LINUX], plans[WINDOWS]):
        # the shells of both agree on words without blanks and quotes only
        assert not any(set(word) & set(" '\"$`;&|<>()*?") for word in plan.measure.argv)
        assert not plan.put and not plan.collect
    assert "--ioengine=libaio" in plans[LINUX].measure.argv and "--thread" not in plans[LINUX].measure.argv
    windows = plans[WINDOWS].measure.argv
    assert {"--ioengine=windowsaio", "--thread", r"--filename=\\.\PhysicalDrive1"} <= set(windows)


def test_what_fio_says_to_its_standard_output_is_read() -> None:
    seen = captured("3.33-randrw")
    noise = "fio: this platform does not support process shared mutexes, forcing use of threads.\n"
    said = noise + seen.files["fio.json"]
    measured = workloads()["guest/fio"].read(call("guest/fio"), TrialOutput(0, 4.2, said, "", {}))
    assert measured.metrics["iops"] > 0 and measured.bytes_read


def test_a_guest_without_fio_is_a_failure_with_its_words() -> None:
    answer = TrialOutput(1, 0.1, "", "'fio' is not recognized as an internal or external command", {})
    with pytest.raises(WorkloadFailed, match="not recognized"):
        workloads()["guest/fio"].read(call("guest/fio"), answer)
