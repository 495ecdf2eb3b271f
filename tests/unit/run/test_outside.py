"""The machine that carries a guest is watched by what is begun and ended there; a signal meanwhile is not lost."""

from __future__ import annotations

import pytest

from strata.errors import Interrupted
from strata.hosts.fake import FakeHost
from strata.model import Command, Completed
from strata.run.outside import Outside, spent_s


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


@pytest.mark.parametrize(
    ("said", "guests", "spent"),
    [
        ("100\n250 50\n", 1, (3.0,)),
        ("100\n250 50\n100 100\n", 2, (3.0, 2.0)),
        ("100\n", 0, None),
        ("100\n250 50\n", 2, None),  # one has ended
        ("", 1, None),
    ],
)
def test_processor_time_of_guests_is_known_of_all_or_not_at_all(
    said: str, guests: int, spent: tuple[float, ...] | None
) -> None:
    assert spent_s(said, guests) == spent
