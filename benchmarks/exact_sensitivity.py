"""How small a difference the exact lab orders: one thing is changed by 1 %, and the seeds that it takes are counted.

    python benchmarks/exact_sensitivity.py [--seeds 8] [--out DIR] [--only latency,mkfs,inodes,kernel]

On the virtual clock there is no noise: a seed gives the same figures for ever. What differs from seed to seed (layout,
order of requests, phase of the interrupts) is the seed spread, and it is what a small difference has to stand out of.
Both stacks of a question run on the same seeds, so their ratio is taken seed by seed.

Printed for each workload: the mean ratio (changed over unchanged, above 1: better) with its 95 % interval over all
seeds, the spread of one stack from seed to seed, the spread of the ratio, and the seeds that order them: the least k so
that the interval over the first k, and over any more, leaves out 1 on the right side. 1 is said where every single seed
orders them rightly. Right is what the change must do, where that is known, else the side of all seeds together.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from strata.analysis.cells import Array
from strata.analysis.scale import primary_table
from strata.analysis.student import t_quantile
from strata.model import WorkloadView
from strata.store import reader

STRATA = str(Path(sys.executable).with_name("strata"))
FIO = "fio/randrw-75-25(iodepth=8, size=32M, runtime=2s)"
DD = "dd/seqwrite-sync(size=64M)"
VARMAIL = "filebench/varmail(runtime=2s, nfiles=500)"


@dataclass(frozen=True)
class Question:
    about: str
    unchanged: str
    changed: str
    slower: bool | None  # whether the change must slow things down; None: not known beforehand
    workloads: tuple[str, ...]


QUESTIONS = {
    "latency": Question(
        "every request takes 1.01 ms instead of 1 ms", "before | ext4", "after | ext4", True, (FIO, DD, VARMAIL)
    ),
    "mkfs": Question(
        "mkfs.ext4 makes a journal of 101 MiB instead of 100, which takes the data too",
        'slow | ext4(data=journal, mkfs="-J size=100")',
        'slow | ext4(data=journal, mkfs="-J size=101")',
        None,  # more can stay in it, but its transactions, a quarter of it, are larger too, and dd waits for whole ones
        (FIO, "dd/seqwrite-sync(size=110M)", "dd/seqwrite-sync(size=160M)", VARMAIL),
    ),
    "inodes": Question(
        "mkfs.ext4 makes 10,100 inodes instead of 10,000",
        "before | ext4(inodes=10000)",
        "before | ext4(inodes=10100)",
        None,
        (FIO, DD, VARMAIL),
    ),
    "kernel": Question(
        "vm.dirty_bytes is 32,320,000 instead of 32,000,000",
        "slow | ext4 | sysctl(vm.dirty_bytes, value=32000000)",
        "slow | ext4 | sysctl(vm.dirty_bytes, value=32320000)",
        False,  # more can be left in memory before a writer waits
        (DD, VARMAIL),
    ),
}
LATENCY_US = {"before": 1000, "after": 1010, "slow": 1000}
BYTES_PER_S = {"slow": 60_000_000}  # where a writer waits for the disk, and not for the processor


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the runs here, and continue with those that are there")
    parser.add_argument("--only", default=",".join(QUESTIONS))
    options = parser.parse_args(argv)
    with TemporaryDirectory(prefix="bench-sensitivity-") as temporary:
        out = options.out or Path(temporary)
        out.mkdir(exist_ok=True)
        for name in options.only.split(","):
            answer(QUESTIONS[name], out / name, options.seeds, options.jobs, _models(out))
    return 0


def _models(directory: Path) -> dict[str, Sequence[str]]:
    """Options that give each role its disk."""
    given: dict[str, Sequence[str]] = {}
    for role, latency_us in LATENCY_US.items():
        path = directory / f"{role}.yaml"
        times = f"read_us: {latency_us}, write_us: {latency_us}, flush_us: {latency_us}"
        bound = f", bytes_per_s: {BYTES_PER_S[role]}" if role in BYTES_PER_S else ""
        service = f"{{servers: 1, {times}{bound}}}"
        path.write_text(
            f"name: one-arm-{latency_us}us\nqueue_depth: 32\nwrite_cache: volatile\nservice: {{fixed: {service}}}\n"
        )
        given[role] = ("--disk", f"{role}={path}", "--size", f"{role}=512M")
    return given


def answer(question: Question, directory: Path, seeds: int, jobs: int, models: Mapping[str, Sequence[str]]) -> None:
    loads = [word for workload in question.workloads for word in ("-w", workload)]
    roles = {stack.split()[0] for stack in (question.unchanged, question.changed)}
    disks = [word for role in sorted(roles) for word in models[role]]
    argv = [STRATA, "run", question.unchanged, question.changed, *loads, *disks, "--on", "lab", "--clock", "virtual"]
    subprocess.run(
        [*argv, "--seeds", str(seeds), "--jobs", str(jobs), "--out", str(directory)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    view = reader.view(directory)
    print(f"\n{question.about}")
    print("| workload | ratio, 95 % | seed spread of one stack | of the ratio | seeds that order them |")
    print("|---|---|---|---|---|")
    for workload in (as_one for each in view.workloads for as_one in _measures(each)):
        table = primary_table(view, workload, view.stacks)
        gaps = table[1] - table[0]  # above 0: the changed one is better
        mean, half = _interval(gaps)
        right = np.sign(gaps.mean()) if question.slower is None else (-1.0 if question.slower else 1.0)
        spread = float(np.std(table[0], ddof=1))
        print(
            f"| `{workload.text}`, {workload.primary.name} | {np.exp(mean):.5f} ({np.exp(mean - half):.5f} to "
            f"{np.exp(mean + half):.5f}) | {100 * spread:.2f} % | {100 * float(np.std(gaps, ddof=1)):.2f} % | "
            f"{_ordering(gaps, float(right))} |"
        )


def _measures(workload: WorkloadView) -> list[WorkloadView]:
    """What decides under a load; of dd also its own figure, which ends when the last write is in memory."""
    more = [metric for name, metric in workload.metrics.items() if name == "dd_throughput"]
    return [workload, *(replace(workload, primary=metric) for metric in more)]


def _interval(gaps: Array) -> tuple[float, float]:
    """Mean and half width of the 95 % interval of paired differences."""
    half = t_quantile(0.975, len(gaps) - 1) * float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5
    return float(gaps.mean()), half


def _ordering(gaps: Array, right: float) -> str:
    if not np.any(gaps):
        return "the same figures bit for bit"
    mean, half = _interval(gaps)
    if np.all(gaps * right > 0) and mean * right > half:
        return f"1 (each of {len(gaps)} does)"
    enough = None
    for seeds in range(len(gaps), 1, -1):
        mean, half = _interval(gaps[:seeds])
        if mean * right <= half:
            break
        enough = seeds
    return str(enough) if enough is not None else f"more than {len(gaps)}"


if __name__ == "__main__":
    raise SystemExit(main())
