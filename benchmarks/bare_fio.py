"""Does Strata change what it measures? fio by hand and fio by Strata, in pairs, on the same file.

    python benchmarks/bare_fio.py                     on a loop device throttled to 500 reads per second (root)
    python benchmarks/bare_fio.py --directory DIR     on a disk of yours

Each pair runs both, in alternating order; pairs are added until the 95 % interval of the ratio by Strata / by hand
(Student's t on the paired log ratios) lies inside 0.98 to 1.02, or --pairs have been run. Exit code 0 when it does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t as student

from strata.hosts.local import LocalHost
from strata.model import Call, Kind, Outcome, Target
from strata.planning import trial_steps
from strata.run.trials import trial
from strata.units import format_size, parse_size
from strata.workloads import find, workloads

WORKLOAD = "fio/randread-4k-qd32"
LOW, HIGH = 0.98, 1.02
LEAST_PAIRS = 5
LIMIT_IOPS = 500
BLKIO = Path("/sys/fs/cgroup/blkio")


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    with tempfile.TemporaryDirectory(prefix="bare-fio-") as folder:
        if options.directory is not None:
            return _compare(options, options.directory, Path(folder))
        if os.geteuid() != 0 or not (BLKIO / "blkio.throttle.read_iops_device").exists():
            print("skipped: this needs root and cgroup v1's blkio.throttle; give a directory with --directory")
            return 0
        with _throttled_file_system(Path(folder)) as directory:
            return _compare(options, directory, Path(folder))


def _compare(options: argparse.Namespace, directory: Path, folder: Path) -> int:
    host = LocalHost("bare-fio")
    bench = trial.Bench(host, (), 1 << 30, frozenset())
    values = {param.name: param.default for param in workloads()[WORKLOAD].info.params}
    call = Call(WORKLOAD, WORKLOAD, {**values, "runtime": options.seconds, "size": options.size})
    target = Target(Kind.DIRECTORY, str(directory), None)
    by_strata(bench, call, target, folder)  # lays the file out; not counted
    ratios: list[float] = []
    for pair in range(options.pairs):
        bare = 0.0
        for strata_now in (bool(pair % 2), not pair % 2):
            if strata_now:
                measured = by_strata(bench, call, target, folder)
            else:
                bare = by_hand(host, call, target)
        ratios.append(math.log(measured / bare))
        low, high = interval(ratios)
        print(f"pair {pair + 1}: by hand {bare:.1f} IOPS, by Strata {measured:.1f}; ratio {low:.4f} to {high:.4f}")
        if len(ratios) >= LEAST_PAIRS and low > LOW and high < HIGH:
            print(f"fio by Strata and fio by hand agree within {LOW} to {HIGH}, from {len(ratios)} pairs")
            return 0
    print(f"the interval is not inside {LOW} to {HIGH} after {options.pairs} pairs; give more, or a quieter machine")
    return 1


def by_strata(bench: trial.Bench, call: Call, target: Target, folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = trial.run(bench, find(call), call, target, scratch, 7)
    if result.outcome is not Outcome.OK or result.figures is None:
        raise SystemExit(f"the trial failed: {result.reason}")
    return result.figures["iops"]


def by_hand(host: LocalHost, call: Call, target: Target) -> float:
    """What somebody types who has no Strata: no engine beside it, no logs."""
    for command in (*trial_steps.flush(target), trial_steps.forget([target.path])):
        host.run(command, check=False)  # dropping is for root
    done = subprocess.run(
        (
            *(
                "fio",
                "--name=bare",
                f"--filename={target.path}/strata.data",
                "--rw=randread",
                "--bs=4k",
                "--iodepth=32",
            ),
            *("--ioengine=libaio", "--direct=1", f"--size={format_size(int(call['size'] or 0))}", "--time_based"),
            *(f"--runtime={round(float(call['runtime'] or 0) * 1000)}ms", "--output-format=json"),
        ),
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]["iops"])


def interval(log_ratios: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the ratio; everything is possible after one pair."""
    if len(log_ratios) < 2:
        return 0.0, math.inf
    half = float(student.ppf(0.975, len(log_ratios) - 1)) * stdev(log_ratios) / math.sqrt(len(log_ratios))
    return math.exp(fmean(log_ratios) - half), math.exp(fmean(log_ratios) + half)


@contextmanager
def _throttled_file_system(folder: Path) -> Iterator[Path]:
    """ext4 on a loop device of ours, and this process in a control group that may read LIMIT_IOPS times a second."""
    image, point = folder / "disk.img", folder / "mnt"
    group = BLKIO / f"strata-bare-fio-{os.getpid()}"
    point.mkdir()
    _tool("truncate", "-s", "256M", str(image))
    device = _tool("losetup", "--find", "--show", "--direct-io=on", str(image))
    try:
        _tool("mkfs.ext4", "-q", "-F", device)
        _tool("mount", device, str(point))
        group.mkdir()
        numbers = _tool("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", device)
        (group / "blkio.throttle.read_iops_device").write_text(f"{numbers} {LIMIT_IOPS}")
        before = _blkio_group()
        (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield point
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        if group.exists():
            group.rmdir()
        if point.is_mount():
            _tool("umount", str(point))
        _tool("losetup", "--detach", device)


def _blkio_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return BLKIO / path.lstrip("/")
    return BLKIO


def _tool(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="an empty directory on the disk to use")
    parser.add_argument("--pairs", type=int, default=40, help="give up after this many (40)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (5)")
    parser.add_argument("--size", type=parse_size, default=32 << 20, help="of the file (32M)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
