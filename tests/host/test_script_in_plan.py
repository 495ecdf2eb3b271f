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


def test_a_script_in_the_campaign_itself_is_named_without_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.yaml").write_text(
        f"stacks: ['existing({tmp_path})']\nworkloads: ['command:load.sh', 'fio:job.fio']\n"
        'files: {load.sh: id, job.fio: "[job]\\nrw=read\\nsize=1M\\n"}\n'
    )
    for as_json in (False, True):
        plan([str(tmp_path / "c.yaml")], [], [], [], [], Where(), False, as_json)
    text, _, after = capsys.readouterr().out.partition("{")
    who = "root" if os.geteuid() == 0 else "you"
    assert f"executes the script load.sh written in this campaign (files:), as {who} on this machine" in text
    assert "read from job.fio written in this campaign (files:)" in text
    assert f"{tmp_path}/load.sh" not in text and f"{tmp_path}/job.fio" not in text
    load, _ = json.loads("{" + after)["workloads"]
    assert (load["file"], load["executes_file"]) == (None, True)
