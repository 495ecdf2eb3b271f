"""A hundred containers at once on each engine: that they all run, how long each step takes, and what one more costs.

    python benchmarks/many_containers.py [--count 100] [--parallel 4] [--on lab]    root, or the lab; a JSON line each

The engines are podman(overlay), docker(overlay2) and containerd(overlayfs) on ext4, one visit each: it shows that it
works and its order of magnitude, and ranks nothing. Exits with 1 when a container of any of them did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from strata.model import Outcome
from strata.store import reader

ENGINES = ("podman", "docker", "containerd")
IMAGE = "files=100, size=4M"


def main(count: int, parallel: int, where: str) -> int:
    strata = str(Path(sys.executable).with_name("strata"))
    failed = 0
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as folder:
            loads = [
                f"container/lifecycle({count}, parallel={parallel}, {IMAGE})",
                f"container/density({count}, {IMAGE})",
            ]
            argv = [strata, "run", f"disk | ext4 | {engine}", "--size", "disk=8G", "--rounds", "1", "--on", where,
                    "--out", f"{folder}/run", *(word for load in loads for word in ("-w", load))]  # fmt: skip
            subprocess.run(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            view = reader.view(Path(folder) / "run")
        said = [*(visit.reason for visit in view.failed), *(why for skip in view.skipped for why in skip.reasons)]
        figures: dict[str, float] = {}
        for trial in view.trials:
            if trial.outcome is not Outcome.OK:
                said.append(trial.reason or "invalid")
            # density starts them one after another: of that only what each takes
            wanted = ("_per_container",) if "density" in trial.workload else ("_s", "_p99_ms")
            figures |= {name: round(value, 2) for name, value in trial.metrics.items() if name.endswith(wanted)}
        failed += bool(said) or not figures
        line = {"engine": engine, "count": count, "parallel": parallel, "load": os.getloadavg()[0]}
        print(json.dumps(line | ({"failed": said} if said else {}) | figures), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--on", default="local")
    options = parser.parse_args()
    sys.exit(main(options.count, options.parallel, options.on))
