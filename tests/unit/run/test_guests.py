"""The machines of a visit: guests are opened when they are up, and what was done inside goes in good order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers
from strata.errors import CommandFailed, GuestLost, HostLost, VisitFailed
from strata.model import BOOT_TIME, Call, Command, Completed, Disk, Step
from strata.run import guests, layout, visit
from strata.run.guests import Machines
from strata.run.layout import Placed
from strata.run.outside import Outside
from strata.workloads import find

from .test_at_once import Journal

UUID = "0123456789abcdef0123456789abcdef"


class Host(FakeHost):
    """Remembers who was closed, and fails the commands in `broken`."""

    def __init__(self, *about: Any) -> None:
        super().__init__()
        self.about = about
        self.closed = False
        self.broken: set[str] = set()
        self.lost = False

    def run(self, command: Command, *, check: bool = True) -> Completed:
        done = super().run(command, check=check)
        if command.argv[0] in self.broken:
            raise CommandFailed(command.argv, 1, "", "it broke")
        return done

    def close(self) -> None:
        self.closed = True
        if self.lost:
            raise HostLost("it is gone", "")


def laid_out(stack: str) -> layout.Layout:
    (parsed,) = campaigns.parse_stacks(stack, layers.catalogue())
    disks = (Disk("ssd", 1 << 30),)
    return layout.lay_out(parsed, layers.drivers(), disks, work_dir="/run", run_uuid=UUID, attempt=1)


TWO = "ssd | ext4 | tenants(2) | raw(size=300M) | vm | xfs"


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> tuple[Machines, Host, Journal, list[Placed], layout.Layout]:
    """The machines of a stack with two guests, none of them up yet; and the layers that start them."""
    monkeypatch.setattr(guests, "GuestHost", Host)
    laid, outer, store = laid_out(TWO), Host(), Journal()
    placed = [each for each in laid.layers if each.provides.guest is not None and each.guest is None]
    for number, each in enumerate(placed):
        assert each.provides.guest is not None
        outer.files[f"{each.provides.guest.dir}/boot_s"] = f"{number}.5"
    machines = Machines(outer, store, 1, "mark", None)  # type: ignore[arg-type]
    return machines, outer, store, placed, laid


Two = tuple[Machines, Host, Journal, list[Placed], layout.Layout]


def test_a_guest_is_opened_once_when_its_layer_was_built(two: Two) -> None:
    machines, outer, store, placed, laid = two
    assert machines.every() == [outer]
    for each in placed:
        machines.started(each, laid)
    first, second = (machines.of(each.provides.guest) for each in placed)
    assert isinstance(first, Host) and isinstance(second, Host) and first is not second
    assert first.about == (placed[0].provides.guest, outer, "mark", None)
    assert (first.files[BOOT_TIME], second.files[BOOT_TIME]) == ("0.5", "1.5")
    assert store.entries == ["visit", "visit"] and store.ends == {0: "done", 1: "done"}
    assert machines.every() == [second, first, outer], "the innermost first"
    for each in laid.layers:
        if each.guest is not None or each.provides.guest is None:
            machines.started(each, laid)
    machines.started(placed[0], laid)
    assert machines.every() == [second, first, outer]
    assert machines.of(None) is outer


def test_all_guests_are_closed_though_one_is_gone(two: Two) -> None:
    machines, outer, _, placed, laid = two
    for each in placed:
        machines.started(each, laid)
    hosts = machines.every()[:-1]
    for host in hosts:
        assert isinstance(host, Host)
        host.lost = True
    machines.close()
    assert all(isinstance(host, Host) and host.closed for host in hosts) and not outer.closed
    assert machines.every() == [outer]


def test_what_was_done_inside_is_undone_newest_first_and_once(two: Two) -> None:
    machines, _, store, placed, laid = two
    machines.started(placed[0], laid)
    inside = next(each for each in laid.layers if each.guest == placed[0].provides.guest)
    host = machines.of(inside.guest)
    assert isinstance(host, Host)
    host.commands.clear()
    for word in ("one", "two"):
        machines.carry_out(inside, Step(Command((word,)), Command((f"undo-{word}",)), f"make {word}"))
    machines.carry_out(inside, Step(Command(("three",)), None, "make three"))
    told: list[str] = []
    machines.remove(told.append)
    assert [command.argv[0] for command in host.commands][:5] == ["one", "two", "three", "undo-two", "undo-one"]
    assert told[:2] == ["make two", "make one"]
    assert [entry for entry, state in store.ends.items() if state == "undone"][:2] == [1, 2]
    again = len(host.commands)
    machines.remove(told.append)
    assert len(host.commands) == again


def test_a_step_that_fails_inside_is_noted_as_failed_and_still_undone(two: Two) -> None:
    machines, _, store, placed, laid = two
    machines.started(placed[0], laid)
    inside = next(each for each in laid.layers if each.guest == placed[0].provides.guest)
    host = machines.of(inside.guest)
    assert isinstance(host, Host)
    host.broken = {"one"}
    with pytest.raises(VisitFailed, match="one"):
        machines.carry_out(inside, Step(Command(("one",)), Command(("undo-one",)), "make one"))
    assert store.ends[1] == "failed"
    machines.remove(lambda why: None)
    assert ("undo-one",) in [command.argv for command in host.commands]


@pytest.mark.parametrize(
    ("console", "error", "said"),
    [
        ("line\r\nKernel panic - not syncing\r\n", GuestLost, "the guest did not come up: .*Kernel panic"),
        ("", CommandFailed, "boot"),
    ],
)
def test_a_guest_that_began_to_boot_and_did_not_come_up_is_lost(
    two: Two, console: str, error: type[Exception], said: str
) -> None:
    machines, outer, _, placed, _ = two
    assert placed[0].provides.guest is not None
    outer.files[f"{placed[0].provides.guest.dir}/console"] = console
    outer.broken = {"boot"}
    with pytest.raises(error, match=said) as raised:
        machines.carry_out(placed[0], Step(Command(("boot",)), None, "start the guest"))
    assert isinstance(raised.value, GuestLost) is bool(console)


def test_a_guest_from_an_image_of_the_users_is_lost_by_what_its_console_says(two: Two) -> None:
    machines, outer, _, placed, _ = two
    theirs = replace(placed[0], provides=replace(placed[0].provides, guest=None, pid_file="/theirs/1/pid"))
    outer.broken = {"boot"}
    boot = Step(Command(("boot",)), None, "start the guest")
    with pytest.raises(CommandFailed):
        machines.carry_out(theirs, boot)
    outer.files["/theirs/1/console"] = "Kernel panic: no bootable device\n"
    with pytest.raises(GuestLost, match=r"did not come up: .*no bootable device"):
        machines.carry_out(theirs, boot)


def test_commands_go_to_the_machine_of_their_layer(two: Two) -> None:
    machines, outer, _, placed, laid = two
    machines.started(placed[0], laid)
    inside = next(each for each in laid.layers if each.guest == placed[0].provides.guest)
    host = machines.of(inside.guest)
    assert isinstance(host, Host)
    machines.ask(inside, Command(("look-inside",)))
    machines.ask(placed[0], Command(("look-outside",)))
    machines.beside = Host()
    machines.ask(inside, Command(("look-beside",), beside=True))
    last = [each.commands[-1].argv for each in (host, outer, machines.beside) if isinstance(each, Host)]
    assert last == [("look-inside",), ("look-outside",), ("look-beside",)]


@pytest.mark.parametrize(
    ("tenants", "parts"),
    [
        ([None], [(1, "null", "7"), (2, "null", "8")]),  # everybody's
        ([2, 1], [(2, "null@2", "7"), (1, "null@1", "8")]),
        ([2], [(2, "null@2", "7")]),
    ],
)
def test_each_tenant_has_the_load_that_names_it_in_its_own_guest(
    two: Two, tenants: list[int | None], parts: list[tuple[int, str, str]]
) -> None:
    machines, outer, _, placed, laid = two
    for each in placed:
        machines.started(each, laid)
    calls = [Call("null", f"null@{tenant}" if tenant else "null", {}, tenant=tenant) for tenant in tenants]
    loads = [(call, find(call), find(call).primary_of(call)) for call in calls]
    bench = visit.Workbench(
        None,
        None,
        {},
        (),
        (),
        5,
        frozenset({"speed"}),
        1,
        None,
        lambda told: None,  # type: ignore[arg-type]
    )
    outside = Outside(outer, (), laid.guests, laid.scratch, None, ())
    made = visit._parts(bench, machines, laid, loads, 7, outside)
    assert [(part.tenant, part.call.text, part.scratch.rpartition("/")[2]) for part in made] == parts
    assert [part.host for part in made] == [machines.of(placed[part.tenant - 1].provides.guest) for part in made]
    for part in made:
        assert part.bench.devices == tuple(laid.block_devices(placed[part.tenant - 1].provides.guest, part.tenant))
        assert (part.bench.memory_bytes, part.bench.declared, part.bench.outside) == (5, {"speed"}, outside)
