"""The undos of the layers on LVM, run with stand-ins for its tools: this machine may have neither LVM nor its modules.

The real tools are met in the lab. Here is shown what no lab run forces: which tool says what, and what follows.
"""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.layers import drivers
from strata.model import Call, Command, Kind, Place, Provides, Step, Value

NAME = "strata-a1b2c3-7-2"
MAPPED = "strata--a1b2c3--7--2"
UUID = "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90"


@dataclass
class Tools:
    """Programs that note how they were called, in `log`, and answer as they are told."""

    root: Path

    def answer(self, tool: str, script: str = "") -> None:
        path = self.root / "bin" / tool
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{tool} $*" >> "{self.root}/log"\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, command: Command | None) -> subprocess.CompletedProcess[str]:
        assert command is not None
        environment = os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        return subprocess.run(command.argv, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def called(self) -> list[str]:
        log = self.root / "log"
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    def arguments(self) -> str:
        return (self.root / "log").read_text()


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    made = Tools(tmp_path)
    for tool in ("vgs", "lvs", "vgremove", "vgreduce", "lvremove", "lvconvert", "dmsetup"):
        made.answer(tool)
    return made


def steps(tmp_path: Path, layer: str, **values: Value) -> list[Step]:
    for name in ("a", "b"):
        link = tmp_path / name
        if not link.is_symlink():
            link.symlink_to(f"/dev/null-{name}")
    below = [Provides(Kind.BLOCK, str(tmp_path / name), 1 << 33) for name in ("a", "b")]
    driver = drivers()[layer]
    given = {param.name: values.get(param.name, param.default) for param in driver.info.params}
    return driver.plan_create(Call(layer, layer, given), below, Place(NAME, str(tmp_path), UUID))


def step(found: list[Step], why: str) -> Step:
    (one,) = [each for each in found if why in each.why]
    return one


def test_a_group_that_was_never_made_is_not_removed(tools: Tools, tmp_path: Path) -> None:
    done = tools.run(step(steps(tmp_path, "lvm"), "volume group").undo)
    assert done.returncode == 0
    assert tools.called() == ["vgs", "dmsetup"]


def test_a_group_of_ours_is_removed_by_its_name_and_on_its_devices_only(tools: Tools, tmp_path: Path) -> None:
    tools.answer("vgs", f"echo '  {NAME}'")
    assert tools.run(step(steps(tmp_path, "lvm"), "volume group").undo).returncode == 0
    assert tools.called() == ["vgs", "vgremove", "dmsetup"]
    removal = tools.arguments().splitlines()[1]
    assert removal.endswith(f" {NAME}") and "--devices /dev/null-a --devices /dev/null-b" in removal


def test_a_group_that_cannot_be_asked_for_is_not_taken_for_gone(tools: Tools, tmp_path: Path) -> None:
    tools.answer("vgs", "exit 5")
    assert tools.run(step(steps(tmp_path, "lvm"), "volume group").undo).returncode != 0


def test_a_group_that_lost_a_device_is_removed_without_it(tools: Tools, tmp_path: Path) -> None:
    tools.answer("vgs", f"echo '  {NAME}'")
    tools.answer("vgremove", f'[ -e "{tmp_path}/reduced" ]')
    tools.answer("vgreduce", f': > "{tmp_path}/reduced"')
    assert tools.run(step(steps(tmp_path, "lvm"), "volume group").undo).returncode == 0
    assert tools.called() == ["vgs", "vgremove", "vgreduce", "vgremove", "dmsetup"]


def test_a_group_that_is_in_use_is_a_failure(tools: Tools, tmp_path: Path) -> None:
    tools.answer("vgs", f"echo '  {NAME}'")
    tools.answer("vgremove", "echo 'contains a filesystem in use' >&2; exit 5")
    done = tools.run(step(steps(tmp_path, "lvm"), "volume group").undo)
    assert done.returncode != 0 and "in use" in done.stderr


def test_volumes_that_only_the_kernel_knows_any_more_are_taken_away(tools: Tools, tmp_path: Path) -> None:
    """And a volume whose group has a name that goes on where ours ends is not."""
    (tmp_path / "left").write_text(f"{MAPPED}-volume\n{MAPPED}--5-volume\nother-{MAPPED}-volume\n")
    tools.answer(
        "dmsetup",
        f'case $1 in info) cat "{tmp_path}/left" ;; remove) grep -vx -e "$3" "{tmp_path}/left" > "{tmp_path}/now"; '
        f'mv "{tmp_path}/now" "{tmp_path}/left" ;; esac',
    )
    assert tools.run(step(steps(tmp_path, "lvm"), "volume group").undo).returncode == 0
    assert (tmp_path / "left").read_text() == f"{MAPPED}--5-volume\nother-{MAPPED}-volume\n"


def test_volumes_that_the_kernel_does_not_let_go_are_named(tools: Tools, tmp_path: Path) -> None:
    tools.answer("dmsetup", f"[ $1 = info ] && echo {MAPPED}-volume")
    done = tools.run(step(steps(tmp_path, "lvm"), "volume group").undo)
    assert done.returncode != 0 and f"{MAPPED}-volume" in done.stderr and "clean up again" in done.stderr


@pytest.mark.parametrize(("said", "tool"), [("", []), ("  volume", ["lvremove"])])
def test_a_volume_is_removed_if_it_is_there(tools: Tools, tmp_path: Path, said: str, tool: list[str]) -> None:
    tools.answer("lvs", f"echo '{said}'" if said else "")
    assert tools.run(step(steps(tmp_path, "lvm"), "make the linear volume").undo).returncode == 0
    assert tools.called() == ["lvs", *tool]


@pytest.mark.parametrize(
    ("said", "tool"),
    [("", []), ("  0", ["lvconvert"]), ("  1", [])],
    ids=["never attached", "attached", "a device is lost"],
)
def test_a_cache_is_taken_away_if_it_is_there_and_whole(
    tools: Tools, tmp_path: Path, said: str, tool: list[str]
) -> None:
    tools.answer("lvs", f"echo '{said}'" if said else "")
    assert tools.run(step(steps(tmp_path, "lvmcache"), "put the cache").undo).returncode == 0
    assert tools.called() == ["lvs", *tool]


def test_a_cache_that_cannot_be_written_out_is_a_failure(tools: Tools, tmp_path: Path) -> None:
    tools.answer("lvs", "echo '  0'")
    tools.answer("lvconvert", "exit 5")
    assert tools.run(step(steps(tmp_path, "lvmcache"), "put the cache").undo).returncode != 0


def test_links_are_resolved_and_no_configuration_of_the_machine_is_read(tools: Tools, tmp_path: Path) -> None:
    """A directory of ours without lvm.conf in it is LVM's system directory."""
    report = f'echo "$LVM_SYSTEM_DIR" >> "{tmp_path}/systems"; echo 4294967296'
    for tool in ("pvcreate", "vgcreate", "vgs", "lvcreate"):
        tools.answer(tool, report)
    for each in steps(tmp_path, "lvm", snapshots=1 << 30):
        assert tools.run(each.do).returncode == 0
    assert set((tmp_path / "systems").read_text().split()) == {str(tmp_path)}
    for line in tools.arguments().splitlines():
        assert "/dev/null-" in line and f"{tmp_path}/a" not in line
    assert f"--size {4294967296 - (1 << 30)}b" in tools.arguments()
