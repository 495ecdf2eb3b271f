"""Files of strangers that commands read, and files that they write where strangers may have put links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.cli import kept, page_file, written
from strata.errors import BadInput
from strata.model import Rule, View


def test_a_page_replaces_a_link_and_never_follows_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    page = tmp_path / "run" / "report.html"
    page.parent.mkdir()
    page.symlink_to(victim)
    page.with_name("report.html.new").symlink_to(victim)
    page_file.write(page, "<p>the report</p>")
    assert (page.read_text(), page.is_symlink(), victim.read_text()) == ("<p>the report</p>", False, "precious")
    assert page.stat().st_mode & 0o077 == 0o077 & ~_umask() & 0o666


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        page_file.write(tmp_path / "report.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("kind", ["pipe", "device", "endless"])
def test_a_campaign_names_only_regular_files_of_a_bounded_size(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, campaign = tmp_path / "job.fio", tmp_path / "campaign.yaml"
    if kind == "pipe":
        os.mkfifo(job)
    elif kind == "device":
        job.symlink_to("/dev/zero")
    else:
        monkeypatch.setattr(written, "_MOST_BYTES", 1000)
        job.write_text("[job]\nrw=read\nsize=1M\n" + "# more\n" * 500)
    campaign.write_text("stacks: [disk | ext4]\nworkloads: ['fio:job.fio']\n")
    with pytest.raises(BadInput, match=r"regular file|larger than"):
        written.campaign([str(campaign)], [], [])


def test_a_stack_of_a_stored_run_is_one_stack() -> None:
    matrix = "disk | {ext4, xfs}"
    view = View("c", "", 1, Rule(), (matrix,), (), (), (), (), (), (), 0, 0, None, {}, {}, ())
    with pytest.raises(BadInput, match="a matrix of 2 stacks"):
        kept.stacks(view, "run")
