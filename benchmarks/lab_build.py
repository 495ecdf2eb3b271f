"""How long building a lab takes, and how large it is, as JSON.

    python benchmarks/lab_build.py [--debian 12|13] [--with zfs,...] [--kernel V]

Built into an empty cache of its own, so nothing of an earlier build helps, and then a second time into the same cache
without the labs, as after a change: the modules of ZFS and the lists of the mirror are there then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from strata.hosts.local import LocalHost
from strata.lab import image
from strata.lab.image import Image
from strata.lab.spec import LabSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debian", type=int, default=13)
    parser.add_argument("--with", dest="features", default="")
    parser.add_argument("--kernel")
    options = parser.parse_args()
    features = frozenset(feature for feature in options.features.split(",") if feature)
    spec = LabSpec(options.debian, options.kernel, features)
    with tempfile.TemporaryDirectory(prefix="lab-build-") as folder:
        cache = Path(folder)
        first, first_s, first_cpu_s = timed(spec, cache)
        sizes = packed_bytes(first)
        shutil.rmtree(first.directory)
        _, second_s, second_cpu_s = timed(spec, cache)
    print(
        json.dumps(
            {
                "lab": str(spec),
                "kernel": first.kernel_version,
                "packages": len(first.packages),
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
                "build_s": {"from_nothing": first_s, "again": second_s},
                "build_cpu_s": {"from_nothing": first_cpu_s, "again": second_cpu_s},
                "packed_MB": {name: round(size / 1e6, 1) for name, size in sizes.items()},
            },
            indent=2,
        )
    )


def timed(spec: LabSpec, cache: Path) -> tuple[Image, float, float]:
    """The lab, the wall time and the processor time of the programs that built it, in seconds."""
    began, before = time.monotonic(), os.times()
    built = image.build(spec, cache, LocalHost(image.marker(spec)), lambda line: None)
    after = os.times()
    cpu = sum(getattr(after, name) - getattr(before, name) for name in ("user", "system", "children_user"))
    cpu += after.children_system - before.children_system
    return built, round(time.monotonic() - began, 1), round(cpu, 1)


def packed_bytes(built: Image) -> dict[str, int]:
    """Without the padding of the images."""
    sizes: dict[str, int] = json.loads((built.directory / "lab.json").read_text())["packed_bytes"]
    return sizes | {"all": sum(sizes.values())}


if __name__ == "__main__":
    main()
