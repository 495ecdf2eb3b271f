from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.users_machine import UsersMachine, make_users_machine

from .engine_runs import STRATA


@pytest.fixture(autouse=True)
def cleaned(tmp_path: Path) -> Iterator[None]:
    """A test that fails in the middle leaves no engine on the machine."""
    yield
    for database in tmp_path.glob("**/strata.db"):
        subprocess.run((STRATA, "clean", str(database.parent)), check=False, capture_output=True)


@pytest.fixture(autouse=True)
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("engines are private instances that only root can start: run as root")


@pytest.fixture
def users_machine(tmp_path: Path) -> Iterator[UsersMachine]:
    with make_users_machine(tmp_path) as machine:
        yield machine
