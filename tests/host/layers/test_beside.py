"""The daemon in the lab that serves the disk of a guest beside it: started, read back and ended, on this machine."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.layers import _beside
from strata.layers._device import fields
from strata.model import Beside, Command, Completed, Place

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(
        shutil.which(_beside.DAEMON) is None, reason="qemu-storage-daemon is not installed; apt-get install qemu-utils"
    ),
]


def done(command: Command) -> Completed:
    ended = subprocess.run(command.argv, capture_output=True, text=True, timeout=60)
    return Completed(command.argv, ended.returncode, ended.stdout, ended.stderr, 0.0)


def test_the_daemon_is_found_alone_and_gone_after_its_end(tmp_path: Path) -> None:
    image = tmp_path / "an image, of mine"
    image.write_bytes(bytes(1 << 20))
    work = tmp_path / "work"
    work.mkdir()
    place = Place("strata-test-1", str(work), "5f8e1c3a-0000-4000-8000-000000000001")
    place = dataclasses.replace(place, beside=Beside(str(tmp_path / "beside"), 40001, 0))
    nodes = ["-blockdev", f"driver=file,node-name=disk,filename={str(image).replace(',', ',,')},cache.direct=off"]
    asked = _beside.daemon(place, nodes, "disk", writethrough=False)
    step = _beside.export(place, nodes, "disk", writethrough=False)
    assert step.undo is not None
    started = done(step.do)
    assert started.exit_code == 0, started.stderr
    try:
        # Ten times: whoever finds itself as well is sometimes the first and sometimes the last.
        for _ in range(10):
            found = fields([done(_beside.show(place, str(image)))], 0)
            assert len(found["process"]) == 1
            assert found["argument"] == asked
            assert len(found["flags"]) == 1
    finally:
        assert done(step.undo).exit_code == 0
    assert "process" not in fields([done(_beside.show(place, str(image)))], 0)
