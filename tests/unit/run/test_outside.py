"""The machine that carries a guest is watched by what is begun and ended there; a signal meanwhile is not lost."""

from __future__ import annotations

import json

import pytest
from tests.fake_host import FakeHost

from strata.errors import Interrupted
from strata.model import Command, Completed, Guest, GuestImage, Measured
from strata.run.outside import QEMU, Outside


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


def sampled(started: float, spent: dict[str, list[float | None]]) -> str:
    """A sample each second from `started` on, with the processor time of processes."""
    many = max(map(len, spent.values()))
    rows = [{"t_s": float(t), "processes": {name: times[t] for name, times in spent.items()}} for t in range(many)]
    lines = [{"started_unix_s": started}, *rows, {"end": True, "wall_s": many - 1.0}]
    return "\n".join(map(json.dumps, lines))


def guest(name: str) -> Guest:
    return Guest(name, f"/beside/{name}", GuestImage("/image"), 1 << 29)


def test_each_guest_has_the_processor_time_of_its_own_qemu_during_the_loads() -> None:
    one, two = guest("one"), guest("two")
    host, starter = FakeHost(), FakeHost()
    # The clock of the machine with the disks is 50 s ahead.
    host.files["/visit/outside-1.jsonl"] = sampled(150.0, {"disks": [0.0] * 9})
    spent: dict[str, list[float | None]] = {"one": [0, 5, 6, 7, 8, 20], "two": [0, 1, 2, 3, 4, None]}
    starter.files["/beside/one/outside-1.jsonl"] = sampled(100.0, spent)
    outside = Outside(host, [], [one, two], "/visit", starter)
    with outside.watch(1.0) as watch:
        pass
    begun = [command.argv for command in starter.commands if "--process" in command.argv]
    assert begun and "one=/beside/one/pid" in begun[0] and "two=/beside/two/pid" in begun[0]
    assert not any("--process" in command.argv for command in host.commands)
    seen = watch.seen()
    assert seen is not None
    whole = seen.between(100.0, 104.0, 50.0)
    assert (outside.of_guest(whole, one), outside.of_guest(whole, two)) == ({QEMU: 8.0}, {QEMU: 4.0})
    # Before the loads began one of them worked, and after they ended.
    loads = seen.between(101.2, 103.7, 50.0)
    assert (outside.of_guest(loads, one), outside.of_guest(loads, two)) == ({QEMU: 3.0}, {QEMU: 3.0})
    assert loads.samples.header["started_unix_s"] == 151.0 and loads.samples.end["wall_s"] == 3.0
    # One has ended meanwhile: what it spent is not known.
    assert outside.of_guest(seen, two) == {}
    assert QEMU not in outside.figures(loads, Measured({}))


def test_the_only_guest_s_processor_time_is_a_figure_of_the_trial() -> None:
    host = FakeHost()
    host.files["/visit/outside-1.jsonl"] = sampled(100.0, {"one": [0, 5, 6]})
    outside = Outside(host, [("vm", "/dev/vda")], [guest("one")], "/visit")
    with outside.watch(1.0) as watch:
        pass
    (begun,) = (command.argv for command in host.commands if "--process" in command.argv)
    assert "one=/beside/one/pid" in begun and "d0=/dev/vda" in begun
    seen = watch.seen()
    assert seen is not None and outside.figures(seen, Measured({}))[QEMU] == 6.0
