"""Made-up runs with known answers, shaped like real ones. Nothing here was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.model import (
    Disk,
    Event,
    Evidence,
    Facts,
    FailedVisit,
    Loss,
    Metric,
    Outcome,
    Rule,
    Skipped,
    StepTime,
    Testbed,
    TrialResult,
    View,
    WorkloadView,
)

XFS = "disk | xfs"
EXT4 = "disk | ext4"
BTRFS = "disk | btrfs"
NOCOW = "disk | btrfs(nodatacow)"
F2FS = "disk | f2fs"

PERCENTILES = {"p50": 0.6, "p90": 1.0, "p99": 2.4, "p99.9": 7.5}
FIO = WorkloadView(
    text="fio/randrw-75-25",
    name="fio/randrw-75-25",
    primary=Metric("iops", "IOPS", "higher", "reads and writes completed per second"),
    metrics={
        "iops": Metric("iops", "IOPS", "higher", "reads and writes completed per second"),
        "read_bw": Metric("read_bw", "MiB/s", "higher"),
        **{
            f"{way}_clat_{p}": Metric(f"{way}_clat_{p}", "ms", "lower", f"{p} completion latency")
            for way in ("read", "write")
            for p in PERCENTILES
        },
    },
)
DD = WorkloadView(
    text="dd/seqwrite-sync",
    name="dd/seqwrite-sync",
    primary=Metric("throughput", "MiB/s", "higher", "bytes written, the sync inside the clock"),
    metrics={"throughput": Metric("throughput", "MiB/s", "higher"), "duration": Metric("duration", "s", "lower")},
)
MACHINE = {
    "host.cpu_user_s": Metric("host.cpu_user_s", "s", "lower", "processor time in programs"),
    "host.cpu_system_s": Metric("host.cpu_system_s", "s", "lower", "processor time in the kernel"),
    "host.cpu_iowait_pct": Metric("host.cpu_iowait_pct", "%", "neither", "time idle while waiting for a disk"),
    "host.cpu_per_io_us": Metric("host.cpu_per_io_us", "us", "lower", "processor time per read or write"),
    "disk.read_bytes": Metric("disk.read_bytes", "bytes", "neither", "read from the device"),
    "disk.write_bytes": Metric("disk.write_bytes", "bytes", "lower", "written to the device"),
    "disk.write_amplification": Metric("disk.write_amplification", "ratio", "lower", "device bytes per byte asked"),
    "psi.io_some_pct": Metric("psi.io_some_pct", "%", "lower", "time in which some task waited for a disk"),
}
FACTS = Facts(
    hostname="bench-1",
    kernel=(6, 12, 48),
    kernel_text="6.12.48+deb13-amd64",
    os="Debian GNU/Linux 13 (trixie)",
    cpu_model="AMD EPYC 7543 32-Core Processor",
    cpus=2,
    memory_bytes=8 << 30,
    root=True,
    filesystems=frozenset({"ext4", "xfs", "btrfs"}),
    tools={"fio": "fio-3.39", "mkfs.ext4": "1.47.2", "mkfs.xfs": "6.13.0"},
    schedulers=frozenset({"none", "mq-deadline"}),
    free_bytes=80 << 30,
)
SPEED = {EXT4: 4000.0, XFS: 4600.0, NOCOW: 3000.0, BTRFS: 1700.0}
COMMANDS = {
    stack: (
        "truncate --size=8G /srv/run/files/disk0.img",
        "losetup --find --show --direct-io=on /srv/run/files/disk0.img",
        f"{make} /dev/loop7",
        "mount -o noatime /dev/loop7 /srv/run/mnt/v0",
    )
    for stack, make in {
        EXT4: "mkfs.ext4 -q -U 5f0e",
        XFS: "mkfs.xfs -q -m uuid=5f0e",
        BTRFS: "mkfs.btrfs -q",
        NOCOW: "mkfs.btrfs -q",
    }.items()
}


def _series(rng: random.Random, level: float, seconds: int = 30) -> tuple[tuple[float, float], ...]:
    ramp = [1 - 0.4 * math.exp(-t / 2) for t in range(seconds)]
    return tuple((float(t), level * ramp[t] * rng.lognormvariate(0, 0.05)) for t in range(seconds))


def fio_trial(rng: random.Random, stack: str, speed: float, **place: int) -> TrialResult:
    iops = speed * rng.lognormvariate(0, 0.03)
    base_ms = 32_000 / iops
    metrics = {"iops": iops, "read_bw": iops * 0.75 * 4 / 1024}
    for way, factor in (("read", 1.0), ("write", 1.6)):
        for p, times in PERCENTILES.items():
            metrics[f"{way}_clat_{p}"] = base_ms * factor * times * rng.lognormvariate(0, 0.05)
    return _trial(rng, stack, FIO.text, metrics, {"iops": _series(rng, iops)}, iops * 30 * 4096, **place)


def dd_trial(rng: random.Random, stack: str, speed: float, **place: int) -> TrialResult:
    rate = 240 * (speed / 4000) ** 0.2 * rng.lognormvariate(0, 0.02)
    metrics = {"throughput": rate, "duration": 4096 / rate}
    return _trial(
        rng, stack, DD.text, metrics, {"disk.write_bytes": _series(rng, rate * (1 << 20), 17)}, 4 << 30, **place
    )


def _trial(
    rng: random.Random,
    stack: str,
    workload: str,
    metrics: Mapping[str, float],
    series: Mapping[str, tuple[tuple[float, float], ...]],
    written: float,
    *,
    visit: int,
    turn: int,
) -> TrialResult:
    amplification = (1.9 if "btrfs" in stack else 1.1) * rng.lognormvariate(0, 0.02)
    machine = {
        "host.cpu_user_s": 2.1 * rng.lognormvariate(0, 0.05),
        "host.cpu_system_s": (9.0 if "btrfs" in stack else 5.0) * rng.lognormvariate(0, 0.05),
        "host.cpu_iowait_pct": 41.0 * rng.lognormvariate(0, 0.05),
        "host.cpu_per_io_us": 58.0 * rng.lognormvariate(0, 0.05),
        "disk.read_bytes": float(int(written * 0.7)),
        "disk.write_bytes": float(int(written * amplification)),
        "disk.write_amplification": amplification,
        "psi.io_some_pct": 63.0 * rng.lognormvariate(0, 0.05),
    }
    return TrialResult(
        visit=visit,
        stack=stack,
        round=turn,
        order=visit,
        workload=workload,
        outcome=Outcome.OK,
        reason=None,
        started_at=1_790_000_000.0 + 90 * visit,
        wall_s=31.0,
        metrics={**metrics, **machine},
        series=series,
        flags=("unsteady",) if stack == BTRFS and turn == 1 else (),
        notes=(),
    )


def run_of(speed: Mapping[str, float], rounds: int = 5, seed: int = 7) -> View:
    """Every stack of `speed` (stack -> IOPS) measured `rounds` times under both workloads."""
    rng = random.Random(seed)
    trials: list[TrialResult] = []
    steps: list[StepTime] = []
    visit = 0
    for turn in range(rounds):
        for stack in rng.sample(list(speed), len(speed)):
            trials.append(fio_trial(rng, stack, speed[stack], visit=visit, turn=turn))
            trials.append(dd_trial(rng, stack, speed[stack], visit=visit, turn=turn))
            layers = stack.split(" | ")
            for layer in layers:
                why = "attach the sparse file as a loop device" if layer == "disk" else f"make the {layer} file system"
                steps.append(StepTime(visit, stack, layer, why, rng.uniform(0.02, 0.4), rng.uniform(0.01, 0.1)))
            visit += 1
    return View(
        campaign="file systems on one disk",
        about="Which file system for VM images on a single disk?",
        seed=seed,
        rule=Rule(rounds=rounds),
        stacks=tuple(speed),
        workloads=(FIO, DD),
        trials=tuple(trials),
        steps=tuple(steps),
        skipped=(),
        failed=(),
        events=(Event(1_790_000_000.0, "decision", f"visit every stack once a round, {rounds} rounds"),),
        visits_planned=visit,
        visits_done=visit,
        facts=FACTS,
        versions={"strata": "0.1.0", "fio": "fio-3.39", "mkfs.ext4": "1.47.2"},
        commands={stack: COMMANDS.get(stack, ("mkfs " + stack,)) for stack in speed},
        disks=(Disk("disk", 8 << 30),),
        machine_metrics=MACHINE,
    )


def ordinary() -> View:
    """Four stacks, two workloads, five rounds; one stack skipped, one visit failed, one trial failed."""
    view = run_of(SPEED)
    dropped = next(trial.visit for trial in view.trials if trial.stack == NOCOW and trial.round == 3)
    broken = next(trial.visit for trial in view.trials if trial.stack == EXT4 and trial.round == 4)
    full = "`dd` ended with exit code 1: No space left on device"
    trials = tuple(
        replace(trial, outcome=Outcome.FAILED, reason=full, metrics={}, series={})
        if trial.visit == broken and trial.workload == DD.text
        else trial
        for trial in view.trials
        if trial.visit != dropped
    )
    return replace(
        view,
        stacks=(*view.stacks, F2FS),
        trials=trials,
        skipped=(Skipped(F2FS, ("This kernel has no f2fs: load the module f2fs or use another kernel.",)),),
        failed=(FailedVisit(dropped, NOCOW, 2, "`mount` ended with exit code 32: wrong fs type"),),
        events=(
            *view.events,
            Event(1_790_001_000.0, "interrupted", "stopped by ^C"),
            Event(1_790_002_000.0, "resumed", "went on at visit 12"),
        ),
        visits_planned=20,
        visits_done=20,
    )


CAVEAT = "Measured in an emulated machine: figures are functional, not performance."
CONSOLE = "[   12.3] Kernel panic - not syncing: <b>Fatal exception</b>"


def in_the_lab(clock: str = "real") -> View:
    """Of `ordinary`, with a layer that reports figures of its own, machines that were lost, and what a failure left."""
    view = ordinary()
    broken = next(trial for trial in view.trials if trial.outcome is Outcome.FAILED)
    told = {"vdo.physical_bytes": 3.0 * 2**30, "vdo.saved_pct": 25.0, "vdo.write_bytes": 2.0**20}
    trials = tuple(
        replace(trial, metrics={**trial.metrics, **told}) if trial.stack == XFS and trial.metrics else trial
        for trial in view.trials
    )
    assert view.facts is not None
    lab = Testbed("lab", features=frozenset({"zfs"}))
    return replace(
        view,
        trials=trials,
        facts=replace(view.facts, caveats=(CAVEAT,)),
        testbed=lab if clock == "real" else replace(lab, clock="virtual", memory_bytes=8 << 30, cpus=1),
        versions={**view.versions, "qemu": "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-1)"},
        disks=(*(Disk("hdd", 8 << 30, None, "hdd-7200", "volatile") for _ in range(4)), Disk("ssd", 4 << 30)),
        machine_metrics={
            **MACHINE,
            "vdo.write_bytes": Metric("vdo.write_bytes", "bytes", "lower", "bytes written, devices of the layer vdo"),
            "vdo.physical_bytes": Metric("vdo.physical_bytes", "bytes", "lower", "bytes that it stores"),
            "vdo.saved_pct": Metric("vdo.saved_pct", "%", "higher", "share that it saves"),
        },
        losses=(
            Loss(view.trials[0].visit, view.trials[0].stack, 0, "QEMU ended", ""),
            Loss(view.failed[0].visit, NOCOW, 2, "the guest kernel panicked", CONSOLE),
            Loss(99, XFS, 4, "nothing was heard for 30 s", ""),
        ),
        evidence=(
            Evidence(broken.visit, broken.stack, broken.workload, "dd bs=1M", 1, "", "dd: <i>No space</i> left"),
            Evidence(broken.visit, broken.stack, FIO.text, "fio", 1, "", "of another trial"),
        ),
    )


def all_skipped() -> View:
    view = run_of(SPEED, rounds=0)
    return replace(
        view,
        skipped=tuple(Skipped(stack, ("fio is missing: install the package fio.",)) for stack in view.stacks),
        commands={},
        steps=(),
    )


def many(count: int, rounds: int = 2) -> View:
    """A hundred stacks and more; names long enough to need wrapping."""
    below = "4*hdd | md(raid10, chunk={}K) | lvmthin(zero=off) | ext4(noatime, mkfs='-E stride={}')"
    return run_of({below.format(8 << (i % 8), i): 1000.0 + 25 * i for i in range(count)}, rounds)


def without_metric(view: View, names: Sequence[str], stack: str | None = None) -> View:
    """The same run in which `stack` (None: every stack) never reported these figures."""
    return replace(
        view,
        trials=tuple(
            replace(trial, metrics={n: v for n, v in trial.metrics.items() if n not in names})
            if stack in (None, trial.stack)
            else trial
            for trial in view.trials
        ),
    )
