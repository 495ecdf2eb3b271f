"""Boots every case, and writes what is observed: python -m tests.lab.reboot FILE [CASE ...]"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.lab_runs import built

from strata.lab.scratch import scratch

from . import boots
from .cases import CASES, made

file, *names = sys.argv[1:]
stacks = [made(name) for name in names or CASES]
with scratch("reboot") as directory:
    observed = boots.observe(boots.machine(built("zfs"), directory), stacks)
command = " ".join(("python -m tests.lab.reboot", *sys.argv[1:]))
Path(file).write_text(boots.record(command, stacks, observed))
