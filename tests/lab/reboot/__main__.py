"""Boots every case, and writes what is observed: python -m tests.lab.reboot tests/lab/reboot/last.json [CASE ...]"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.lab_runs import built

from strata.lab.scratch import scratch

from . import boots
from .cases import CASES, made

file, *names = sys.argv[1:]
stacks = [made(name) for name in names or CASES]
with scratch("reboot") as directory:
    observed = boots.observe(boots.machine(built("zfs"), directory), stacks)
record = {
    "command": " ".join(("python -m tests.lab.reboot", *sys.argv[1:])),
    "day": datetime.now(UTC).date().isoformat(),
    "stacks": {each.name: {**asdict(each.case), "stack": each.recipe.stack} for each in stacks},
    "observed": {
        situation: {name: asdict(seen) for name, seen in each.items()} for situation, each in observed.items()
    },
}
Path(file).write_text(json.dumps(record, indent=1) + "\n")
