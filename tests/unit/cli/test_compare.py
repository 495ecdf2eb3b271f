"""`strata compare` with a published study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata import published
from strata.cli import compare


@pytest.mark.parametrize("as_json", [False, True])
def test_published_alone_lists_the_studies(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare.reader, "view", lambda directory: None)
    compare.compare(Path("run"), "published:", False, as_json)
    text = capsys.readouterr().out
    if as_json:
        assert [study["name"] for study in json.loads(text)["studies"]] == list(published.names())
    else:
        assert [line.split()[0] for line in text.splitlines()] == [f"published:{name}" for name in published.names()]
