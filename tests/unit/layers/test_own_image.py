"""A guest from an image of the user's own: how it is started, reached and left as it was."""

from __future__ import annotations

import dataclasses

import pytest

from strata.layers import drivers
from strata.model import Command, GuestImage, Kind, Provides, TrialPlan, Value
from strata.planning import machine_metrics, trial_steps

from .layer_cases import PLACE, facts, spec

DEVICE = Provides(Kind.BLOCK, "/run/visit/1/device", 1 << 30)
WINDOWS: dict[str, Value] = {"image": "/srv/win11.qcow2", "os": "windows", "key": "/root/key"}


def given(**values: Value) -> Provides:
    return drivers()["vm"].provides(spec("vm", {**WINDOWS, **values}), [DEVICE], PLACE)


def test_what_it_gives_is_a_guest_with_a_bare_disk() -> None:
    windows, linux = given(), given(os="linux", bus="virtio-scsi")
    assert (windows.kind, windows.path, windows.guest) == (Kind.GUEST, r"\\.\PhysicalDrive1", None)
    assert linux.path == f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{PLACE.name}"
    assert windows.size_bytes == DEVICE.size_bytes


def test_the_processor_time_of_its_qemu_is_sampled_during_a_trial() -> None:
    """The pid file that QEMU is told to write is the one that the engine is told to read."""
    windows, driver = given(), drivers()["vm"]
    steps = driver.plan_create(spec("vm", WINDOWS), [DEVICE], PLACE)
    assert steps[1].do.argv[4] == PLACE.dir and '-pidfile "$dir/pid"' in steps[1].do.argv[2]
    load = TrialPlan((), Command(("fio",)), {})
    about = ("strata-engine", [], load, trial_steps.target_on(windows), "/scratch")
    planned = trial_steps.trial_steps(*about, inside=windows.inside, pid_file=windows.pid_file)
    words = planned.measure.argv
    assert words[words.index("--process") + 1] == f"{machine_metrics.OWN_QEMU}={PLACE.dir}/pid"
    assert "--process" not in trial_steps.trial_steps(*about, inside=windows.inside).measure.argv


def test_the_image_is_only_read() -> None:
    steps = drivers()["vm"].plan_create(spec("vm", WINDOWS), [DEVICE], PLACE)
    assert steps[0].do.argv[-3:] == ("/srv/win11.qcow2", "/root/key", f"{PLACE.dir}/system.qcow2")
    assert not any("/srv/win11.qcow2" in word for word in steps[1].do.argv)
    line = list(steps[1].do.argv)
    assert "ide-hd,bus=system-bus.0,drive=system,bootindex=0" in line and "e1000e,netdev=net,romfile=" in line
    assert any(word.startswith("virtio-blk-pci,drive=disk,") for word in line)
    assert not any("-kernel" in word for word in line)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"image": "win.qcow2", "key": "/k"}, "image=/PATH"),
        ({"image": "/win.qcow2"}, "key=/PATH"),
        ({"image": "/win.qcow2", "key": "/k", "engine": "libvirt"}, "leave engine= out"),
        ({"key": "/k"}, "add image="),
        ({"os": "windows"}, "add image="),
    ],
)
def test_what_is_missing_is_said(values: dict[str, Value], words: str) -> None:
    (reason,) = drivers()["vm"].reasons_not_to_run(spec("vm", values), facts())
    assert words in reason and reason.endswith(".")


def test_windows_has_memory_and_a_user_is_a_name() -> None:
    (reason,) = drivers()["vm"].reasons_not_to_run(spec("vm", {**WINDOWS, "memory": 512 << 20}), facts())
    assert "too little for Windows" in reason
    enough = {**WINDOWS, "memory": 2 << 30}
    for user, fits in (("me", True), ("DOMAIN\\\\a.b", True), ("a'b; id", False), ("a b", False)):
        reasons = drivers()["vm"].reasons_not_to_run(spec("vm", {**enough, "user": user}), facts())
        assert any("is no name that ssh takes" in said for said in reasons) != fits, user


def test_windows_under_kvm_is_told_of_the_machine_that_it_runs_on() -> None:
    by_kvm = dataclasses.replace(PLACE, guest_image=GuestImage("/image", "kvm"))
    line = drivers()["vm"].plan_create(spec("vm", WINDOWS), [DEVICE], by_kvm)[1].do.argv
    assert line[line.index("-cpu") + 1].startswith("host,hv_relaxed,")
    line = drivers()["vm"].plan_create(spec("vm", {**WINDOWS, "os": "linux"}), [DEVICE], by_kvm)[1].do.argv
    assert line[line.index("-cpu") + 1] == "max"
