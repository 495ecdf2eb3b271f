"""The script that tells the ticks of a kernel, against the C library."""

from __future__ import annotations

import platform
import subprocess
import time

import pytest

from strata import ticks
from strata.hosts.local import LocalHost

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(
        platform.machine() not in {"x86_64", "aarch64", "riscv64", "loongarch64"},
        reason=f"the number of clock_getres(2) is not known on {platform.machine()}",
    ),
]

CLOCK_MONOTONIC_COARSE = 6  # include/uapi/linux/time.h


def test_the_ticks_are_those_of_the_coarse_clock() -> None:
    said = subprocess.run(["sh", "-c", ticks.SHOW], capture_output=True, text=True, check=True)
    assert (said.stderr, int(said.stdout)) == ("", round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE)))
    assert LocalHost("ticks").facts((), "/").ticks_per_s == int(said.stdout)
