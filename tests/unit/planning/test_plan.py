"""What can run and what cannot is said before anything is touched, with every reason."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from tests.machine_facts import FACTS

from strata import campaign as campaigns
from strata import layers, workloads
from strata.campaign import DiskSpec, parse_stacks
from strata.errors import BadInput
from strata.model import Call, Disk, Facts, GuestImage, Kind
from strata.planning import command_lines, layout, trial_steps
from strata.planning import plan as planning
from strata.planning.resources import GuestResources, Resources
from strata.planning.user_directory import UserDirectory

HAS_GUESTS = GuestResources(image=GuestImage("/guests"), facts=FACTS, memory_bytes=8 << 30)


def plan(
    expression: str,
    *loads: str,
    facts: Facts = FACTS,
    disk_bytes: int = 4 << 30,
    claimed: tuple[Disk, ...] = (),
    memory: int | None = None,
    own: Mapping[str, UserDirectory] | None = None,
    guests: GuestResources | None = None,
    unreadable: Collection[str] = (),
) -> planning.Plan:
    campaign = campaigns.from_expressions(
        [expression],
        list(loads) or ["null"],
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: "",
    )
    roles = {role for stack in campaign.stacks for role in stack.disks()}
    disks = planning.disks_for(campaign.stacks, dict.fromkeys(roles, DiskSpec(disk_bytes)), claimed)
    found = [(call, workloads.find(call)) for call in campaign.workloads]
    return planning.make(
        campaign.stacks,
        found,
        layers.drivers(),
        Resources(facts, disks, memory, own or {}, guests=guests, unreadable=unreadable),
    )


def test_a_stack_that_cannot_run_is_skipped_with_every_reason_and_the_rest_goes_on() -> None:
    made = plan("disk | scheduler({none, nonesuch}) | {ext4, f2fs}")
    assert [stack.text for stack in made.runnable] == ["disk | scheduler(none) | ext4"]
    both = made.skipped["disk | scheduler(nonesuch) | f2fs"]
    assert any("nonesuch" in reason for reason in both)
    assert any("f2fs" in reason for reason in both)


def test_a_kernel_that_lost_an_option_skips_that_stack() -> None:
    made = plan("disk | xfs({noatime, nobarrier})")
    assert [stack.text for stack in made.runnable] == ["disk | xfs(noatime)"]


def test_without_root_nothing_that_builds_can_run() -> None:
    made = plan("disk | ext4", facts=replace(FACTS, root=False))
    assert not made.runnable
    assert any("root" in reason for reason in made.skipped["disk | ext4"])


def test_a_missing_fio_is_bad_input_for_every_workload_that_wants_it() -> None:
    without = replace(FACTS, tools={name: text for name, text in FACTS.tools.items() if name != "fio"})
    with pytest.raises(BadInput) as caught:
        plan("disk | ext4", "fio/randrw-75-25", "fio/randread-4k-qd32", facts=without)
    assert len(caught.value.problems) == 2


def test_sparse_files_that_could_outgrow_the_disk_are_refused() -> None:
    plan("2*disk | btrfs", facts=replace(FACTS, free_bytes=9 << 30))
    with pytest.raises(BadInput, match=r"grow to 8\.0 GiB"):
        plan("2*disk | btrfs", facts=replace(FACTS, free_bytes=8 << 30))


def test_one_visit_s_files_count_not_the_whole_matrix() -> None:
    made = plan("{disk | {ext4, xfs}, 2*disk | btrfs}")
    assert made.growth_bytes == 8 << 30


def test_claimed_devices_grow_nothing_and_too_few_are_a_reason() -> None:
    made = plan("{disk | ext4, 2*disk | btrfs}", claimed=(Disk("disk", 1 << 40, "/dev/disk/by-id/x"),))
    assert made.growth_bytes == 0
    assert [stack.text for stack in made.runnable] == ["disk | ext4"]
    assert "2 disks" in made.skipped["2*disk | btrfs"][0]


def test_a_data_set_larger_than_the_disk_is_a_reason() -> None:
    made = plan("disk | ext4", "fio/randrw-75-25(size=1G)", disk_bytes=1 << 30)
    assert "larger" in made.skipped["disk | ext4"][0]


def test_a_workload_that_cannot_run_on_what_the_stack_ends_in_is_a_reason() -> None:
    assert plan("disk", "fio/randrw-75-25").runnable
    made = plan("disk", "dd/seqwrite-sync")
    assert made.skipped and "directory" in made.skipped["disk"][0]


def test_a_raid_level_wants_its_devices() -> None:
    made = plan("{disk, 2*disk} | btrfs(raid1)")
    assert [stack.text for stack in made.runnable] == ["2*disk | btrfs(raid1)"]


def test_commands_are_listed_as_typed_in_order() -> None:
    made = plan("disk | ext4", "fio/randrw-75-25")
    lines = command_lines.of_visit(made, made.runnable[0], layers.drivers(), "DIR/work")
    parts = (
        *("truncate", "mkfs.ext4", "mount ", "# measure", "scratch/0", "strata-trial", "--name=layout", "sync --file"),
        *("drop_caches", "strata-engine sample", "# remove"),
    )
    order = [next(i for i, line in enumerate(lines) if part in line) for part in parts]
    assert order == sorted(order)
    assert lines[order[-1] - 1].startswith("rm --recursive") and lines[order[-1] - 1].endswith("strata-trial")
    engine = lines[order[-2]]
    assert "--device d0=DIR/" in engine and "--rw=randrw" in engine
    assert "rm --recursive" in lines[-1] and lines[-1].split("/")[-2:] == ["work", "00000000-1"]
    assert any(line.startswith("# measure fio/randrw-75-25") for line in lines)
    first, last = lines.index("# read back"), next(i for i, line in enumerate(lines) if line.startswith("# measure"))
    assert any("findmnt" in line for line in lines[first:last])


def test_what_is_done_to_the_data_of_a_workload_is_among_the_commands() -> None:
    made = plan("disk | btrfs | snapshot(held=2)", "fio/randrw-75-25")
    lines = command_lines.of_visit(made, made.runnable[0], layers.drivers(), "DIR/work")
    order = [
        next(i for i, line in enumerate(lines) if part in line)
        for part in ("subvolume delete", "--name=layout", "subvolume snapshot", "drop_caches", "strata-engine sample")
    ]
    assert order == sorted(order)


def test_a_script_of_the_user_s_is_written_by_a_command_that_can_be_typed() -> None:
    campaign = campaigns.from_expressions(
        ["disk | ext4"],
        ["command:my.sh"],
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=lambda name: "#!/bin/sh\nls 'a b'\n",
    )
    found = [(call, workloads.find(call)) for call in campaign.workloads]
    disks = planning.disks_for(campaign.stacks, {}, ())
    made = planning.make(campaign.stacks, found, layers.drivers(), Resources(FACTS, disks))
    lines = command_lines.of_visit(made, made.runnable[0], layers.drivers(), "DIR/work")
    (written,) = [line for line in lines if line.startswith("sh -c 'printf")]
    assert shlex.split(written)[-1] == "#!/bin/sh\nls 'a b'\n"


def test_what_cannot_be_laid_out_is_a_reason() -> None:
    made = plan("disk | {ext4, partition(size=8G) | ext4}", disk_bytes=300 << 20)
    assert [stack.text for stack in made.runnable] == ["disk | ext4"]
    (reason,) = made.skipped["disk | partition(size=8G) | ext4"]
    assert "does not fit" in reason and "300M" in reason


def test_every_reason_is_given_also_beside_what_cannot_be_laid_out() -> None:
    made = plan("disk | partition(size=8G) | f2fs", disk_bytes=300 << 20)
    reasons = made.skipped["disk | partition(size=8G) | f2fs"]
    assert any("does not fit" in reason for reason in reasons) and any("f2fs" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("expression", "data"),
    [("2*disk | btrfs(raid1)", "700M"), ("disk | partition(size=200M) | ext4", "300M"), ("2*disk | btrfs", "1000M")],
)
def test_the_room_is_what_the_stack_gives_and_not_its_disks(expression: str, data: str) -> None:
    made = plan(expression, f"dd/seqwrite-sync(size={data})", disk_bytes=500 << 20)
    ((reason,),) = made.skipped.values()
    assert "room" in reason and "size=" in reason
    assert plan(expression, "dd/seqwrite-sync(size=100M)", disk_bytes=500 << 20).runnable


def test_the_user_s_own_directory_is_skipped_where_it_cannot_carry_the_data() -> None:
    expression, load = "{existing(/srv), disk | ext4}", "dd/seqwrite-sync(size=1G)"
    small = plan(expression, load, own={"/srv": UserDirectory((), 64 << 20, "tmpfs")})
    assert [stack.text for stack in small.runnable] == ["disk | ext4"]
    assert "/srv has room for 62" in small.skipped["existing(/srv)"][0]
    gone = plan(expression, load, own={"/srv": UserDirectory(("there is no such directory",))})
    assert gone.skipped == {"existing(/srv)": ("there is no such directory",)}
    assert len(plan(expression, load, own={"/srv": UserDirectory((), 2 << 30, "ext4")}).runnable) == 2


def test_an_engine_is_refused_on_a_directory_of_another_file_system_than_its_driver_works_on() -> None:
    stack, load = "existing(/srv) | docker(btrfs)", "container/lifecycle(2)"
    reasons = plan(stack, load, own={"/srv": UserDirectory((), 9 << 30, "ext4")}).skipped[stack]
    assert any("docker(btrfs) needs btrfs below it, and that is ext4" in reason for reason in reasons)
    there = plan(stack, load, own={"/srv": UserDirectory((), 9 << 30, "btrfs")}).skipped.get(stack, ())
    assert not any("needs btrfs" in reason for reason in there)


def test_every_directory_of_the_user_that_a_stack_joins_has_its_reasons() -> None:
    stack = "(existing(/a) | raw(size=1G) | qsd) + (existing(/b) | raw(size=1G) | qsd) | md(raid1) | ext4"
    own = {"/a": UserDirectory((), 9 << 30, "ext4"), "/b": UserDirectory(("of somebody else",), 9 << 30, "ext4")}
    assert "of somebody else" in plan(stack, own=own).skipped[stack]


HARMLESS = ("feature/compression", "feature/dedup", "feature/dedup-on-demand", "feature/direct")


@pytest.mark.parametrize("above", ["", " | dir(a)", " | tenants(2)", " | raw(size=1G) | qsd | ext4"])
def test_a_feature_that_reaches_below_is_not_tried_on_a_directory_of_the_user(above: str) -> None:
    own = {"/srv": UserDirectory((), 90 << 30, "ext4")}
    for name, info in workloads.catalogue().items():
        if not name.startswith("feature/") or Kind.DIRECTORY not in info.accepts:
            continue
        (reasons,) = plan(f"existing(/srv){above}", name, own=own).skipped.values() or [()]
        held = [reason for reason in reasons if "holds data of yours" in reason]
        if name in HARMLESS:
            assert not held
        else:
            assert len(held) == 1 and held[0].startswith(f"{name}: ") and ", ".join(HARMLESS) in held[0]


def test_a_feature_is_tried_on_what_strata_makes() -> None:
    assert plan("disk | ext4", "feature/disk-loss").runnable


def test_a_workload_on_a_directory_of_the_user_is_told_so() -> None:
    for above in ("dir(a)", "tenants(2) | dir(a)", "raw(size=1G) | qsd | ext4"):
        (stack,) = campaigns.parse_stacks(f"existing(/srv) | {above}", layers.catalogue())
        laid = layout.lay_out(stack, layers.drivers(), (), work_dir="/v", run_uuid="0" * 32, attempt=1)
        assert all(trial_steps.target_on(top).on_existing for top in laid.tops)
        spec = Call("feature/disk-loss", "feature/disk-loss", {})
        with pytest.raises(BadInput, match="belongs to you"):
            workloads.find(spec).plan(spec, trial_steps.target_on(laid.top), "/scratch", 1)


@pytest.mark.parametrize(
    "engine", ["docker(vfs, base_size=1G)", "docker(btrfs, base_size=1G)", "podman(overlay, base_size=1G)",
               "incus(dir, base_size=1G)", "lxd(dir, base_size=1G)", "tenants(2) | docker(overlay2, base_size=1G)"]
)  # fmt: skip
def test_no_quota_is_set_on_a_file_system_of_the_user(engine: str) -> None:
    own = {"/srv": UserDirectory((), 9 << 30, "btrfs" if "btrfs" in engine else "xfs")}
    (reasons,) = plan(f"existing(/srv) | {engine}", "container/lifecycle(2)", own=own).skipped.values()
    assert any("(base_size=) sets quotas of the file system below it, which is your own" in each for each in reasons)


@pytest.mark.parametrize(
    ("stack", "sentence"),
    [
        ("disk | btrfs | docker(btrfs, base_size=1G)", "write btrfs(quotas) there"),
        ("disk | btrfs | lxd(btrfs, base_size=1G)", "write btrfs(quotas) there"),
        ("disk | xfs | docker(base_size=1G)", "write xfs(pquota) there"),
        ("disk | xfs | podman(base_size=1G)", "write xfs(pquota) there"),
        ("disk | ext4 | podman(base_size=1G)", "put it on xfs(pquota)"),
        ("disk | btrfs(quotas) | docker(btrfs, base_size=1G)", None),
        ("disk | xfs(pquota) | podman(base_size=1G)", None),
    ],
)
def test_a_base_size_needs_quotas(stack: str, sentence: str | None) -> None:
    said = " ".join(plan(stack, "container/lifecycle(2)").skipped.get(stack, ()))
    assert sentence in said if sentence else "quotas" not in said


def test_machines_that_a_workload_starts_in_every_tenant_are_added_up() -> None:
    load = "guest/debian-installer(debian=12, memory=1G)"
    text = "disk | xfs | tenants({}) | qcow2(size=2G)"
    (reasons,) = plan(text.format(9), load, disk_bytes=50 << 30).skipped.values()
    assert any("starts 9 machines at once" in reason and "memory=" in reason for reason in reasons)
    few = plan(text.format(2), load, disk_bytes=50 << 30).skipped.values()
    assert not any("machines at once" in reason for reasons in few for reason in reasons)


@pytest.mark.parametrize(("image", "fits"), [("size=1G, prealloc=full", False), ("size=900M, prealloc=falloc", True)])
def test_an_image_that_is_made_whole_leaves_some_room_to_the_file_system(image: str, fits: bool) -> None:
    made = plan(f"disk | xfs | raw({image})", "null", disk_bytes=1 << 30)
    assert any("keeps some for itself" in reason for each in made.skipped.values() for reason in each) is not fits


def test_the_disk_below_the_user_s_own_directory_has_figures_and_is_in_the_commands() -> None:
    made = plan("existing(/srv)", own={"/srv": UserDirectory((), 2 << 30, "ext4", ("/dev/vda",))})
    assert "disk.write_bytes" in {metric.name for metric in made.machine_metrics}
    lines = command_lines.of_visit(made, made.runnable[0], layers.drivers(), "DIR/work")
    assert any("--device d0=/dev/vda" in line for line in lines)


def test_a_stated_budget_does_not_make_the_machine_s_memory_smaller() -> None:
    made = plan("disk | ext4", memory=1 << 20)
    assert (made.memory_bytes, made.memory_budget_bytes) == (FACTS.memory_bytes, 1 << 20)


def test_in_a_guest_from_an_image_of_the_user_s_own_only_what_goes_in_by_ssh_can_run() -> None:
    guest = "vm(image=/win.qcow2, os=windows, key=/key)"
    made = plan(f"disk | {guest}", "guest/fio")
    reasons = " ".join(why for given in made.skipped.values() for why in given)
    assert "runs on" not in reasons
    made = plan(f"disk | {guest}", "fio/randread-4k-qd32")
    assert any("ends in a guest" in why for why in made.skipped[made.stacks[0].text])
    made = plan(f"disk | {guest} | ext4", "null")
    assert any("nothing is built in a guest" in why for why in made.skipped[made.stacks[0].text])
    made = plan("disk | vm | ext4", "guest/fio")
    assert any("runs on a guest" in why for why in made.skipped[made.stacks[0].text])


def test_images_do_not_fill_the_user_s_own_file_system() -> None:
    own = {"/srv": UserDirectory((), 50 << 30, "ext4")}
    stack = "existing(/srv) | {raw(size=900G, prealloc=full), qcow2(size=40G)} | qsd | ext4"
    found = {name: " ".join(why) for name, why in plan(stack, own=own).skipped.items()}
    grown = [why for why in found.values() if "can grow" in why]
    assert len(grown) == 1 and "raw(size=900G, prealloc=full) can grow to 900" in grown[0]
    (tenants,) = plan("existing(/srv) | tenants(2) | qcow2(size=40G) | qsd | ext4", own=own).skipped.values()
    assert any("can grow to 80" in why for why in tenants)


@pytest.mark.parametrize("below", ["2*disk | btrfs(raid1)", "2*disk | zfs(mirror=2)"])
def test_what_has_no_device_of_its_own_cannot_be_limited(below: str) -> None:
    (skipped,) = plan(f"{below} | limit(write_iops=100)").skipped.values()
    assert any("put" not in why and "give it to vm or qsd" in why for why in skipped), skipped


def test_of_a_guest_that_cannot_be_every_reason_is_given() -> None:
    kernel = replace(FACTS, filesystems=frozenset({"ext4", "xfs"}))
    look = GuestResources(image=GuestImage("/guests"), facts=kernel, memory_bytes=256 << 20)
    made = plan("disk | xfs | raw(size=100G) | vm(cache=unsafe, aio=native) | btrfs", guests=look)
    (reasons,) = made.skipped.values()
    assert any("can grow beyond" in why for why in reasons), "an image larger than the space"
    assert any("QEMU refuses vm(cache=unsafe, aio=native)" in why for why in reasons)
    assert any("btrfs" in why for why in reasons), "the kernel of the guest has no btrfs, and the host's has"
    assert any("Its guest takes 832" in why for why in reasons), "it has 256 MiB to give"


def test_a_guest_from_an_image_of_the_user_s_own_takes_memory_too() -> None:
    look = GuestResources(image=GuestImage("/guests"), facts=FACTS, memory_bytes=4 << 30)
    own = "disk | xfs | tenants(4) | raw(size=64M) | vm(memory=2G, image=/a.qcow2, key=/k)"
    (reasons,) = plan(own, "guest/fio", guests=look).skipped.values()
    assert any("Its 4 guests take 9.2" in why for why in reasons), reasons


def test_loads_that_are_measured_together_take_equally_long() -> None:
    stack = "disk | ext4 | tenants(2)"
    loads = ["fio/randrw-75-25@1(runtime=10s)", "filebench/varmail@2(runtime=20s)"]
    (reasons,) = plan(stack, *loads, disk_bytes=8 << 30).skipped.values()
    assert any("do not take equally long" in why for why in reasons), reasons
    assert plan(stack, loads[0], loads[1].replace("20s", "10s"), disk_bytes=8 << 30).runnable
    # One after the other: each begins a round of its own.
    assert plan(stack, loads[0], loads[0].replace("10s", "20s"), disk_bytes=8 << 30).runnable


@pytest.mark.parametrize(
    ("expression", "bio_based"),
    [
        ("disk | scheduler(none) | ext4", None),
        ("disk | partition | null | scheduler(none) | ext4", None),
        ("2*(disk | scheduler(none)) | md(raid1) | lvm | ext4", None),
        ("nullblk | scheduler(none) | ext4", None),
        ("disk | lvm | vm | scheduler(none) | ext4", None),
        ("2*disk | md(raid1) | scheduler(none) | ext4", "md(raid1)"),
        ("2*disk | md(raid1) | partition | scheduler(none) | ext4", "md(raid1)"),
        ("disk | lvm | scheduler(none) | ext4", "lvm"),
        ("disk | lvmthin | fill(50%) | scheduler(none) | ext4", "lvmthin"),
        ("disk + disk | lvmcache | scheduler(none) | ext4", "lvmcache"),
        ("disk | vdo | scheduler(none) | ext4", "vdo"),
        ("disk | dm(linear) | scheduler(none) | ext4", "dm(linear)"),
        ("disk + disk | bcache | scheduler(none) | ext4", "bcache"),
        ("disk | zfs | zvol | scheduler(none) | ext4", "zvol"),
    ],
)
def test_a_device_that_passes_requests_on_has_no_scheduler_to_set(expression: str, bio_based: str | None) -> None:
    """On old kernels its file says "none" and writes are ignored, so scheduler(none) would prove itself."""
    made = plan(expression, disk_bytes=8 << 30)
    (found,) = [*(stack.text for stack in made.runnable), *made.skipped]
    (stack,) = parse_stacks(found, layers.catalogue())
    told = [each for each in planning.misplaced(stack, layers.drivers()) if "bio-based" in each]
    if bio_based is None:
        assert not told
    else:
        (reason,) = told
        assert f"to set on {bio_based}: " in reason
        assert reason in made.skipped[found]


@pytest.mark.parametrize(
    ("expression", "can_run"),
    [
        ("disk | dm(zero)", True),
        ("disk | dm(zero) | dm(delay, read=20ms)", True),
        ("disk | scheduler(none) | dm(zero)", True),
        ("disk | dm(zero) | ext4", False),
        ("disk | dm(zero) | dm(linear) | xfs", False),
        ("2*disk | dm(zero) | md(raid1) | ext4", False),
        ("nullblk(memory_backed=off)", True),
        ("nullblk(memory_backed=off) | ext4", False),
        ("nullblk | ext4", True),
        ("disk | dm(linear) | ext4", True),
    ],
)
def test_what_has_to_be_found_again_stands_on_nothing_that_forgets(expression: str, can_run: bool) -> None:
    facts = replace(FACTS, modules=frozenset({"dm_mod", "dm_zero", "dm_delay", "raid1", "null_blk", "md_mod"}))
    made = plan(expression, facts=facts)
    reasons = [reason for each in made.skipped.values() for reason in each]
    assert bool(made.runnable) is can_run, reasons
    assert can_run or any("keeps nothing" in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("disk | ext4 | raw(size=299M) | vm | xfs", "xfs is not made on less than 300.0 MiB"),
        ("disk | xfs | tenants(4) | raw(size=200M) | vm | xfs", "xfs is not made on less than 300.0 MiB"),
        ("disk | partition(size=299M) | xfs", "a device below it has 299.0 MiB; make the disk larger"),
        ("disk | partition(size=299M) | xfs(mkfs=--unsupported)", None),
        ("disk | partition(size=300M) | xfs", None),
        ("disk | xfs(logsize=10M)", "no log of less than 64M"),
        ("disk | partition(size=108M) | btrfs", "btrfs is not made on less than 109.0 MiB"),
        ("disk | partition(size=109M) | btrfs", None),
        ("disk | partition(size=44M) | btrfs(metadata=single)", "less than 45.0 MiB"),
        ("disk | partition(size=16M) | btrfs(mkfs=--mixed)", None),
        ("2*disk | partition(size=68M) | btrfs", "less than 69.0 MiB"),
        ("2*disk | partition(size=124M) | btrfs(raid1)", "less than 125.0 MiB"),
        ("2*disk | partition(size=125M) | btrfs(raid1)", None),
    ],
)
def test_a_file_system_is_not_planned_on_less_than_mkfs_takes(expression: str, words: str | None) -> None:
    reasons = [reason for each in plan(expression, guests=HAS_GUESTS).skipped.values() for reason in each]
    assert any(words in reason for reason in reasons) if words else not reasons, reasons


@pytest.mark.parametrize("image", ["raw", "qcow2"])
def test_only_btrfs_has_images_that_are_written_in_place(image: str) -> None:
    made = plan(f"disk | {{xfs, zfs, btrfs}} | {image}(nocow)", facts=replace(FACTS, modules=frozenset({"zfs"})))
    assert [stack.text for stack in made.runnable] == [f"disk | btrfs | {image}(nocow)"]
    for filesystem in ("xfs", "zfs"):
        (reason,) = made.skipped[f"disk | {filesystem} | {image}(nocow)"]
        assert f"{filesystem} has no such files; leave nocow out" in reason


@pytest.mark.parametrize("stack", ["disk | vm | vm", "disk | vm | ext4 | tenants(2) | raw(size=64M) | vm | ext4"])
def test_a_guest_in_a_guest_is_refused_whatever_is_installed_there(stack: str) -> None:
    bare = replace(HAS_GUESTS, facts=replace(FACTS, tools={}))
    for look in (HAS_GUESTS, bare):
        (reasons,) = plan(stack, guests=look).skipped.values()
        assert (
            "vm stands in a guest, where there is nothing to start another from; take one of the guests out." in reasons
        )
        assert not any("qemu-system-x86_64" in reason for reason in reasons), (
            "installing it in the guest would not help"
        )


@pytest.mark.parametrize(
    ("stack", "load", "can_run"),
    [
        ("disk | vm", "fio/randread-4k-qd32(bs=1000)", False),
        ("disk | ext4", "fio/randread-4k-qd32(bs=1000, direct=off)", True),
        ("disk | ext4", "fio/randread-4k-qd32(bs=1536)", True),
        ("disk | vm(image=/a.qcow2, key=/k)", "guest/fio(bs=1000)", False),
        ("disk | vm(image=/a.qcow2, key=/k)", "guest/fio(bs=1024)", True),
    ],
)
def test_what_passes_the_page_cache_by_is_whole_sectors(stack: str, load: str, can_run: bool) -> None:
    if can_run:
        assert plan(stack, load, guests=HAS_GUESTS).runnable
        return
    with pytest.raises(BadInput, match="bs= is a multiple of 512 bytes, and 1000 is none; round it"):
        plan(stack, load, guests=HAS_GUESTS)


def test_a_request_is_not_larger_than_the_data() -> None:
    with pytest.raises(BadInput, match="bs=2M is more than size=1M; correct one of them"):
        plan("disk | ext4", "fio/seqread-1m(bs=2M, size=1M)")


@pytest.mark.parametrize("limit", ["write_bps=1", "write_bps=1000K", "read_iops=9"])
@pytest.mark.parametrize("stack", ["disk | vm({}) | ext4", "disk | ext4 | qcow2 | qsd({})", "disk | ext4 | limit({})"])
def test_a_limit_so_small_that_nothing_gets_through_is_refused(stack: str, limit: str) -> None:
    with pytest.raises(BadInput, match="the least is"):
        plan(stack.format(limit), guests=HAS_GUESTS)


@pytest.mark.parametrize(
    ("stack", "load", "words"),
    [
        (
            "disk | vm | ext4",
            "filebench/fileserver(nfiles=100)",
            "its threads take 550.0 MiB of memory, and a guest of",
        ),
        ("disk | vm(memory=1G) | ext4", "filebench/fileserver(nfiles=100)", None),
        ("disk | vm(memory=1G) | ext4", "filebench/webserver(nfiles=100)", "give it more (vm(memory=))"),
        ("disk | vm(memory=1G) | ext4", "filebench/webserver(nfiles=100, nthreads=8)", None),
        ("disk | vm | ext4", "filebench/videoserver", "its threads take 490.0 MiB"),
        ("disk | vm | ext4", "filebench/oltp", None),
        ("disk | ext4 | tenants(2) | raw | vm | ext4", "filebench/fileserver@2(nfiles=100)", "a guest of 512M has 362"),
        (
            "disk | ext4 | tenants(16)",
            "filebench/fileserver(nfiles=100)",
            "take 8.6 GiB of memory, and this machine has",
        ),
        ("disk | ext4 | tenants(16)", "filebench/fileserver@3(nfiles=100)", None),
    ],
)
def test_the_threads_of_a_load_have_their_memory(stack: str, load: str, words: str | None) -> None:
    made = plan(stack, load, disk_bytes=64 << 30, guests=HAS_GUESTS if "vm" in stack else None)
    reasons = [reason for each in made.skipped.values() for reason in each]
    assert any(words in reason for reason in reasons) if words else made.runnable, reasons


def test_a_file_of_the_user_s_that_cannot_be_read_is_a_reason() -> None:
    text = "disk | vm(image=/none.qcow2, key=/key)"
    (reasons,) = plan(text, "guest/fio", guests=HAS_GUESTS, unreadable={"/none.qcow2"}).skipped.values()
    (reason,) = reasons
    assert "vm(image=/none.qcow2): there is no such file on this machine" in reason and "say where it is" in reason
    assert plan(text, "guest/fio", guests=HAS_GUESTS).runnable


def test_of_a_file_system_in_a_guest_the_guest_s_kernel_decides() -> None:
    without = replace(FACTS, kernel_text="6.12.57-guest", filesystems=frozenset({"ext4"}))
    stack = "disk | ext4 | tenants(2) | raw(size=1G) | vm | {ext4, xfs}"
    made = plan(stack, guests=replace(HAS_GUESTS, facts=without))
    assert [each.text for each in made.runnable] == ["disk | ext4 | tenants(2) | raw(size=1G) | vm | ext4"]
    ((reason,),) = made.skipped.values()
    assert reason.startswith("The kernel 6.12.57-guest cannot mount xfs; boot a kernel that has xfs")
    assert len(plan(stack, facts=without, guests=HAS_GUESTS).runnable) == 2, "the machine outside mounts no xfs"


@pytest.mark.parametrize(
    "engine", ["containerd(devmapper, {})", "docker(devicemapper, {})", "incus(lvm, {})", "lxd(lvm, {})"]
)
@pytest.mark.parametrize(("root", "small"), [("base_size=256M, fs=xfs", True), ("base_size=256M, fs=ext4", False)])
def test_a_container_s_root_is_not_smaller_than_its_file_system_takes(engine: str, root: str, small: bool) -> None:
    skipped = plan(f"disk | lvmthin(zero=off) | {engine.format(root)}", "container/lifecycle(2)").skipped.values()
    assert any("make base_size= larger, or choose fs=ext4" in reason for each in skipped for reason in each) is small


def test_a_limit_on_a_container_is_the_engines_to_hold() -> None:
    limited = "disk | ext4 | podman{} | container(write_bps=1M)"
    able = replace(FACTS, io_control="1")
    (reasons,) = plan(limited.format(""), facts=able).skipped.values()  # of what else podman needs
    assert not any("limit" in reason for reason in reasons), reasons
    (reasons,) = plan(limited.format("(user=strata)"), facts=able).skipped.values()
    assert any("to limit, and a user's own Podman may not" in reason for reason in reasons), reasons
    (reasons,) = plan(limited.format("")).skipped.values()
    assert any("limits no I/O here" in reason and "leave write_bps out" in reason for reason in reasons), reasons


@pytest.mark.parametrize(
    ("below", "where"), [("docker | container", "container"), ("podman", "container"), ("raw", "qsd or vm")]
)
def test_a_limit_where_none_can_stand_is_sent_to_where_it_can(below: str, where: str) -> None:
    with pytest.raises(BadInput, match=rf"what it holds is an argument of {where}, so write \w+\(read_iops=\.\.\.\)"):
        plan(f"disk | ext4 | {below} | limit(write_bps=10M)")


def test_io_uring_that_is_switched_off_is_said_before() -> None:
    off = replace(FACTS, io_uring_disabled="2")
    (reasons,) = plan("disk | vm(aio=io_uring)", facts=off, guests=HAS_GUESTS).skipped.values()
    (reason,) = (reason for reason in reasons if "io_uring" in reason)
    assert "kernel.io_uring_disabled is 2" in reason and reason.endswith("or choose another aio.")
    with pytest.raises(BadInput, match=r"`sysctl kernel\.io_uring_disabled=0`, or choose another ioengine"):
        plan("disk | ext4", "fio/randread-4k-qd32(ioengine=io_uring)", facts=off)
    assert plan("disk | ext4", "fio/randread-4k-qd32", facts=off).runnable
    # It is the guest's kernel that fio asks there.
    inside = replace(HAS_GUESTS, facts=off)
    with_io_uring = "fio/randread-4k-qd32(ioengine=io_uring)"
    (reasons,) = plan("disk | vm", with_io_uring, guests=inside).skipped.values()
    assert any("switched off" in reason for reason in reasons)
