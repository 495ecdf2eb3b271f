"""The workload engine against the plain loop of the same system calls, on tmpfs; and a file set of ten million entries.

    python benchmarks/wml_speed.py [--seconds 3] [--rounds 9] [--against ENGINE]

With --against: this engine against another build of it, and nothing else; oltp too, with 100 readers: each opens up to
128 files, and all threads of an engine share one table of descriptors. For the engine of an earlier commit build it in
another checkout: cargo build --release -p strata-engine.

Builds both in release. They take turns, so that other load on the machine meets both. Prints, for each workload and
number of threads, the ratio of operations per second (engine to plain loop, median over the rounds), CPU time per
operation of both and the engine's peak memory. Ends with exit code 1 when a median ratio is below 0.9, or the layout
misses its bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST_RATIO = 0.9
LAYOUT_FILES = 10_000_000
LAYOUT_BYTES_PER_FILE = 64
LAYOUT_SECONDS = 20.0
# more files than published, so that no run ends early: with 100 threads of varmail one delete in a hundred finds its
# file open and is skipped, so the set fills up
FILES = {"varmail": 60_000, "fileserver": 30_000, "webserver": 1_000}
OLTP_READERS = 100
ROTATING = ("first", "second"), ("second", "first")


def build() -> tuple[str, str]:
    argv = ["cargo", "build", "--release", "--locked", "-p", "strata-engine", "--bins", "--examples"]
    subprocess.run([*argv, "--quiet"], cwd=ROOT, check=True)
    meta = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    target = Path(json.loads(meta.stdout)["target_directory"]) / "release"
    return str(target / "strata-engine"), str(target / "examples" / "wml_plain_loop")


def engine_run(engine: str, directory: str, name: str, threads: int, seconds: int, stage: str) -> dict[str, object]:
    argv = [engine, "wml", "run", f"builtin:{name}", f"--dir={directory}", f"--seconds={seconds}", f"--stage={stage}"]
    if name in FILES:
        argv += [f"--set=nthreads={threads}", f"--set=nfiles={FILES[name]}"]
    else:
        argv += [f"--set=nshadows={threads}"]
    argv += ["--json"]
    found: dict[str, object] = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return found


def compare(engine: str, plain: str, name: str, threads: int, seconds: int, rounds: int) -> float:
    ratios, cpu_engine, cpu_plain, peaks = [], [], [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for number in range(rounds):
            for which in ("engine", "plain") if number % 2 else ("plain", "engine"):
                engine_run(engine, directory, name, threads, seconds, "create")
                if which == "engine":
                    report = engine_run(engine, directory, name, threads, seconds, "run")
                    engine_ops = float(report["summary"]["per_s"])  # type: ignore[index]
                    cpu_engine.append(float(report["cpu"]["us_per_op"]))  # type: ignore[index]
                    peaks.append(int(report["peak_memory_bytes"]))  # type: ignore[call-overload]
                else:
                    argv = [plain, name, directory, str(FILES[name]), str(threads), str(seconds)]
                    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
                    plain_ops = float(said[0])
                    cpu_plain.append(float(said[1]))
            ratios.append(engine_ops / plain_ops)
    ratio = statistics.median(ratios)
    print(
        f"{name:10} {threads:4} threads: ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}), CPU per operation "
        f"{statistics.median(cpu_engine):.2f} us to {statistics.median(cpu_plain):.2f} us, "
        f"peak memory {max(peaks) / (1 << 20):.0f} MiB",
        flush=True,
    )
    return ratio


def against(engine: str, other: str, name: str, threads: int, seconds: int, rounds: int) -> None:
    """Print the ratios of operations per second, and of processor time per operation, of two engines, in pairs."""
    ratios, cpu_ratios = [], []
    per_s: dict[str, list[float]] = {"first": [], "second": []}
    cpu: dict[str, list[float]] = {"first": [], "second": []}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for number in range(rounds):
            for which in ROTATING[number % 2]:
                program = engine if which == "first" else other
                engine_run(program, directory, name, threads, seconds, "create")
                report = engine_run(program, directory, name, threads, seconds, "run")
                per_s[which].append(float(report["summary"]["per_s"]))  # type: ignore[index]
                cpu[which].append(float(report["cpu"]["us_per_op"]))  # type: ignore[index]
            ratios.append(per_s["first"][-1] / per_s["second"][-1])
            cpu_ratios.append(cpu["first"][-1] / cpu["second"][-1])
    print(
        f"{name:10} {threads:4} threads: {statistics.median(per_s['first']):,.0f} operations/s, the other engine "
        f"{statistics.median(per_s['second']):,.0f}, ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to "
        f"{max(ratios):.3f}); CPU per operation {statistics.median(cpu_ratios):.3f} ({min(cpu_ratios):.3f} to "
        f"{max(cpu_ratios):.3f})",
        flush=True,
    )


def layout(engine: str) -> bool:
    """Lays out ten million files; `check` does that and nothing else."""
    argv = [engine, "wml", "check", "builtin:fileserver", f"--set=nfiles={LAYOUT_FILES}"]
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - began
    per_file = usage.ru_maxrss * 1024 / LAYOUT_FILES
    print(f"layout of {LAYOUT_FILES} files: {took:.1f} s, {per_file:.1f} bytes a file", flush=True)
    return process.returncode == 0 and took < LAYOUT_SECONDS and per_file < LAYOUT_BYTES_PER_FILE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", metavar="ENGINE", help="another build of strata-engine to compare with")
    given = parser.parse_args()
    engine, plain = build()
    if given.against:
        for name, threads in (*((name, threads) for name in FILES for threads in (1, 16)), ("oltp", OLTP_READERS)):
            against(engine, given.against, name, threads, given.seconds, given.rounds)
        return 0
    good = layout(engine)
    for name in FILES:
        for threads in (1, 16, 100):
            good &= compare(engine, plain, name, threads, given.seconds, given.rounds) >= LEAST_RATIO
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
