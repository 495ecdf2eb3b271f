"""The machine that carries a guest is watched from a thread; a signal that the thread hears of is not lost."""

from __future__ import annotations

import pytest

from strata.errors import Interrupted
from strata.hosts.fake import FakeHost
from strata.model import Command, Completed
from strata.run.outside import Outside


class Signalled(FakeHost):
    """Its commands are cut short by a signal."""

    def run(self, command: Command, *, check: bool = True) -> Completed:
        raise Interrupted("interrupted by SIGINT")


def test_a_signal_that_the_watch_hears_of_ends_the_trial() -> None:
    outside = Outside(Signalled(), [], [], "/run/visit")
    with pytest.raises(Interrupted), outside.watch(1.0):
        pass


def test_each_watch_has_files_of_its_own() -> None:
    outside = Outside(FakeHost(), [], [], "/run/visit")
    paths = {outside.watch(1.0).path for _ in range(3)}
    assert len(paths) == 3
