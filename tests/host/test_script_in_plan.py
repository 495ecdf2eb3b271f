"""`strata plan` says which script a campaign executes, before anything is executed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from strata.cli.plan import plan
from strata.cli.written import Where

pytestmark = pytest.mark.host


def test_the_script_of_a_campaign_is_named_by_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is relative to the campaign file, wherever the command is started."""
    folder, elsewhere = tmp_path / "campaign", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    for place in (folder, elsewhere):
        (place / "load.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    (folder / "c.yaml").write_text(f"stacks: ['existing({tmp_path})']\nworkloads: ['command:load.sh']\n")
    monkeypatch.chdir(elsewhere)
    for as_json in (False, True):
        plan([str(folder / "c.yaml")], [], [], [], [], Where(), False, as_json)
    text, _, after = capsys.readouterr().out.partition("{")
    who = "root" if os.geteuid() == 0 else "you"
    assert f"executes {folder}/load.sh as {who} on this machine; read it first if it is not yours" in text
    (load,) = json.loads("{" + after)["workloads"]
    assert (load["file"], load["executes_file"]) == (str(folder / "load.sh"), True)
    assert not (tmp_path / "executed").exists()
