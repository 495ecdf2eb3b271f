"""What virtual seconds cost in real ones, and what a campaign of a hundred stacks would take.

    python benchmarks/exact_cost.py [--stacks 8] [--jobs 1] [--only seconds,campaign]

Real seconds for a virtual one: the same visit with a short and a long trial, and the difference of the two real times
over that of the two virtual ones, so that starting the machine and building the stack are not in it. Once where the
processor is what is waited for (4 KiB at a time on flash), once where the disk is (one of 7200 rpm).

The campaign: so many stacks of campaigns/hundred-stacks.yaml, every n-th of the hundred, are run as its profile `quick`
does, and the mean visit is taken for all hundred. Nothing else should run meanwhile; the load is printed beside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.store import reader

STRATA = str(Path(sys.executable).with_name("strata"))
CAMPAIGN = Path(__file__).parents[1] / "campaigns" / "hundred-stacks.yaml"
LOAD = "fio/randrw-75-25(runtime={runtime}s, size=64M)"
# The model of its disk, and the virtual seconds of the short and the long trial.
TRIALS = {"the processor": ("ssd-sata", 1, 9), "the disk": ("hdd-7200", 5, 60)}
RUNTIME_S = 60  # as its profile `quick` says


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stacks", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="seconds,campaign")
    options = parser.parse_args(argv)
    with TemporaryDirectory(prefix="bench-cost-") as temporary:
        out = Path(temporary)
        visit(out / "boot", ["hdd"], "null", 0, "ssd-sata")  # boots the machine once and saves it
        if "seconds" in options.only.split(","):
            for waited_for, (model, short, long) in TRIALS.items():
                figures = [
                    visit(out / f"{model}-{runtime}", ["hdd | ext4"], LOAD.format(runtime=runtime), runtime, model)
                    for runtime in (short, long)
                ]
                (real, virtual), (more_real, more_virtual) = figures
                ratio = (more_real - real) / (more_virtual - virtual)
                print(f"{waited_for} is waited for: {ratio:.2f} real seconds for a virtual one; {load()}", flush=True)
        if "campaign" in options.only.split(","):
            hundred(out / "hundred", options.stacks, options.jobs)
    return 0


def visit(
    directory: Path, stacks: Sequence[str], workload: str, runtime_s: int, model: str, *options: str
) -> tuple[float, float]:
    """Real seconds of a run with one seed, and the virtual ones that its measured commands ran."""
    began = time.monotonic()
    how = ("--on", "lab", "--clock", "virtual", "--seeds", "1", "--disk", f"hdd={model}", "--size", "hdd=2G")
    subprocess.run(
        [STRATA, "run", *stacks, "-w", workload, *how, *options, "--out", str(directory)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    real = time.monotonic() - began
    # An extended trial ran once as long as requested and once twice as long.
    trials = reader.view(directory).trials
    return real, sum(runtime_s * (3 if "extended" in trial.flags else 1) for trial in trials)


def hundred(directory: Path, count: int, jobs: int) -> None:
    plan = subprocess.run([STRATA, "plan", str(CAMPAIGN), "--json"], check=True, capture_output=True)
    texts = json.loads(plan.stdout)["stacks"]
    chosen = texts[:: max(1, len(texts) // count)][:count]
    cache = ("--write-cache", "hdd=volatile", "--jobs", str(jobs))
    real, virtual = visit(directory, chosen, f"fio/randrw-75-25(runtime={RUNTIME_S}s)", RUNTIME_S, "hdd-7200", *cache)
    each = real / len(chosen)
    print(
        f"{len(chosen)} of {len(texts)} stacks, {jobs} at a time: {real:.0f} s, {each:.1f} s a stack "
        f"({virtual / len(chosen):.0f} virtual seconds measured in each); {len(texts)} would take "
        f"{each * len(texts) / 60:.0f} min; {load()}",
        flush=True,
    )


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
