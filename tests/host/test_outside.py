"""The machine outside a guest, watched while something else goes on: what it saw is read, and nothing of it stays."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.hosts.local import LocalHost
from strata.run.trials.outside import Outside

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

MARK = "test-outside"


@pytest.fixture
def host() -> Iterator[LocalHost]:
    host = LocalHost(MARK)
    yield host
    host.end_strays(MARK)


def test_it_is_seen_from_its_beginning_to_its_end(tmp_path: Path, host: LocalHost) -> None:
    with Outside(host, [], [], str(tmp_path)).watch(60.0) as watch:
        time.sleep(0.5)
    seen = watch.seen()
    assert seen is not None and seen.samples.end["wall_s"] >= 0.5
    assert host.end_strays(MARK) == []


def test_waiting_for_the_end_takes_no_processor_time(tmp_path: Path, host: LocalHost) -> None:
    with Outside(host, [], [], str(tmp_path)).watch(60.0):
        names = [subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout for _ in (1, 2)]
        assert names[0] == names[1] != "", "nothing is started again and again beside what is measured"


def test_an_engine_that_ended_by_itself_keeps_nobody_waiting(tmp_path: Path, host: LocalHost) -> None:
    with Outside(host, [], [], str(tmp_path)).watch(60.0):
        subprocess.run(["pkill", "-f", f"^[^ ]*strata-engine sample --out {tmp_path}"], check=True)
        began = time.monotonic()
    assert time.monotonic() - began < 15, "as long as it waits for an engine that does not end"
