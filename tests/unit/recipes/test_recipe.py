"""What a recipe builds, what it leaves out, and what it refuses."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Completed, Stack
from strata.recipes import plan, shell
from strata.recipes.formats import formats
from strata.recipes.plan import Recipe


def stack(text: str) -> Stack:
    (found,) = parse_stacks(text, catalogue())
    return found


def made(text: str, *devices: str, **options: str) -> Recipe:
    given = plan.mapped([f"{word.partition('=')[0]}=/dev/disk/by-id/{word.partition('=')[2]}" for word in devices], {})
    return plan.recipe(stack(text), drivers(), given, **options)


def complaint(text: str, *devices: str, **options: str) -> str:
    with pytest.raises(BadInput) as raised:
        made(text, *devices, **options)
    return str(raised.value)


def test_no_device_is_named_by_strata_itself() -> None:
    said = complaint("2*hdd + ssd | btrfs(raid1)", "hdd=a")
    assert "takes 2 disks of the role hdd and --map gives 1" in said
    assert "takes 1 disk of the role ssd and --map gives 0" in said
    assert "--map ssd=/dev/disk/by-id/..." in said


def test_devices_that_no_disk_of_the_stack_has_a_role_for() -> None:
    assert "no disk of the stack has it; the roles are disk" in complaint("disk | ext4", "disk=a", "hdd=b")
    assert "gives 2 disks of the role disk and the stack takes 1" in complaint("disk | ext4", "disk=a", "disk=b")


@pytest.mark.parametrize("word", ["disk=/dev/sdb", "disk=/dev/disk/by-id/..", "disk=/dev/disk/by-id/a b", "disk", "=a"])
def test_a_device_goes_by_a_name_that_stays(word: str) -> None:
    with pytest.raises(BadInput, match="by-id"):
        plan.mapped([word], {})


def test_one_device_twice() -> None:
    with pytest.raises(BadInput, match="more than once"):
        plan.mapped(["a=/dev/disk/by-id/x", "b=/dev/disk/by-id/x"], {})


def test_states_of_a_measurement_are_left_out_and_said() -> None:
    recipe = made("disk | scheduler(none) | btrfs | fill(50%) | snapshot(held=2) | warm(2)", "disk=a")
    assert recipe.left_out == ("fill(50%)", "snapshot(held=2)", "warm(2)")
    assert [layer.node.call.name for layer in recipe.layers] == ["disk", "scheduler", "btrfs"]
    said = "Measured with fill(50%), snapshot(held=2), warm(2), which the recipe does not set up."
    written = [
        shell.render(recipe),
        *(formats()[name].write(recipe)[-1].text for name in ("fstab", "docker", "proxmox")),
    ]
    assert all(said in text for text in written)


@pytest.mark.parametrize("condition", ["null(a)", "kernel(6.1)", "debian(12)"])
def test_a_state_of_the_measurement_below_a_file_system_is_left_out_alone(condition: str) -> None:
    recipe = made(f"disk | {condition} | ext4", "disk=a")
    assert recipe.left_out == (condition,) and not recipe.above
    assert [layer.node.call.name for layer in recipe.layers] == ["disk", "ext4"]


def test_what_runs_on_the_stack_is_no_part_of_it() -> None:
    recipe = made("disk | xfs | qcow2(size=1G) | vm(cache=writeback) | ext4 | warm(1)", "disk=a")
    assert [node.call.text for node in recipe.above] == ["vm(cache=writeback)", "ext4"]
    assert recipe.layers[-1].node.call.name == "qcow2"
    engine = made("disk | btrfs | incus(btrfs) | container", "disk=a")
    assert [node.call.name for node in engine.above] == ["incus", "container"]


@pytest.mark.parametrize("text", ["existing(/srv) | dir", "nullblk(size=1G) | ext4", "disk | dm(linear) | ext4"])
def test_instruments_are_not_built_to_stay(text: str) -> None:
    said = complaint(text, *(["disk=a"] if "disk" in text else []))
    assert "choose a stack" in said


def test_parity_that_was_never_computed_is_computed() -> None:
    recipe = made("3*disk | md(raid5) | ext4", "disk=a", "disk=b", "disk=c")
    script = shell.render(recipe)
    assert "--assume-clean" not in script
    assert "wait for the first resync" in script
    assert "md(raid5) is built with assume_clean=off" in script
    for mirror in ("2*disk | md(raid1) | ext4", "2*disk | md(raid10) | ext4", "2*disk | lvm(raid1, nosync) | ext4"):
        script = shell.render(made(mirror, "disk=a", "disk=b"))
        commands = [line for line in script.splitlines() if not line.startswith("#")]
        assert not [line for line in commands if "--assume-clean" in line or "--nosync" in line]
        assert "=off: what was measured holds for fresh disks" in script


def test_the_file_system_is_where_it_was_asked_for() -> None:
    recipe = made("disk | lvmthin | xfs", "disk=a", name="vm-data", mount="/srv/guests")
    assert recipe.top.path == "/srv/guests"
    assert recipe.layers[1].place.name == "vm-data-1"
    assert made("disk | xfs", "disk=a").top.path == "/srv/data"


@pytest.mark.parametrize("name", ["", "Data", "-a", "a-", "a" * 20, "a/b", "a b"])
def test_a_name_that_could_be_none_of_a_volume_group(name: str) -> None:
    assert "--name" in complaint("disk | ext4", "disk=a", name=name)


@pytest.mark.parametrize("mount", ["srv", "/srv/a b", "/srv/../etc/$(x)", "/srv/'"])
def test_a_mount_point_that_a_shell_could_take_otherwise(mount: str) -> None:
    assert "--at" in complaint("disk | ext4", "disk=a", mount=mount)


def test_the_same_arguments_give_the_same_recipe_and_others_another() -> None:
    first, again = (shell.render(made("disk | ext4", "disk=a")) for _ in range(2))
    assert first == again
    uuids = {made("disk | ext4", f"disk={device}").layers[1].place.uuid for device in ("a", "b")}
    assert len(uuids) == 2


def test_a_layer_that_must_know_the_room_below_says_so() -> None:
    assert "write raw(size=...)" in complaint("disk | ext4 | raw", "disk=a")
    given = plan.mapped(["disk=/dev/disk/by-id/a"], {"disk": 8 << 30})
    recipe = plan.recipe(stack("disk | ext4 | raw"), drivers(), given)
    assert f"-- /srv/data/data-2.raw {4 << 30}" in shell.render(recipe)


def test_slabs_of_vdo_are_those_of_the_room_that_was_said() -> None:
    assert "--size ROLE=SIZE" in complaint("disk | vdo", "disk=a")
    for gib, slab in ((4, 128), (64, 2048)):
        given = plan.mapped(["disk=/dev/disk/by-id/a"], {"disk": gib << 30})
        assert f"slab_size_mb={slab}" in shell.render(plan.recipe(stack("disk | vdo"), drivers(), given))


def test_only_programs_that_the_script_calls_have_to_be_there() -> None:
    line = next(
        line for line in shell.render(made("disk | ext4", "disk=a")).splitlines() if line.startswith("programs=")
    )
    assert "mkfs.ext4:e2fsprogs" in line
    assert "truncate" not in line, "a file of ours is not made for a device"


def test_answers_come_back_to_the_layers_that_asked() -> None:
    recipe = made("disk | lvmthin | ext4", "disk=a")
    questions = [command for layer in recipe.layers for command in layer.inspection()]
    text = "".join("1 . bm90aGluZyB0aGVyZQ==.\n" for _ in questions)
    seen = shell.seen(recipe, text)
    assert seen[0] == Completed(questions[0].argv, 1, "", "nothing there", 0.0)
    assert any("The disk disk is not there: nothing there." in sentence for sentence in recipe.differences(seen))
    with pytest.raises(BadInput, match="answers are there"):
        shell.seen(recipe, "0 . .\n")
    with pytest.raises(BadInput, match="is no answer"):
        shell.seen(recipe, "x\n" * len(questions))


@pytest.mark.parametrize(
    ("text", "devices", "again"),
    [
        ("disk | ext4", ["a"], ["mount the ext4 file system"]),
        ("disk | partition | xfs", ["a"], ["find the partition", "mount the xfs file system"]),
        (
            "2*disk | md(raid1) | lvmthin | ext4",
            ["a", "b"],
            [
                "make the raid1 array",
                "wait for the name of the array",
                "let the array be written to",
                "make the volume group",
                "mount the ext4 file system",
            ],
        ),
        ("2*disk | btrfs(raid1)", ["a", "b"], ["tell the kernel of the devices", "mount the btrfs file system"]),
        ("disk | scheduler(none) | ext4", ["a"], ["set the I/O scheduler none", "mount the ext4 file system"]),
        ("disk | zfs(prefetch=off)", ["a"],
         ["load the zfs module", "set zfs_prefetch_disable to 1", "make the ZFS pool"]),
        (
            "2*disk | bcache | ext4",
            ["a", "b"],
            [
                "register both and find the cached device",
                "set how it caches (removed: write dirty data back and detach the cache)",
                "mount the ext4 file system",
            ],
        ),
        ("disk | sysctl(vm.dirty_ratio, value=5) | ext4", ["a"],
         ["set the kernel parameter vm.dirty_ratio to 5", "mount the ext4 file system"]),
    ],
)  # fmt: skip
def test_what_a_restart_of_the_machine_ends_is_brought_back(text: str, devices: list[str], again: list[str]) -> None:
    recipe = made(text, *(f"disk={device}" for device in devices))
    steps = [step for layer in recipe.layers for step in layer.steps()]
    assert [step.why for step in steps if step.again is not None] == again


def test_no_layer_is_both_deployed_and_only_of_measurements() -> None:
    for name, info in catalogue().items():
        if info.needs and info.provides is None:
            assert plan._is_condition(info), name
    instruments = {name for name, info in catalogue().items() if not info.deployed}
    assert {"fill", "age", "warm", "kernel", "debian", "null", "nullblk", "dm", "limit", "existing"} <= instruments
    assert not instruments & {"md", "lvm", "lvmthin", "lvmcache", "vdo", "bcache", "zfs", "btrfs", "xfs", "ext4", "dir"}
