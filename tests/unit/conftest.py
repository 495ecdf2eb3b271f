"""Unit tests start no process: what would start one fails at once, also deep inside a library."""

from __future__ import annotations

import os
import subprocess
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

# No test of what is right may depend on how busy the machine is.
settings.register_profile("strata", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("strata")

_STARTERS = ["fork", "forkpty", "popen", "posix_spawn", "posix_spawnp", "system"]
_STARTERS += [name for name in dir(os) if name.startswith(("exec", "spawn"))]


class ProcessStarted(AssertionError):
    pass


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise ProcessStarted("a unit test started a process; use the fake host there, or move the test to tests/host")

    for name in _STARTERS:
        monkeypatch.setattr(os, name, refuse)
    # Below the constructor, which tidies up after a start that failed.
    monkeypatch.setattr(subprocess.Popen, "_execute_child", refuse)
