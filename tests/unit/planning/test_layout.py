"""Where things lie is decided before anything is built, and no two things share a place."""

from __future__ import annotations

import re

import pytest

from strata import campaign as campaigns
from strata import layers
from strata.errors import BadInput
from strata.model import Disk, Kind
from strata.planning import layout
from strata.planning import plan as planning

UUID = "0123456789abcdef0123456789abcdef"


def lay_out(expression: str, disks: tuple[Disk, ...], attempt: int = 7) -> layout.Layout:
    (stack,) = campaigns.parse_stacks(expression, layers.catalogue())
    return layout.lay_out(stack, layers.drivers(), disks, work_dir="/run/visits", run_uuid=UUID, attempt=attempt)


FILES = tuple(Disk(role, 1 << 30) for role in ("hdd", "hdd", "hdd", "ssd"))


def test_layers_come_in_the_order_of_building_each_on_what_was_built() -> None:
    laid = lay_out("2*hdd | scheduler(none) | btrfs(raid1)", FILES)
    assert [placed.node.call.name for placed in laid.layers] == ["disk", "scheduler", "disk", "scheduler", "btrfs"]
    built: list[object] = []
    for placed in laid.layers:
        assert all(below in built for below in placed.below if below.kind is not Kind.GRANT)
        built.append(placed.provides)
    assert len(laid.layers[-1].below) == 2
    assert laid.top.kind is Kind.DIRECTORY


def test_no_two_layers_share_a_place() -> None:
    laid = lay_out("3*hdd | partition | btrfs", FILES)
    for what in ("name", "dir", "uuid"):
        places = [getattr(placed.place, what) for placed in laid.layers]
        assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"[a-z0-9-]{1,24}", placed.place.name) for placed in laid.layers)
    grants = [placed.below[0].path for placed in laid.layers if placed.node.call.name == "disk"]
    assert len(set(grants)) == 3


def test_what_holds_data_back_is_named_from_the_top_to_the_disks_each_once() -> None:
    laid = lay_out("2*hdd | scheduler(none) | md(raid1) | ext4 | raw | vm | xfs", FILES)
    by_layer = {placed.node.call.name: placed.provides.path for placed in laid.layers}
    disks = [placed.provides.path for placed in laid.layers if placed.node.call.name == "disk"]
    outside = (by_layer["raw"], by_layer["ext4"], by_layer["md"], *reversed(disks))
    assert laid.holders() == outside
    assert laid.holders(laid.top.guest) == (by_layer["xfs"], by_layer["vm"])


def test_of_a_directory_of_the_users_only_the_file_system_is_flushed() -> None:
    laid = lay_out("existing(/srv)", ())
    (path,) = laid.holders()
    assert path == laid.top.path and path.startswith("/srv/strata-")


def test_an_attempt_has_places_of_its_own_and_the_same_ones_every_time() -> None:
    once, again, other = (lay_out("hdd | ext4", FILES, attempt=n) for n in (7, 7, 8))
    assert [p.place for p in once.layers] == [p.place for p in again.layers]
    assert not {p.place.uuid for p in once.layers} & {p.place.uuid for p in other.layers}
    assert not {p.place.name for p in once.layers} & {p.place.name for p in other.layers}


def test_a_claimed_device_is_used_as_it_is() -> None:
    laid = lay_out("hdd | ext4", (Disk("hdd", 5, "/dev/disk/by-id/x"),))
    assert (laid.layers[0].below[0].path, laid.layers[0].below[0].ours) == ("/dev/disk/by-id/x", False)
    made = lay_out("hdd | ext4", FILES).layers[0].below[0]
    assert made.ours and made.path.startswith(f"/run/visits/{UUID[:8]}-7/")


def test_each_block_device_is_counted_once_though_conditions_pass_it_on() -> None:
    laid = lay_out("2*hdd | scheduler(none) | null(a) | btrfs", FILES)
    assert [name for name, _ in laid.block_devices()] == ["disk", "disk"]
    assert [name for name, _ in lay_out("hdd | partition | ext4", FILES).block_devices()] == ["disk", "partition"]


def test_directories_are_undone_without_crossing_into_a_mount() -> None:
    step = layout.directory_step(lay_out("hdd | ext4", FILES))
    assert step.undo is not None
    script = step.undo.argv[2]
    assert "findmnt" in script and "rm --recursive --force --one-file-system" in script
    assert step.undo.argv[-1] == f"/run/visits/{UUID[:8]}-7"
    # what is removed whole must be new: nothing that was there before may go with it
    assert step.do.argv[:3] == ("mkdir", "--", step.undo.argv[-1])


def test_disks_are_as_many_as_the_hungriest_stack_takes() -> None:
    stacks = campaigns.parse_stacks("{2*hdd | btrfs, hdd + ssd | btrfs}", layers.catalogue())
    disks = planning.disks_for(stacks, {"ssd": campaigns.DiskSpec(9)}, ())
    assert sorted((disk.role, disk.size_bytes) for disk in disks) == [
        ("hdd", campaigns.DEFAULT_DISK_BYTES),
        ("hdd", campaigns.DEFAULT_DISK_BYTES),
        ("ssd", 9),
    ]
    claimed = (Disk("hdd", 1, "/dev/disk/by-id/x"),)
    assert [disk.device for disk in planning.disks_for(stacks, {}, claimed) if disk.role == "hdd"] == [
        "/dev/disk/by-id/x"
    ]
    with pytest.raises(BadInput, match="nvme"):
        planning.disks_for(stacks, {}, (Disk("nvme", 1, "/dev/disk/by-id/y"),))


def test_what_stands_on_a_guest_is_in_it() -> None:
    laid = lay_out("ssd | scheduler(none) | vm | scheduler(none) | partition | ext4", FILES)
    (guest,) = laid.guests
    assert [placed.guest for placed in laid.layers] == [None, None, None, guest, guest, guest]
    assert laid.top.guest == guest
    assert [name for name, _ in laid.block_devices()] == ["disk"]
    assert [name for name, _ in laid.block_devices(guest)] == ["vm", "partition"]
    outside, inside = layout.directory_step(laid), layout.guest_directory_step(laid, guest)
    assert inside.undo is None, "ending the guest is"
    for placed in laid.layers:
        assert placed.place.dir in (inside if placed.guest else outside).do.argv
        assert placed.place.dir not in (outside if placed.guest else inside).do.argv


def test_what_stands_above_a_fork_is_there_once_for_each_tenant() -> None:
    laid = lay_out("ssd | ext4 | tenants(3) | null", FILES)
    assert [(p.node.call.name, p.tenant) for p in laid.layers] == [
        *[(name, None) for name in ("disk", "ext4", "tenants")],
        *[("null", tenant) for tenant in (1, 2, 3)],
    ]
    paths = [top.path for top in laid.tops]
    assert len(set(paths)) == 3 and all(path.startswith(laid.layers[1].provides.path) for path in paths)
    assert len({placed.place.dir for placed in laid.layers}) == len(laid.layers)


def test_tenants_share_a_thin_pool_by_volumes() -> None:
    laid = lay_out("ssd | lvmthin | tenants(2) | scheduler(none) | ext4", FILES)
    first, second = (placed for placed in laid.layers if placed.node.call.name == "ext4")
    assert first.below[0].path != second.below[0].path and first.below[0].size_bytes == second.below[0].size_bytes
    whole = laid.layers[1].provides
    assert first.below[0].size_bytes is not None and whole.size_bytes is not None
    assert first.below[0].size_bytes * 2 <= whole.size_bytes
    volumes = [path for name, path in laid.block_devices() if name == "lvmthin"]
    assert volumes == [first.below[0].path, second.below[0].path], "the pool's own volume holds nothing"
    assert laid.block_devices(None, 2) == [("lvmthin", second.below[0].path)]


def test_every_tenant_has_a_guest_of_its_own() -> None:
    laid = lay_out("ssd | lvmthin | tenants(2) | vm | ext4", FILES)
    one, other = laid.guests
    assert [top.guest for top in laid.tops] == [one, other] and one.dir != other.dir
    assert [name for name, _ in laid.block_devices(one)] == ["vm"]
    assert [placed.guest for placed in laid.layers if placed.node.call.name == "ext4"] == [one, other]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("(hdd | ext4 | tenants(2)) | tenants(2)", "only fork"),
        ("((hdd | lvmthin | tenants(2)) + ssd) | btrfs", "only fork"),
        ("ssd | tenants(2) | ext4", "put lvm or lvmthin on it"),
    ],
)
def test_a_fork_that_cannot_be_is_said(expression: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        lay_out(expression, FILES)


@pytest.mark.parametrize(
    "expression",
    [
        "ssd | lvmthin | snapshot(held=2) | vm | ext4",
        "ssd | lvmthin | tenants(2) | snapshot(held=2) | vm | ext4",
        "ssd | btrfs | snapshot(held=2) | tenants(2) | raw | vm | ext4",
        "ssd | btrfs | raw | snapshot(held=3) | vm | ext4",
        "ssd | zfs | zvol | snapshot(held=2) | vm | xfs",
        "ssd | vm | btrfs | snapshot(held=2)",
    ],
)
def test_snapshots_of_a_guest_s_storage_are_held_where_they_are_asked_for(expression: str) -> None:
    """Below the guest by what carries its disk, inside by its own file system; each tenant has those of its data."""
    laid = lay_out(expression, FILES)
    inside = expression.index("| vm") < expression.index("snapshot")
    for top in laid.tops:
        (step,) = top.data_steps
        assert (step.guest is not None) is inside


@pytest.mark.parametrize(
    ("expression", "each"),
    [
        ("ssd | lvmthin | snapshot(held=2, every=1s) | vm | ext4", 1),
        ("ssd | lvmthin | tenants(2) | snapshot(held=2, every=1s) | vm | ext4", 1),
        ("ssd | btrfs | snapshot(held=2, every=1s) | tenants(2) | raw | vm | ext4", 1),
        ("ssd | vm | btrfs | snapshot(held=2, every=1s)", 1),
        ("ssd | lvmthin | snapshot(held=2) | vm | ext4", 0),
    ],
)
def test_what_goes_on_while_it_is_measured_is_known_above(expression: str, each: int) -> None:
    laid = lay_out(expression, FILES)
    inside = expression.index("| vm") < expression.index("snapshot")
    for top in laid.tops:
        assert len(top.meanwhile) == each
        assert all((meanwhile.guest is not None) is inside for meanwhile in top.meanwhile)


def test_guests_of_their_own_take_the_same_step_at_the_same_time() -> None:
    laid = lay_out("ssd | ext4 | tenants(3) | raw(size=300M) | vm | xfs", FILES)
    sizes = {
        placed[0].node.call.name: [len(turn) for turn in layout.turns(level)]
        for level in laid.levels()
        for placed in level
    }
    assert set(sizes["raw"]) == set(sizes["vm"]) == {1}, "the machine that they share takes one command at a time"
    assert set(sizes["xfs"]) == {3}
    for level in laid.levels():
        assert [each for turn in layout.turns(level) for each in turn] == level
