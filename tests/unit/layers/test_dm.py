"""dm: its tables, as requested and as kernels show them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Completed, Disk, Metered, Value
from strata.planning.layout import lay_out

from .layer_cases import PLACE, below, captured, facts, spec

DM = drivers()["dm"]
BELOW = "below=vda\nnumber=254:0\nsectors=4194304\n"
CLOCK = "ticks=250\nrelease=6.12.117+deb13-amd64\n"


def seen_with(table: str, uuid: str = f"strata-{PLACE.uuid}", state: str = "Active") -> list[Completed]:
    return [Completed(("x",), 0, text, "", 0.0) for text in (f"{uuid}:{state}\n", table, BELOW, CLOCK)]


@pytest.mark.parametrize(
    ("values", "table"),
    [
        ({"target": "linear"}, "0 4194304 linear 254:0 0\n"),
        ({"target": "zero"}, "0 4194304 zero \n"),
        ({"target": "error"}, "0 4194304 error \n"),
        ({"target": "delay", "read": 0.02}, "0 4194304 delay 254:0 0 20 254:0 0 0\n"),
        ({"target": "flakey", "up": 3.0, "down": 2.0}, "0 4194304 flakey 254:0 0 3 2 2 error_reads error_writes\n"),
        ({"target": "flakey", "up": 3.0, "down": 2.0}, "0 4194304 flakey 254:0 0 3 2 0 \n"),
        ({"target": "flakey", "up": 3.0, "down": 2.0, "mode": "drop_writes"},
         "0 4194304 flakey 254:0 0 3 2 1 drop_writes\n"),
        ({"target": "error", "start": 1 << 20, "size": 4096},
         "0 2048 linear 254:0 0\n2048 8 error \n2056 4192248 linear 254:0 2056\n"),
        ({"target": "error", "start": 1 << 20}, "0 2048 linear 254:0 0\n2048 4192256 error\n"),
        ({"target": "error", "size": 4096}, "0 8 error\n8 4194296 linear 254:0 8\n"),
    ],
    ids=str,
)  # fmt: skip
def test_tables_of_real_kernels(values: dict[str, Value], table: str) -> None:
    call = spec("dm", values)
    assert DM.reasons_not_to_run(call, facts()) == []
    assert DM.differences(call, below("dm"), PLACE, seen_with(table)) == []
    other = spec("dm", {"target": "delay", "read": 1.0})
    (found,) = DM.differences(other, below("dm"), PLACE, seen_with(table))
    assert found.startswith("dm: the table over vda is '0 ") and "instead of '0 4194304 delay 254:0 0 1000 " in found


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (seen_with("0 4194304 linear 254:0 0", uuid="LVM-x"), "has the UUID LVM-x, which is not ours"),
        (seen_with("0 4194304 linear 254:0 0", state="Suspended"), "is suspended"),
    ],
)
def test_a_device_that_is_not_as_asked(seen: list[Completed], word: str) -> None:
    (found,) = DM.differences(spec("dm", {"target": "linear"}), below("dm"), PLACE, seen)
    assert word in found


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"target": "delay"}, "give it read= or write="),
        ({"target": "delay", "read": 0.0205}, "whole milliseconds; round read="),
        ({"target": "flakey", "up": 3.0}, "both up= and down="),
        ({"target": "flakey", "up": 1.5, "down": 1.0}, "whole seconds; round up="),
        ({"target": "linear", "read": 0.02}, "takes no read="),
        ({"target": "error", "start": 1000}, "not a multiple of 512"),
        ({"target": "error", "mode": "error_writes"}, "takes no mode="),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(values: dict[str, Value], word: str) -> None:
    (reason,) = DM.reasons_not_to_run(spec("dm", values), facts())
    assert word in reason and reason.endswith(".")


@pytest.mark.parametrize(
    ("read_ms", "ticks_per_s", "words"),
    [
        (1, 250, ("read=1ms would be 4 ms", "write read=4ms.")),
        (5, 250, ("read=5ms would be 8 ms", "write read=4ms or read=8ms.")),
        (15, 100, ("read=15ms would be 20 ms", "write read=10ms or read=20ms.")),
        (4, 250, ()),
        (5, 1000, ()),
        (5, None, ()),
    ],
)
def test_a_delay_that_is_no_whole_number_of_ticks_says_what_it_would_be(
    read_ms: int, ticks_per_s: int | None, words: tuple[str, ...]
) -> None:
    """Measured on Linux 6.12 at 250 ticks a second: 1 ms took 4.0, 4 took 4.0, 5 took 8.0."""
    call = spec("dm", {"target": "delay", "read": read_ms / 1000})
    machine = replace(facts(), ticks_per_s=ticks_per_s)
    found = " ".join(DM.reasons_not_to_run(call, machine))
    assert all(word in found for word in words) and bool(found) == bool(words)
    clock = f"ticks={ticks_per_s or ''}\nrelease=6.12.0\n"
    seen = seen_with(f"0 4194304 delay 254:0 0 {read_ms} 254:0 0 0")
    assert " ".join(DM.differences(call, below("dm"), PLACE, [*seen[:3], replace(seen[3], stdout=clock)])) == found


@pytest.mark.parametrize(
    ("read_ms", "write_ms", "clock", "waits"),
    [
        (48, 0, "ticks=250\nrelease=6.12.117+deb13-amd64", {"read": 48.0, "write": 0.0}),
        (52, 4, "ticks=250\nrelease=6.12.117+deb13-amd64", {"read": 56.0, "write": 8.0}),
        (60, 0, "ticks=250\nrelease=6.12.117+deb13-amd64", {"read": 64.0, "write": 0.0}),
        (20, 20, "ticks=250\nrelease=6.1.0-40-amd64", {"read": 24.0, "write": 24.0}),
        (300, 20, "ticks=250\nrelease=6.12.0", {"write": 24.0}),
        (20, 20, "ticks=\nrelease=6.12.0", {}),
        (20, 20, "ticks=250\nrelease=", {}),
        (20, 20, "", {}),
    ],
)
def test_how_long_requests_wait_in_this_kernel(
    read_ms: int, write_ms: int, clock: str, waits: dict[str, float]
) -> None:
    """Reads of 48, 52 and 60 ms as measured on Linux 6.12; the rest by the kernel's rule, see dm.py."""
    call = spec("dm", {"target": "delay", "read": read_ms / 1000, "write": write_ms / 1000})
    metered = cast(Metered, DM)
    assert len(metered.plan_figures(call, below("dm"), PLACE)) == 1
    found = metered.figures(call, below("dm"), PLACE, [Completed(("x",), 0, clock, "", 0.0)])
    assert found == {f"dm.{name}_wait_ms": value for name, value in waits.items()}
    assert metered.plan_figures(spec("dm", {"target": "zero"}), below("dm"), PLACE) == []
    assert metered.figures(spec("dm", {"target": "zero"}), below("dm"), PLACE, []) == {}


def test_the_module_of_the_target_is_asked_for() -> None:
    (reason,) = DM.reasons_not_to_run(spec("dm", {"target": "zero"}), facts(modules=frozenset({"dm_mod"})))
    assert "no dm_zero, which dm(zero) needs" in reason


def test_a_bad_range_beyond_the_end() -> None:
    with pytest.raises(BadInput, match="the bad range ends at"):
        DM.provides(spec("dm", {"target": "error", "start": 1 << 30}), below("dm"), PLACE)


@pytest.mark.parametrize(("target", "fails"), [("flakey", True), ("error", True), ("delay", False), ("zero", False)])
def test_what_fails_can_be_mended(target: str, fails: bool) -> None:
    mend = DM.provides(spec("dm", {"target": target}), below("dm"), PLACE).mend
    assert [command.argv[-3:] for command in mend] == (
        [("/run/visit/0/device", PLACE.name, f"strata-{PLACE.uuid}")] if fails else []
    )


def test_a_flakey_disk_is_as_asked_while_it_fails() -> None:
    assert captured("dm", "flakey").differences() == []


def test_what_stands_on_a_failing_device_is_removed_after_it_was_mended() -> None:
    (stack,) = parse_stacks("2*(disk | dm(flakey, up=30s, down=5s)) | md(raid1) | ext4", catalogue())
    disks = [Disk("disk", 1 << 30)] * 2
    layout = lay_out(stack, drivers(), disks, work_dir="/run/strata", run_uuid="5" * 32, attempt=1)
    undos = [
        (placed.node.call.name, step.undo.argv) for placed in layout.layers for step in placed.steps() if step.undo
    ]
    mended = {name for name, argv in undos if "dmsetup reload" in argv[2] and argv[2].endswith('exec "$@"')}
    assert mended == {"md", "ext4"}
    (array,) = [argv for name, argv in undos if name == "md"]
    assert array[2].count("dmsetup reload") == 2  # each of the disks
    assert array[4:6] == ("sh", "-c")


def test_what_stands_on_a_sound_device_is_removed_as_it_is() -> None:
    (stack,) = parse_stacks("disk | dm(delay, read=20ms) | ext4", catalogue())
    layout = lay_out(stack, drivers(), [Disk("disk", 1 << 30)], work_dir="/run/strata", run_uuid="5" * 32, attempt=1)
    for placed in layout.layers:
        own = placed.driver.plan_create(placed.node.call, placed.below, placed.place)
        assert placed.steps() == own
