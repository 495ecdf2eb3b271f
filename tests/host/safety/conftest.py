from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root and loop devices")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(NEEDS_ROOT)
            item.add_marker(pytest.mark.host)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.take_down()
