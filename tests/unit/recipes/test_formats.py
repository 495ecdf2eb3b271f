"""Every format, kept in golden/FORMAT/CASE: refreshed with STRATA_REFRESH_GOLDEN=1, then read.

A case is a stack; a format that cannot express it keeps the reason.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.recipes import plan, shell
from strata.recipes.formats import formats

HERE = Path(__file__).parent
REFRESH = bool(os.environ.get("STRATA_REFRESH_GOLDEN"))

CASES = {
    "file-system": ("disk | ext4(noatime)", ["disk"]),
    "engine": ("disk | partition | btrfs(noatime) | docker(btrfs)", ["disk"]),
    "thin": ("disk | lvmthin(zero=off) | incus(lvm, fs=xfs)", ["disk"]),
    "zfs": ("2*disk | zfs(mirror=2, compression=lz4)", ["disk", "disk"]),
    "guest": (
        "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | btrfs(compress=zstd) | qcow2(size=16G) | vm",
        ["hdd", "hdd", "ssd"],
    ),
    "device": ("2*disk | md(raid1)", ["disk", "disk"]),
}
# The whole script is long; what is in it is tested on real devices.
FORMATS = [name for name in formats() if name not in ("shell", "ansible")]


def written(name: str, case: str) -> str:
    text, roles = CASES[case]
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    try:
        files = formats()[name].write(plan.recipe(stack, drivers(), given, accept_loss=True))
    except BadInput as refusal:
        return f"refused: {refusal}\n"
    return "".join(f"==== {file.name} {file.place}\n{file.text}" for file in files)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_a_recipe_is_written_as_kept(name: str, case: str) -> None:
    path = HERE / "golden" / name / f"{case}.txt"
    now = written(name, case)
    if REFRESH:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now)
    assert path.read_text() == now


def test_a_refusal_names_another_way() -> None:
    texts = [(name, written(name, case)) for name in FORMATS for case in CASES]
    refusals = [(name, text) for name, text in texts if text.startswith("refused")]
    assert {name for name, _ in refusals} == set(FORMATS) - {"systemd"}, "which can express every case"
    for name, text in refusals:
        assert text.startswith(f"refused: --as {name}: ")
        assert ";" in text


def of(text: str, form: str) -> str:
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped(["disk=/dev/disk/by-id/wwn-0"], {"disk": 100 << 30})
    return "".join(file.text for file in formats()[form].write(plan.recipe(stack, drivers(), given)))


def test_a_podman_of_an_ordinary_user_is_not_handed_over_as_that_of_root() -> None:
    with pytest.raises(BadInput, match="measured as an ordinary user"):
        of("disk | ext4 | podman(user=nobody)", "podman")


def test_a_driver_that_newer_engines_have_not_is_told() -> None:
    assert "Docker 25 and newer have no devicemapper" in of("disk | ext4 | docker(devicemapper)", "docker")
    assert "Docker 25" not in of("disk | btrfs | docker(btrfs)", "docker")


def test_proxmox_gets_the_storage_below_an_image_and_the_disk_as_it_was_measured() -> None:
    text = of("disk | xfs | qcow2 | vm(cache=writeback, discard, bus=virtio-scsi)", "proxmox")
    words = 'data:"$2",format=qcow2,cache=writeback,aio=threads,discard=on,detect_zeroes=0'
    assert f'qm set "$1" --scsihw virtio-scsi-pci --scsi1 {words}' in text
    assert "\ndir: data\n\tpath /srv/data\n" in text
    thin = of("disk | lvmthin | vm(cache=none, aio=native)", "proxmox")
    assert '--virtio1 data:"$2",cache=none,aio=native' in thin and "lvmthin: data" in thin


def test_dockers_configuration_is_json() -> None:
    text = written("docker", "engine").split("\n", 1)[1].split("====")[0]
    graph_driver = {"features": {"containerd-snapshotter": False}}
    assert json.loads(text) == {"storage-driver": "btrfs", "data-root": "/srv/data/docker", **graph_driver}


@pytest.mark.parametrize("engine", ["docker", "podman", "containerd", "lxc", "lxd", "incus"])
def test_a_deployed_engine_keeps_its_network(engine: str) -> None:
    """A visit starts engines in a network namespace, and Docker without its bridge; a recipe must not."""
    (stack,) = parse_stacks(f"disk | ext4 | {engine}", catalogue())
    recipe = plan.recipe(stack, drivers(), plan.mapped(["disk=/dev/disk/by-id/wwn-0"], {"disk": 100 << 30}))
    for form in formats().values():
        try:
            text = "".join(file.text for file in form.write(recipe))
        except BadInput:  # this format is for another engine
            continue
        for word in ("nsenter", "unshare", "--bridge", "iptables", "ip-forward", "netns", "network"):
            assert word not in text, (form.name, word)


def test_every_format_says_what_it_writes() -> None:
    for name, form in formats().items():
        assert form.name == name
        assert form.about
        assert not form.about.endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("curtin", "disk | ext4(prjquota)", "needs words for mkfs"),
        ("curtin", "disk | btrfs(quotas)", "cannot say quotas"),
        ("disko", "disk | btrfs(quotas)", "turn on quotas"),
    ],
)
def test_what_a_format_cannot_say_of_a_file_system_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        of(text, name)


def test_what_mkfs_has_to_know_is_said_where_it_can_be() -> None:
    assert '"quota,project"' in of("disk | ext4(prjquota)", "disko")
    assert "options: pquota" in of("disk | xfs(pquota)", "curtin")


# Source: curtin/block/schemas.py, the properties and what is required; it takes no others.
CURTIN = {
    "disk": ({"id", "type", "path"}, {"wipe", "ptable", "name", "serial", "wwn", "preserve", "grub_device"}),
    "raid": ({"id", "type", "name", "raidlevel", "devices"}, {"spare_devices", "mdname", "ptable"}),
    "lvm_volgroup": ({"id", "type", "name", "devices"}, {"uuid"}),
    "lvm_partition": ({"id", "type", "name", "volgroup"}, {"size"}),
    "bcache": ({"id", "type"}, {"name", "backing_device", "cache_device", "cache_mode"}),
    "format": ({"id", "type", "volume", "fstype"}, {"name", "preserve", "uuid", "label"}),
    "mount": ({"id", "type"}, {"path", "device", "fstype", "options", "spec"}),
}


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("disk | ext4(noatime)", ["disk"]),
        ("3*disk | md(raid1, spares=1) | lvm | xfs", ["disk", "disk", "disk"]),
        ("hdd + ssd | bcache(writeback) | btrfs(compress=zstd)", ["hdd", "ssd"]),
    ],
)
def test_curtin_knows_every_word(text: str, roles: list[str]) -> None:
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    (file,) = formats()["curtin"].write(plan.recipe(stack, drivers(), given, accept_loss=True))
    items = YAML(typ="safe").load(file.text)["storage"]["config"]
    known = set()
    for item in items:
        required, more = CURTIN[item["type"]]
        assert required <= item.keys() <= required | more, item
        refers = [item.get(name) for name in ("device", "volume", "volgroup", "backing_device", "cache_device")]
        refers += [*item.get("devices", []), *item.get("vdevs", []), *item.get("spare_devices", [])]
        assert {each for each in refers if each} <= known, "an item comes after what it refers to"
        known.add(item["id"])


def test_a_playbook_holds_the_script_and_applies_it_only_where_it_is_not_in_place() -> None:
    (stack,) = parse_stacks("disk | ext4", catalogue())
    recipe = plan.recipe(stack, drivers(), plan.mapped(["disk=/dev/disk/by-id/a"], {}))
    (file,) = formats()["ansible"].write(recipe)
    (play,) = YAML(typ="safe").load(file.text)
    copy = next(task for task in play["tasks"] if "ansible.builtin.copy" in task)["ansible.builtin.copy"]
    assert shell.render(recipe) in copy["content"]
    (apply,) = [task for task in play["tasks"] if "apply" in str(task.get("ansible.builtin.command"))]
    assert apply["when"] == "strata_check.rc != 0"
    # and systemd brings it back at boot
    placed = [task["ansible.builtin.copy"]["dest"] for task in play["tasks"] if "ansible.builtin.copy" in task]
    assert "/etc/systemd/system/srv-data.mount" in placed
    enabled = [task["ansible.builtin.systemd_service"] for task in play["tasks"][-1:]]
    assert enabled == [{"name": "srv-data.mount", "enabled": True, "daemon_reload": True}]
    assert play["vars"] == {"strata_wipe": False}


@pytest.mark.parametrize("name", [name for name in formats() if name not in ("shell", "ansible")])
def test_every_format_says_how_one_sees_it_and_the_way_back(name: str) -> None:
    texts = [written(name, case) for case in CASES]
    said = [text for text in texts if not text.startswith("refused")]
    assert said and all("Is it in place? " in text and "The way back: " in text for text in said)


def test_disko_refuses_a_file_system_on_several_devices() -> None:
    (stack,) = parse_stacks("2*disk | btrfs(raid1)", catalogue())
    given = plan.mapped([f"disk=/dev/disk/by-id/wwn-{number}" for number in range(2)], {})
    with pytest.raises(BadInput, match=r"--as disko: btrfs\(raid1\) is on several devices; take --as shell"):
        formats()["disko"].write(plan.recipe(stack, drivers(), given))
