"""What is deployed is what was measured, without what served the measurement only, or the files say what differs."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Place
from strata.recipes import plan, shell
from strata.recipes.formats import formats
from strata.recipes.plan import Recipe
from strata.recipes.written import File

LVM = {
    "disk | lvm | ext4": ["disk"],
    "2*disk | lvm(raid1) | ext4": ["disk", "disk"],
    "disk | lvmthin | xfs": ["disk"],
    "hdd + ssd | lvmcache(writeback) | xfs": ["hdd", "ssd"],
    "disk | vdo | xfs": ["disk"],
}


def made(text: str, roles: list[str] | None = None) -> Recipe:
    (stack,) = parse_stacks(text, catalogue())
    roles = ["disk"] if roles is None else roles
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    return plan.recipe(
        stack, drivers(), [plan.Given(each.role, each.path, 1 << 40) for each in given], accept_loss=True
    )


def files(text: str, form: str, roles: list[str] | None = None) -> dict[str, File]:
    return {file.name: file for file in formats()[form].write(made(text, roles))}


def refusal(text: str, form: str, roles: list[str] | None = None) -> str:
    with pytest.raises(BadInput) as raised:
        files(text, form, roles)
    return str(raised.value)


@pytest.mark.parametrize("text", LVM)
@pytest.mark.parametrize("form", ["shell", "systemd", "ansible"])
def test_lvm_keeps_copies_of_its_metadata_and_watches_its_pools(text: str, form: str) -> None:
    written = "".join(file.text for file in files(text, form, LVM[text]).values())
    for isolation in ("backup=0", "archive=0", "monitoring=0", "use_lvmpolld=0", "event_activation=0", "errorwhenfull"):
        assert isolation not in written
    assert "backup=1 archive=1" in written and "monitoring=1" in written and "/etc/lvm" in written


@pytest.mark.parametrize("text", LVM)
def test_lvm_of_a_measurement_stays_apart_from_the_machine(text: str) -> None:
    for layer in made(text, LVM[text]).layers:
        place = Place(layer.place.name, "/run/x", layer.place.uuid)
        steps = layer.driver.plan_create(layer.node.call, layer.below, place)
        words = " ".join(word for step in steps for word in step.do.argv)
        if "vgcreate" in words:
            assert "backup=0 archive=0" in words and "monitoring=0" in words and "/etc/lvm" not in words
            assert ("errorwhenfull" in words) is (layer.node.call.name == "lvmthin")


def test_a_thin_pool_that_waits_when_it_is_full_is_as_asked() -> None:
    layer = made("disk | lvmthin").layers[-1]
    driver, call = layer.driver, layer.node.call

    def complaints(place: Place, when_full: str) -> list[str]:
        from strata.model import Completed

        row = {"lv_name": "pool", "segtype": "thin-pool", "lv_when_full": when_full}
        answers = ["vda\n", json.dumps({"report": [{"pvseg": []}]}), json.dumps({"report": [{"lv": [row]}]}), *[""] * 4]
        seen = [Completed(("x",), 0, answer, "", 0.0) for answer in answers]
        return [line for line in driver.differences(call, layer.below, place, seen) if "when it is full" in line]

    visit = Place(layer.place.name, "/run/x", layer.place.uuid)
    assert complaints(layer.place, "queue") == [] and complaints(visit, "error") == []
    assert complaints(layer.place, "error") and complaints(visit, "queue")


def test_a_thin_chunk_is_the_one_measured_and_the_recipe_says_so() -> None:
    script = shell.render(made("disk | lvmthin | ext4"))
    assert "--chunksize 65536b" in script
    assert "lvmthin is built with chunk=64K: LVM chooses 64K for a pool of up to 128G" in script
    chosen = shell.render(made("disk | lvmthin(chunk=256K) | ext4"))
    assert "--chunksize 262144b" in chosen and "is built with" not in chosen
    assert "chunk=64K" in files("disk | lvmthin | incus(lvm)", "incus")["data-incus.sh"].text


def test_a_cache_whose_chunk_lvm_chooses_by_its_size_says_so() -> None:
    script = shell.render(made("hdd + ssd | lvmcache | ext4", ["hdd", "ssd"]))
    assert "Chunk of the cache: LVM chooses it" in script
    fixed = shell.render(made("hdd + ssd | lvmcache(chunk=128K) | ext4", ["hdd", "ssd"]))
    assert "Chunk of the cache" not in fixed


def test_a_zfs_pool_waits_for_its_disks() -> None:
    recipe = made("disk | zfs")
    layer = recipe.layers[-1]
    assert "failmode" not in shell.render(recipe)
    visit = layer.driver.plan_create(layer.node.call, layer.below, Place("x", "/run/x", layer.place.uuid))
    assert any("failmode=continue" in step.do.argv for step in visit)
    assert "failmode=panic" in shell.render(made('disk | zfs(pool="failmode=panic")'))


def test_disko_gives_zfs_the_id_of_the_machine() -> None:
    text = files("disk | zfs", "disko")["data-disko.nix"].text
    assert "\n{ lib, ... }:\n{" in text
    assert '  networking = {\n    hostId = lib.mkDefault "' in text
    assert "hostId" not in files("disk | ext4", "disko")["data-disko.nix"].text


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("4*disk | zfs(mirror=2)", ["disk"] * 4),
        ("3*disk | zfs(mirror=2, slog=1)", ["disk"] * 3),
        ("2*disk | zfs(l2arc=1)", ["disk"] * 2),
    ],
)
def test_disko_refuses_a_pool_of_several_groups(text: str, roles: list[str]) -> None:
    assert "several groups of devices" in refusal(text, "disko", roles)


# ---------------------------------------------------------------- room for guests


@pytest.mark.parametrize("form", ["proxmox", "libvirt"])
@pytest.mark.parametrize(
    ("text", "roles", "reason"),
    [
        ("disk | lvm", ["disk"], "lvm leaves none"),
        ("2*disk | lvm(striped, size=1G)", ["disk"] * 2, "those of lvm(striped"),
        ("hdd + ssd | lvmcache", ["hdd", "ssd"], "those of lvmcache would be others"),
        ("disk | vdo(size=10G)", ["disk"], "those of vdo(size=10G) would be others"),
    ],
)
def test_a_group_without_room_for_guests_is_not_handed_over(
    form: str, text: str, roles: list[str], reason: str
) -> None:
    said = refusal(text, form, roles)
    assert reason in said and "choose lvmthin, lvm(size=...)" in said


def test_a_group_with_room_is_handed_over() -> None:
    assert "\nlvm: data\n\tvgname data-1\n" in files("disk | lvm(size=1G)", "proxmox")["storage.cfg"].text
    pool = ElementTree.fromstring(files("disk | lvm(snapshots=1G)", "libvirt")["data-pool.xml"].text)
    assert pool.get("type") == "logical" and pool.findtext("source/name") == "data-1"


def test_a_guest_gets_the_very_device_where_no_other_can_be_made_like_it() -> None:
    given = files("disk | lvm | vm(cache=writeback)", "proxmox")
    assert list(given) == ["data-disk.sh"]
    line = 'qm set "$1" --virtio1 /dev/data-1/volume,cache=writeback,aio=threads,detect_zeroes=0'
    assert given["data-disk.sh"].text.endswith(f"{line}\n")
    disks = files("disk | lvm | vm", "libvirt")
    assert list(disks) == ["data-disk.xml", "data-libvirt.txt"]
    source = ElementTree.fromstring(disks["data-disk.xml"].text).find("source")
    assert source is not None and source.get("dev") == "/dev/data-1/volume"


def test_libvirt_knows_nothing_of_thin_pools_and_bare_devices() -> None:
    assert "know nothing of the thin pool" in refusal("disk | lvmthin", "libvirt")
    assert "gives a bare device" in refusal("2*disk | md(raid1)", "libvirt", ["disk"] * 2)
    pool = ElementTree.fromstring(files("disk | zfs", "libvirt")["data-pool.xml"].text)
    assert pool.get("type") == "zfs" and pool.findtext("source/name") == "data-1"


def test_dockers_devicemapper_takes_a_thin_pool_only() -> None:
    assert "choose a stack that ends in lvmthin" in refusal("disk | lvm | docker(devicemapper)", "docker")
    settings = json.loads(files("disk | lvmthin | docker(devicemapper)", "docker")["daemon.json"].text)
    assert settings["storage-opts"] == ["dm.thinpooldev=/dev/mapper/data--1-pool-tpool"]


# ---------------------------------------------------------------- disks of guests

GUEST = "disk | xfs | qcow2(size=4G) | vm({})"
LIMITS = "read_iops=100, write_iops=200, read_bps=10M, write_bps=20M"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "--virtio1 DATA,cache=none,aio=threads,detect_zeroes=0"),
        ("detect_zeroes=on", "--virtio1 DATA,cache=none,aio=threads,detect_zeroes=1"),
        ("discard, detect_zeroes=unmap", "--virtio1 DATA,cache=none,aio=threads,discard=on,detect_zeroes=1"),
        ("bus=virtio-scsi", "--scsihw virtio-scsi-pci --scsi1 DATA,cache=none,aio=threads,detect_zeroes=0"),
        (
            "bus=virtio-scsi, iothread",
            "--scsihw virtio-scsi-single --scsi1 DATA,cache=none,aio=threads,detect_zeroes=0,iothread=1",
        ),
        ("bus=sata", "--sata1 DATA,cache=none,aio=threads,detect_zeroes=0"),
        (
            "bus=sata, read_iops=100, write_bps=20M",
            "--sata1 DATA,cache=none,aio=threads,detect_zeroes=0,iops_rd=100,bps_wr=20971520",
        ),
        (
            "write_iops=200, read_bps=10M",
            "--virtio1 DATA,cache=none,aio=threads,detect_zeroes=0,iops_wr=200,bps_rd=10485760",
        ),
    ],
)
def test_proxmox_gives_a_guest_the_disk_that_was_measured(arguments: str, words: str) -> None:
    text = files(GUEST.format(arguments), "proxmox")["data-disk.sh"].text
    expected = words.replace("DATA", 'data:"$2",format=qcow2')
    assert text.endswith(f'\nqm set "$1" {expected}\n')


def test_what_proxmox_cannot_say_of_a_disk_is_said() -> None:
    assert "has only unmap" in files(GUEST.format("discard, detect_zeroes=on"), "proxmox")["data-disk.sh"].text
    assert "no disk with bus=nvme" in refusal(GUEST.format("bus=nvme"), "proxmox")
    assert "no disk with bus=nvme" in refusal(GUEST.format("bus=nvme"), "libvirt")


def test_libvirt_gives_a_guest_the_disk_that_was_measured() -> None:
    given = files(GUEST.format(f"bus=virtio-scsi, iothread, discard, detect_zeroes=unmap, {LIMITS}"), "libvirt")
    disk = ElementTree.fromstring(given["data-disk.xml"].text)
    controller = ElementTree.fromstring(given["data-controller.xml"].text)
    driver, target, address = disk.find("driver"), disk.find("target"), disk.find("address")
    assert driver is not None and target is not None and address is not None
    assert driver.attrib == {
        "name": "qemu", "type": "qcow2", "cache": "none", "io": "threads", "discard": "unmap", "detect_zeroes": "unmap",
    }  # fmt: skip
    assert target.attrib == {"dev": "sdb", "bus": "scsi"} and address.get("controller") == controller.get("index")
    assert controller.get("model") == "virtio-scsi" and controller.find("driver[@iothread='1']") is not None
    assert {each.tag: each.text for each in disk.findall("iotune/*")} == {
        "read_iops_sec": "100", "write_iops_sec": "200", "read_bytes_sec": "10485760", "write_bytes_sec": "20971520",
    }  # fmt: skip
    assert "virsh iothreadadd GUEST 1" in given["data-libvirt.txt"].text


def test_libvirts_thread_of_a_virtio_disk_is_made_first() -> None:
    given = files(GUEST.format("iothread"), "libvirt")
    assert "data-controller.xml" not in given
    driver = ElementTree.fromstring(given["data-disk.xml"].text).find("driver")
    assert driver is not None and driver.get("iothread") == "1" and driver.get("detect_zeroes") == "off"
    assert "virsh iothreadadd GUEST 1" in given["data-libvirt.txt"].text
    plain = files(GUEST.format(""), "libvirt")
    assert "iothread" not in plain["data-disk.xml"].text + plain["data-libvirt.txt"].text


# ---------------------------------------------------------------- what happens without a disk


@pytest.mark.parametrize(
    ("text", "options"), [("disk | ext4(noatime)", "noatime,nofail"), ("disk | xfs", "defaults,nofail")]
)
def test_a_missing_disk_does_not_end_the_boot(text: str, options: str) -> None:
    (file,) = files(text, "fstab").values()
    assert file.text.splitlines()[-1].split()[3] == options
    assert "nofail: boot does not wait" in file.text and "RequiresMountsFor=/srv/data" in file.text


@pytest.mark.parametrize(
    ("form", "services"),
    [
        ("docker", ["docker"]),
        ("podman", ["podman", "podman-restart"]),
        ("incus", ["incus"]),
        ("lxd", ["lxd", "snap.lxd.daemon"]),
    ],
)
def test_a_daemon_does_not_start_without_its_storage(form: str, services: list[str]) -> None:
    for text, lines in (
        ("disk | ext4", ["RequiresMountsFor=/srv/data", "AssertPathIsMountPoint=/srv/data"]),
        (
            "disk | zfs",
            [
                "Requires=strata-data.service",
                "After=strata-data.service",
                "RequiresMountsFor=/srv/data",
                "AssertPathIsMountPoint=/srv/data",
            ],
        ),
    ):
        placed = {file.place: file.text for file in files(text, form).values()}
        for service in services:
            drop_in = placed[f"/etc/systemd/system/{service}.service.d/strata-data.conf"]
            assert [line for line in drop_in.splitlines() if not line.startswith("#")] == ["[Unit]", *lines]


def test_a_daemon_on_a_pool_waits_for_the_pool() -> None:
    drop_in = files("disk | lvmthin", "incus")["incus-strata-data.conf"].text
    assert "Requires=strata-data.service\n" in drop_in and "AssertPathExists=/dev/data-1/volume\n" in drop_in


def test_a_mirror_below_a_single_cache_device_is_started_without_one_of_its_disks() -> None:
    text, roles = "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | ext4", ["hdd", "hdd", "ssd"]
    service = files(text, "systemd", roles)["strata-data.service"].text
    assert "dev-disk" not in service and "wait for the disks" in service


def test_what_may_lack_a_disk_is_started_before_systemd_gives_up_the_mount() -> None:
    """Both would wait for 90 s otherwise, and the mount fails at the moment at which its device can be made."""
    service = files("2*disk | lvm(raid1) | ext4", "systemd", ["disk", "disk"])["strata-data.service"].text
    first = next(line for line in service.splitlines() if line.startswith("ExecStart="))
    assert "-ge 30 ]" in first and first.endswith('"/dev/disk/by-id/wwn-0" "/dev/disk/by-id/wwn-1"')
    alone = files("disk | lvmthin | ext4", "systemd")["strata-data.service"].text
    assert "wait for the disks" not in alone and "\nRequires=dev-disk" in alone


def test_a_partition_that_is_there_at_boot_is_not_made_again() -> None:
    """partx --update removes it and adds it again: systemd then stops the mount that lies on it."""
    service = files("disk | partition | btrfs", "systemd")["strata-data.service"].text
    assert '[ -b \\"$$part\\" ] || partx --update' in service


@pytest.mark.parametrize(
    ("text", "options"), [("disk | ext4(noatime)", "noatime,nofail"), ("disk | xfs", "defaults,nofail")]
)
def test_a_machine_that_an_installer_set_up_boots_without_the_disk(text: str, options: str) -> None:
    curtin = files(text, "curtin")["data-curtin.yaml"].text
    assert f"\n    options: {options}\n" in curtin and "nofail: boot does not wait" in curtin
    disko = files(text, "disko")["data-disko.nix"].text
    words = " ".join(f'"{option}"' for option in options.split(","))
    assert f"mountOptions = [ {words} ];" in disko and "nofail: boot does not wait" in disko


def test_a_pool_of_disko_is_not_needed_at_boot() -> None:
    text = files("disk | zfs", "disko")["data-disko.nix"].text
    assert '  fileSystems = {\n    "/srv/data" = {\n      options = [ "nofail" ];' in text


def test_units_say_how_they_are_enabled() -> None:
    for file in files("2*disk | md(raid1) | ext4", "systemd", ["disk", "disk"]).values():
        assert "`systemctl daemon-reload && systemctl enable --now strata-data.service srv-data.mount`" in file.text


def test_a_pool_of_libvirt_is_not_at_the_mount_point_itself() -> None:
    for text in ("disk | ext4", "disk | ext4 | qcow2(size=1G)"):
        written = files(text, "libvirt")
        assert ElementTree.fromstring(written["data-pool.xml"].text).findtext("target/path") == "/srv/data/libvirt"
        commands = [
            line.strip() for line in written["data-libvirt.txt"].text.splitlines() if line.startswith("  virsh")
        ]
        wanted = ["define data-pool.xml", "build data", "start data", "autostart data"]
        assert commands == [f"virsh pool-{words}" for words in wanted]


@pytest.mark.parametrize(("form", "name"), [("docker", "daemon.json"), ("podman", "storage.conf"), ("fstab", "fstab")])
def test_files_that_a_machine_may_have_are_added_to_it(form: str, name: str) -> None:
    assert files("disk | ext4", form)[name].added


# ---------------------------------------------------------------- running full


@pytest.mark.parametrize("form", [name for name in formats() if name not in ("curtin", "disko")])
def test_what_can_run_full_unseen_is_told_in_every_format(form: str) -> None:
    told = 0
    for text in ("disk | lvmthin | xfs", "disk | vdo | ext4", "disk | xfs | qcow2(size=4G)", "disk | lvmthin"):
        try:
            written = files(text, form)
        except BadInput:
            continue
        told += 1
        assert any("Running full: " in file.text for file in written.values())
    assert told


def test_a_mark_of_percent_in_a_stack_is_no_specifier_of_systemd() -> None:
    text = "".join(file.text for file in files('disk | xfs(mkfs="-L 100%n")', "systemd").values())
    (line,) = [line for line in text.splitlines() if line.startswith("Description=")]
    assert line.replace("%%", "").count("%") == 0 and "100%%n" in line


def test_proxmox_keeps_an_image_on_zfs_a_file() -> None:
    """Its storage of type zfspool knows no qcow2, and would make a volume instead."""
    for text in ("disk | zfs | qcow2(size=4G) | vm", "disk | zfs | raw(size=4G) | vm"):
        storage = files(text, "proxmox")["storage.cfg"].text
        assert "\ndir: data" in storage and "is_mountpoint /srv/data" in storage and "zfspool" not in storage


# ---------------------------------------------------------------- what fails, and what may differ


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2*disk | md(raid1) | ext4", "mdadm.conf has MAILADDR"),
        ("2*disk | lvm(raid1) | xfs", "`lvs -o+lv_health_status data-2`"),
        ("2*disk | zfs(mirror=2)", "zed.rc has ZED_EMAIL_ADDR"),
        ("2*disk | btrfs(raid1)", "`btrfs device stats /srv/data`"),
    ],
)
def test_a_recipe_of_copies_says_what_warns_of_a_failed_disk(text: str, words: str) -> None:
    for form in ("shell", "systemd", "docker"):
        written = "".join(file.text for file in files(text, form, ["disk"] * 2).values())
        assert "A failed disk: " in written and words in written
    for alone in ("disk | ext4", "disk | zfs", "disk | lvm | ext4", "disk | btrfs"):
        assert "A failed disk" not in shell.render(made(alone))


def test_a_recipe_says_what_the_kernel_and_zfs_choose_by_the_machine() -> None:
    assert "I/O scheduler and read-ahead: the recipe sets neither" in files("disk | ext4", "fstab")["fstab"].text
    assert "I/O scheduler and" not in files("disk | scheduler(none) | ext4", "fstab")["fstab"].text
    free = shell.render(made("disk | zfs"))
    assert "Sector size: ZFS asks the devices" in free and "Memory: ZFS's cache may take half" in free
    bound = shell.render(made("disk | zfs(ashift=12, arc_max=1G)"))
    assert "Sector size: " not in bound and "Memory: ZFS" not in bound


@pytest.mark.parametrize("text", ["disk | ext4 | limit(write_iops=10)", "disk | limit(write_iops=10) | ext4"])
def test_an_instrument_is_in_no_recipe(text: str) -> None:
    with pytest.raises(BadInput, match="is an instrument, which stacks are compared with"):
        made(text)


def test_docker_keeps_its_images_on_the_stack_and_says_what_one_sees() -> None:
    """The image store of containerd, Docker 29's default, keeps them in /var/lib/containerd."""
    written = files("disk | xfs", "docker")
    assert json.loads(written["daemon.json"].text)["features"] == {"containerd-snapshotter": False}
    assert "`docker info --format '{{.Driver}} {{.DockerRootDir}}'` says overlay2 /srv/data/docker" in (
        written["daemon.json.txt"].text
    )


def test_commands_for_libvirt_can_be_copied() -> None:
    """In a comment of XML, an option would have a space between its hyphens."""
    written = files(GUEST.format("iothread"), "libvirt")
    assert "\n  virsh attach-device GUEST data-disk.xml --config\n" in written["data-libvirt.txt"].text
    for name, file in written.items():
        assert name.endswith(".txt") or "virsh" not in file.text
