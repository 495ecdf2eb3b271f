"""Files of strangers that commands read, and files that they write where strangers may have put links."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.campaign import Campaign
from strata.cli import disk, kept, page_file, report, verdict, written
from strata.errors import BadInput, Refused
from strata.model import Rule, View
from strata.report import joined, jsonform, markdown
from strata.store import reader


def test_a_page_replaces_a_link_and_never_follows_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    page = tmp_path / "run" / "report.html"
    page.parent.mkdir()
    page.symlink_to(victim)
    page.with_name("report.html.new").symlink_to(victim)
    page_file.write(page, "<p>the report</p>")
    assert (page.read_text(), page.is_symlink(), victim.read_text()) == ("<p>the report</p>", False, "precious")
    assert page.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        page_file.write(tmp_path / "report.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_keeps_the_mode_of_the_file_that_it_replaces_and_is_closed_to_others(tmp_path: Path) -> None:
    for mode, left in ((0o600, 0o600), (0o700, 0o700), (0o666, 0o644)):
        page = tmp_path / f"{mode:o}"
        page.touch()
        page.chmod(mode)
        page_file.write(page, "text")
        assert page.stat().st_mode & 0o777 == left & ~_umask()
    before = os.umask(0)
    try:
        page_file.write(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_a_new_file_replaces_nothing_and_follows_no_link(tmp_path: Path) -> None:
    link, nowhere = tmp_path / "link", tmp_path / "nowhere"
    link.symlink_to(nowhere)
    with pytest.raises(FileExistsError):
        page_file.create(link, "text")
    assert link.is_symlink() and not nowhere.exists()


def test_a_probe_refuses_a_link_in_the_place_of_its_model_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match=r"mine.yaml is there already"):
        disk.run_probe(None, str(tmp_path / "scratch"), "64M", str(tmp_path / "mine.yaml"), 0.3)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_standard_output_and_devices_are_written_to_and_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Rename is refused first: a mistake here must not replace a device of the machine that runs the tests.
    monkeypatch.setattr(Path, "replace", _no_rename)
    for path in (Path("/dev/stdout"), Path("/dev/fd/1"), Path("/proc/self/fd/1")):
        page_file.write(path, "the report\n")
        assert capfd.readouterr().out == "the report\n"
    (tmp_path / "devices").symlink_to("/dev")
    for path in (Path("/dev/null"), tmp_path / "devices" / "null"):
        page_file.write(path, "the report\n")
        assert Path("/dev/null").is_char_device()


def _no_rename(self: Path, target: Path) -> None:
    raise AssertionError(f"{target} would be replaced by {self}")


def test_a_pipe_is_written_to_and_one_without_a_reader_makes_nobody_wait(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"):
        page_file.write(pipe, "the report")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        page_file.write(pipe, "the report")
        assert os.read(reader, 100) == b"the report"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_socket_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(Refused, match="socket is a socket"):
            page_file.write(tmp_path / "socket", "text")
        assert [path.name for path in tmp_path.iterdir()] == ["socket"]


@pytest.mark.parametrize("form", ["json", "markdown", "joined"])
def test_a_report_replaces_a_link_and_never_follows_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_text("precious")
    out.symlink_to(victim)
    for module in (jsonform, markdown):
        monkeypatch.setattr(module, "render", lambda model: "the report")
    monkeypatch.setattr(verdict, "model_of", lambda *a, **k: SimpleNamespace(verdict=SimpleNamespace(sentence="")))
    monkeypatch.setattr(reader, "view", lambda directory: None)
    monkeypatch.setattr(joined, "build", lambda views, said: joined.Joined((), (), ()))
    if form == "joined":
        report.joined_report([tmp_path / "a", tmp_path / "b"], "json", out, report.Beside())
    else:
        report.report(tmp_path, form, out, report.Beside())
    assert victim.read_text() == "precious" and not out.is_symlink() and out.read_text()


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_campaign_names_only_regular_files_of_a_bounded_size(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, campaign = tmp_path / "job.fio", tmp_path / "campaign.yaml"
    if kind == "pipe":
        os.mkfifo(job)
    else:
        monkeypatch.setattr(written, "_MOST_BYTES", 1000)
        job.write_text("[job]\nrw=read\nsize=1M\n" + "# more\n" * 500)
    campaign.write_text("stacks: [disk | ext4]\nworkloads: ['fio:job.fio']\n")
    with pytest.raises(BadInput, match=r"regular file|larger than"):
        written.campaign([str(campaign)], [], [])


_SECRET = "root:$y$secret:20228:0:99999:7:::\n" * 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stranger's directory with a campaign, and beside it what only root may read."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "shadow").write_text(_SECRET)
    own = tmp_path / "camp"
    (own / "jobs").mkdir(parents=True)
    (own / "jobs" / "real.sh").write_text("echo mine\n")
    (own / "link.sh").symlink_to("../secret/shadow")
    (own / "jobs" / "out").symlink_to(tmp_path / "secret")
    (own / "inside.sh").symlink_to("jobs/real.sh")
    return own


def _of(folder: Path, workload: str, more: str = "") -> Campaign:
    (folder / "c.yaml").write_text(f"stacks: [disk | ext4]\nworkloads: ['{workload}']\n{more}")
    return written.campaign([str(folder / "c.yaml")], [], [])


@pytest.mark.parametrize("family", ["command:", "fio:", "wml:", "vagrant:"])
@pytest.mark.parametrize("name", ["link.sh", "jobs/out/shadow", "../secret/shadow", "{secret}"])
def test_a_campaign_takes_no_file_from_outside_its_directory(folder: Path, family: str, name: str) -> None:
    """A link to /etc/shadow, run by root, ended in a database that others may read."""
    name = name.format(secret=folder.parent / "secret" / "shadow")
    with pytest.raises(BadInput, match="does not lie below the directory of the campaign") as caught:
        _of(folder, f'{family}"{name}"')
    assert "$y$" not in str(caught.value)


def test_a_campaign_takes_no_disk_model_from_outside_its_directory(folder: Path) -> None:
    (folder / "mine.yaml").symlink_to("../secret/shadow")
    (folder / "c.yaml").write_text("testbed: lab\nstacks: [disk]\ndisks: {disk: {model: mine.yaml}}\n")
    with pytest.raises(BadInput, match="does not lie below the directory of the campaign"):
        written.campaign([str(folder / "c.yaml")], [], [])


@pytest.mark.parametrize("name", ["jobs/real.sh", "inside.sh", "jobs/../inside.sh"])
def test_a_campaign_takes_files_below_its_directory(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = _of(folder, f"command:{name}").workloads
    assert (call["content"], call["file"]) == ("echo mine\n", str(folder / name))
    monkeypatch.chdir(folder)
    assert written.campaign(["c.yaml"], [], []).workloads[0]["content"] == "echo mine\n"


def test_a_file_that_becomes_a_link_while_it_is_looked_at_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = written.os.path.realpath

    def swapped(path: Path, *, strict: bool = False) -> str:
        found = str(resolved(path, strict=strict))
        if strict:
            (folder / "jobs" / "real.sh").unlink()
            (folder / "jobs" / "real.sh").symlink_to(folder.parent / "secret" / "shadow")
        return found

    monkeypatch.setattr(written.os.path, "realpath", swapped)
    with pytest.raises(BadInput, match="cannot read"):
        _of(folder, "command:jobs/real.sh")


def test_a_file_on_the_command_line_may_lie_anywhere(folder: Path) -> None:
    _of(folder, "null")
    load = f"command:{folder.parent}/secret/shadow"
    for what in (str(folder / "c.yaml"), "disk | ext4"):
        (call,) = written.campaign([what], [load], []).workloads
        assert (call["content"], call["file"]) == (_SECRET, f"{folder.parent}/secret/shadow")


def test_a_text_of_the_campaign_is_at_no_path(folder: Path) -> None:
    """`plan` named a harmless file of that name, and the text under `files:` was executed."""
    (call,) = _of(folder, "command:bench.sh", "files: {bench.sh: id}\n").workloads
    assert call["content"] == "id" and "file" not in call.values


def test_a_text_of_the_campaign_and_another_one_beside_it_are_refused(folder: Path) -> None:
    (folder / "bench.sh").write_text("true\n")
    with pytest.raises(BadInput, match=r"holds a text of bench\.sh under files:, and .*/bench\.sh has another content"):
        _of(folder, "command:bench.sh", "files: {bench.sh: id}\n")
    (folder / "bench.sh").write_text("id")
    (call,) = _of(folder, "command:bench.sh", "files: {bench.sh: id}\n").workloads
    assert "file" not in call.values


def test_a_stack_of_a_stored_run_is_one_stack() -> None:
    matrix = "disk | {ext4, xfs}"
    view = View("c", "", 1, Rule(), (matrix,), (), (), (), (), (), (), 0, 0, None, {}, {}, ())
    with pytest.raises(BadInput, match="a matrix of 2 stacks"):
        kept.stacks(view, "run")
