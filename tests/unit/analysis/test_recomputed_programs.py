"""What programs of each family wrote, read twice: both readings give the same figures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fake_host import FakeHost

from strata.analysis import raw_machines, raw_programs
from strata.model import Call, Guest, GuestImage, Outcome, TrialOutput
from strata.run import caches, machine, merging, records
from strata.run.outside import Outside, Watched
from strata.run.together import Together
from strata.run.trial import Trial
from strata.workloads import find

FIO = {
    "jobname": "neighbour",
    "error": 0,
    "usr_cpu": 1.0,
    "sys_cpu": 2.0,
    **{
        way: {"io_bytes": size, "runtime": 2000, "total_ios": ios, "iops": ios / 2, "bw_bytes": size / 2}
        for way, size, ios in (("read", 0, 0), ("write", 8 << 20, 128))
    },
}
END = json.dumps({"started_unix_s": 1.0}) + "\n" + json.dumps({"end": True, "wall_s": 12.5}) + "\n"


def phase(name: str, wall_s: float, *took_s: float, said: str | None = None) -> dict[str, Any]:
    extra = {} if said is None else {"stdout": said}
    return {"name": name, "parallel": 1, "wall_s": wall_s, "commands": [{"took_s": t, **extra} for t in took_s]}


def both(call: Call, output: TrialOutput) -> tuple[dict[str, float], dict[str, float]]:
    first = dict(find(call).read(call, output).metrics)
    return first, raw_programs.of_load(records.of_program(call, output, END)).figures


LIFECYCLE = [phase(name, wall, 0.3, 0.1, 0.2) for name, wall in
             (("create", 0.7), ("start", 0.8), ("stop", 0.9), ("remove", 1.0))]  # fmt: skip
BATCHES: dict[str, list[dict[str, Any]]] = {
    "container/lifecycle": [*LIFECYCLE, phase("settle", 0.4, 0.4)],
    "container/density": [
        phase("memory before", 0.1, 0.1, said="9000\n"),
        phase("room before", 0.1, 0.1, said="100 7\n"),
        phase("start", 0.8, 0.3, 0.5),
        phase("room after", 0.1, 0.1, said="500 9\n"),
        phase("memory after", 0.1, 0.1, said="8000\n"),
    ],
    "container/build": [phase("builds", 6.0, 1.0, 3.0, 2.0, 4.0)],
    "container/write": [phase("copy_up", 1.0, 0.4, 0.6), phase("small", 2.0, 1.1, 0.9)],
    "container/outgrow": [
        *(phase(f"room {when}", 0.1, 0.1, said=f"{size}\n") for when, size in
          (("without", 0), ("before", 10), ("after", 5_000_000))),
        phase("base", 0.1, 0.1, said="4000000"),
        phase("grow", 2.0, 2.0, said="4194304\nno space left on device\n"),
    ],
    "instance/copy": [phase("copy", 6.0, 1.0, 3.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_phases_of_an_engine_give_the_same_figures_twice(name: str) -> None:
    count = len(BATCHES[name][0]["commands"])
    call = Call(name, name, {"count": 2 if name != "container/lifecycle" else count, "small": 40, "builds": 4})
    report = json.dumps({"phases": BATCHES[name], "failure": None})
    first, second = both(call, TrialOutput(0, 12.5, "", "", {"batch.json": report}))
    assert first == pytest.approx({name: second[name] for name in first}) and len(first) >= 5


def test_neighbours_give_the_same_figures_twice() -> None:
    values = {"count": 2, "pattern": "write", "io": "direct", "bps": 4 << 20, "iops": None, "runtime": 2.0}
    call = Call("container/neighbours", "container/neighbours(2, io=direct, bps=4M, runtime=2s)", values)
    stat = "0 100\ncpu  1 2 3 4 5 6 7 8 0 0\ncpu  11 12 13 34 25 16 17 18 0 0\n"
    phases = [
        phase("limits", 0.1, 0.1, 0.1, said="write-bps=4194304"),
        phase("direct at once", 2.0, 2.0, said=stat),
        phase("direct settled", 0.5, 0.5),
        phase("direct traffic", 0.1, 0.1, said="0 9000100\n"),
    ]
    texts = [json.dumps({"jobs": [{**FIO, "write": {**FIO["write"], "bw_bytes": rate}}]})  # type: ignore[dict-item]
             for rate in (4 << 20, 6 << 20)]  # fmt: skip
    files = {"batch.json": json.dumps({"phases": phases, "failure": None})}
    files |= {f"direct-c{number}.json": text for number, text in enumerate(texts, 1)}
    first, second = both(call, TrialOutput(0, 12.5, "", "", files))
    assert first == pytest.approx({name: second[name] for name in first})
    assert {"direct_limit_held", "direct_iowait_pct", "direct_disk_limit_ratio"} < first.keys()


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (Call("null", "null", {}), TrialOutput(0, 12.5, "", "", {})),
        (Call("guest/boot", "guest/boot", {}), TrialOutput(0, 12.5, "7.25\n", "", {})),
        (Call("guest/install", "guest/install", {}), TrialOutput(0, 12.5, "", "", {})),
        (
            Call("guest/debian-installer", "guest/debian-installer", {}),
            TrialOutput(0, 12.5, "install_s 9.5\nmirror_s 0.0\naccel kvm\nboot_s 2.5\n", "", {}),
        ),
        (Call("guest/fio", "guest/fio", {}), TrialOutput(0, 12.5, json.dumps({"jobs": [FIO]}), "", {})),
        (
            Call("postgres/prepare", "postgres/prepare", {}),
            TrialOutput(0, 12.5, "duration_s 4.75\n", "", {}),
        ),
        (
            Call("dd/seqwrite-sync", "dd/seqwrite-sync(size=1M)", {"size": 1 << 20}),
            TrialOutput(0, 12.5, "", "1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.25 s, 4.2 MB/s\n", {}),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Call) else "",
)
def test_what_a_program_printed_gives_the_same_figures_twice(call: Call, output: TrialOutput) -> None:
    first, second = both(call, output)
    assert first == pytest.approx({name: second[name] for name in first}) and first


MEMORY = "Dirty: 7 kB\nWriteback: 1 kB\nCached: 90 kB\nBuffers: 5 kB\nShmem: 20 kB\n"


def test_what_memory_kept_comes_out_again() -> None:

    arc = "data_size 4 555\ndemand_data_hits 4 {0}\ndemand_data_iohits 4 3\ndemand_data_misses 4 {1}\n"
    arc += "prefetch_data_misses 4 2\n"
    start, end = (
        caches.parse(MEMORY.replace(": ", ":     "), arc.format(*counts).replace(" 4 ", "    4    "))
        for counts in ((10, 5), (1000, 65))
    )
    again = dict(raw_machines.remembered(records.of_memory({"host": (start, end)})))
    assert again == pytest.approx({**start.figures(), **end.since(start)}) and len(again) == 4
    assert len(dict(raw_machines.remembered(records.of_memory({"host": (start, None)})))) == 3


def test_the_process_of_a_guest_is_read_from_the_machine_that_started_it() -> None:

    def rows(spent_s: float) -> tuple[dict[str, Any], ...]:
        return tuple({"t_s": float(t), "processes": {"g1": spent_s * t}} for t in range(5))

    there = machine.Samples({"started_unix_s": 1000.0}, rows(1.0), {"wall_s": 4.0})
    starter = machine.Samples({"started_unix_s": 500.0}, rows(0.5), {"wall_s": 4.0})
    outside = Outside(FakeHost(), (), (Guest("g1", "/g1", GuestImage("/image")),), "/visit")
    for watched, spent in ((Watched(there, there), 2.0), (Watched(there, starter), 1.0)):
        began = watched.starter.header["started_unix_s"] + 1.0
        kept = records.of_outside(outside, watched, 0.0)
        assert raw_machines.of_guest(kept, "g1", [began, began + 2.0]) == {"guest.qemu_cpu_s": spent}
        figures = outside.of_guest(watched.between(began, began + 2.0, 0.0), outside.guests[0])
        assert figures == {"guest.qemu_cpu_s": spent}


def test_rules_of_merged_figures_are_kept() -> None:
    call = Call("null", "null", {})
    trials = [
        Trial(Outcome.OK, None, 0.0, 1.0, (), figures={"duration_s": took}, raw=({"workload": "null", "tenant": n},))
        for n, took in ((1, 3.0), (2, 4.0))
    ]
    shared = records.of_tenants([], None, {}, [])
    found = merging.merged(Together(tuple(trials), {}, {}, (shared,)), (1, 2), find(call).info.metrics)
    assert found.raw[-1]["rules"]["duration_s"][-1] == "decides" and len(found.raw) == 3
