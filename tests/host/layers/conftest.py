from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .layer_bench import Bench, undo

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root and loop devices")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(NEEDS_ROOT)
            item.add_marker(pytest.mark.host)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    undo(made.steps, check=False)
    assert made.left_over() == []
