"""The removal of a visit's directory stops before anything that is mounted below it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from strata.errors import CommandFailed
from strata.hosts.local import LocalHost
from strata.planning.layout import Layout, directory_step

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")]


def test_a_bind_mount_on_the_same_file_system_is_not_walked_into(tmp_path: Path) -> None:
    mine, visit = tmp_path / "mine", tmp_path / "a visit"
    mine.mkdir()
    (mine / "precious").write_text("mine")
    (visit / "below").mkdir(parents=True)
    undo = directory_step(Layout((), str(visit), f"{visit}/scratch", ())).undo
    assert undo is not None
    subprocess.run(["mount", "--bind", str(mine), str(visit / "below")], check=True)
    try:
        with pytest.raises(CommandFailed, match="still mounted below"):
            LocalHost("test-mounted").run(undo)
        assert (mine / "precious").read_text() == "mine"
    finally:
        subprocess.run(["umount", str(visit / "below")], check=True)
    LocalHost("test-mounted").run(undo)
    assert not visit.exists() and (mine / "precious").exists()
    LocalHost("test-mounted").run(undo)  # nothing there: nothing to do
