"""The files of a trial, which in a container only its own commands see."""

from __future__ import annotations

import pytest
from tests.fake_host import FakeHost

from strata.errors import VisitFailed
from strata.model import Command, Completed
from strata.run import trial_files

INSIDE = ("client", "exec", "box")


class Container(FakeHost):
    def __init__(self, exit_code: int = 0, stdout: str = "", stderr: str = "") -> None:
        super().__init__()
        self._said = (exit_code, stdout, stderr)

    def run(self, command: Command, *, check: bool = True) -> Completed:
        super().run(command, check=check)
        return Completed(command.argv, *self._said, 0.0)


def test_a_file_is_written_in_the_container_and_not_outside() -> None:
    host = Container()
    trial_files.write(host, INSIDE, "/scratch/job", "text")
    (command,) = host.commands
    assert command.argv[:3] == INSIDE and command.argv[-2:] == ("/scratch/job", "text")
    assert host.files == {}


def test_a_large_file_is_written_in_words_that_the_kernel_takes() -> None:
    content = "\N{GRINNING FACE}" * 100_000
    commands = list(trial_files.writing(INSIDE, "/scratch/job", content))
    assert "".join(command.argv[-1] for command in commands) == content
    assert max(len(command.argv[-1].encode()) for command in commands) < 128 << 10
    assert [">>" in command.argv[5] for command in commands] == [False, *[True] * (len(commands) - 1)]


def test_a_file_is_read_in_the_container_and_not_outside() -> None:
    host = Container(stdout="inside")
    host.files["/scratch/report"] = "outside"
    assert trial_files.read(host, INSIDE, "/scratch/report") == "inside"
    assert trial_files.read(host, (), "/scratch/report") == "outside"
    assert trial_files.read(Container(66), INSIDE, "/scratch/report") is None
    with pytest.raises(VisitFailed, match="cannot read /scratch/report: Permission denied"):
        trial_files.read(Container(1, stderr="Permission denied\n"), INSIDE, "/scratch/report")
