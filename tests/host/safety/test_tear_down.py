"""A claimed device comes back as it was given: blank. And what its owner puts on it meanwhile is the owner's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import superblocks
from .machine import MIB, Device, Machine, output, signatures, strata, untouched

# `strata run`, killed as a power cut would as soon as a program whose name starts with sys.argv[1] has ended.
KILLED_AFTER = """\
import os, signal, sys
from strata.hosts.local import LocalHost

original, deadly = LocalHost.run, sys.argv.pop(1)

def run(self, command, *, check=True):
    done = original(self, command, check=check)
    if command.argv[0].startswith(deadly):
        os.kill(os.getpid(), signal.SIGKILL)
    return done

LocalHost.run = run
from strata.cli import main
main()
"""


def killed_after(program: str, *argv: str, cwd: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", KILLED_AFTER, program, *argv),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == -9, done


def killed_with(stack: str, device: Device, cwd: Path) -> None:
    """A run in the directory "run" that died after it had made the file system of `stack` on the device."""
    killed_after(
        *("mkfs", "run", stack, "-w", "null", "--device", f"disk={device.name}", "--yes", "--out", "run"), cwd=cwd
    )


def pending(directory: Path) -> int:
    from strata.store.writer import Store

    store = Store.resume(directory)
    try:
        return len(store.to_undo(None))
    finally:
        store.close()


def test_after_a_run_the_device_is_blank_and_can_be_claimed_again(machine: Machine, tmp_path: Path) -> None:
    device, neighbour = machine.device(384), machine.device(16)
    output("mkfs.ext4", "-q", neighbour.node)
    stacks = "disk | {ext4, xfs, btrfs, partition | ext4, partition(table=dos) | f2fs}"
    argv = ("run", stacks, "-w", "null", "--rounds", "1", "--device", f"disk={device.name}", "--yes")
    with untouched(neighbour):
        done = strata(*argv, "--json", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done
    verdict = json.loads(done.stdout)
    visited = {row["stack"] for row in verdict["ranking"]}
    assert visited, verdict  # what this kernel lacks is skipped
    assert verdict["failed"] == []
    assert len(visited) + len(verdict["skipped"]) == 5
    assert signatures(device.node) == []
    assert not list(Path(f"/sys/block/{Path(device.node).name}").glob("loop*p*"))
    (disk,) = machine.claim(device.name)
    assert disk.device == device.node


def test_a_wiped_device_comes_back_blank_too(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    machine.partitions(device, "8M", "8M")
    superblocks.lvm2(f"{device.node}p2", 8 * MIB)
    given = ("--device", f"disk={device.name}", "--wipe", device.name, "--yes")
    done = strata("run", "disk | ext4", "-w", "null", "--rounds", "1", *given, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done
    assert signatures(device.node) == []
    # What a killed run wrote is removed by nobody: only its end blanks a device.
    machine.claim(device.name)


def test_what_a_killed_run_made_is_removed(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    killed_with("disk | ext4", device, tmp_path)
    assert signatures(device.node) == ["ext4"]
    assert pending(tmp_path / "run")
    done = strata("clean", "run", cwd=tmp_path)
    assert done.returncode == 0, done
    assert signatures(device.node) == []
    # What a killed run wrote is removed by nobody: only its end blanks a device.
    machine.claim(device.name, wipe=[device.name])


def _table(device: Device, kind: str) -> None:
    script = f"label: {kind}\nsize=8M\n"
    output("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "--wipe", "never", device.node, stdin=script)


def _swap_beside_a_table(device: Device) -> None:
    subprocess.run(("partx", "--delete", device.node), capture_output=True, check=False)
    output("mkswap", "--quiet", device.node)


# The stack that was killed, what its owner then does, and whether that leaves some of ours in its place.
OWNERS = {
    "ext4": ("disk | xfs", lambda device: output("mkfs.ext4", "-q", "-F", device.node), False),
    "the same kind": ("disk | btrfs", lambda device: output("mkfs.btrfs", "-q", "-f", device.node), False),
    "swap": ("disk | ext4", lambda device: output("mkswap", "--quiet", "--force", device.node), False),
    "a dos table": ("disk | ext4", lambda device: _table(device, "dos"), True),
    "a gpt table": ("disk | btrfs", lambda device: _table(device, "gpt"), True),
    "luks": ("disk | ext4", lambda device: superblocks.luks(device.node, 0), True),
    "swap beside a gpt table": ("disk | partition | ext4", _swap_beside_a_table, True),
}


@pytest.mark.parametrize("case", OWNERS)
def test_what_its_owner_put_on_it_after_a_kill_stays(machine: Machine, tmp_path: Path, case: str) -> None:
    stack, put, ours_stays = OWNERS[case]
    device = machine.device(320)
    killed_with(stack, device, tmp_path)
    ours = set(signatures(device.node))
    assert ours
    put(device)
    owners = [kind for kind in signatures(device.node) if not ours_stays or kind not in ours]
    assert owners
    assert (len(owners) < len(signatures(device.node))) == ours_stays
    digest = device.digest()
    assert pending(tmp_path / "run")
    done = strata("clean", "run", cwd=tmp_path)
    assert done.returncode == 0, done
    assert pending(tmp_path / "run") == 0
    # Ours is gone, where the owner left any of it; the owner's is there, to the last byte where it is all there is.
    assert signatures(device.node) == owners
    if not ours_stays:
        assert device.digest() == digest


def test_nor_is_it_touched_while_it_is_mounted(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    killed_with("disk | ext4", device, tmp_path)
    output("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device.node)
    point = machine.mount(device.node)
    (point / "precious").write_text("precious")
    output("sync", "--file-system", str(point))
    with untouched(device):
        done = strata("clean", "run", cwd=tmp_path)
    assert done.returncode == 0, done
    assert (point / "precious").read_text() == "precious"


def test_a_run_that_goes_on_asks_again(machine: Machine, tmp_path: Path) -> None:
    """The owner took the device back after the kill: the same command must not overwrite it."""
    device = machine.device(64)
    killed_with("disk | ext4", device, tmp_path)
    output("mkfs.ext4", "-q", "-F", device.node)
    given = ("--device", f"disk={device.name}", "--yes")
    with untouched(device):
        done = strata("run", "disk | ext4", "-w", "null", *given, "--out", "run", cwd=tmp_path)
    assert done.returncode == 3, done
    assert "carries a signature of ext4" in done.stderr


def test_a_device_taken_between_two_visits_is_not_overwritten(machine: Machine, tmp_path: Path) -> None:
    device = machine.device(64)
    # its owner takes it as soon as the first visit has removed its directory, the last that it does
    taken = f"os.system('mkfs.ext4 -q {device.node}')"
    script = KILLED_AFTER.replace("os.kill(os.getpid(), signal.SIGKILL)", taken)
    script = script.replace("command.argv[0].startswith(deadly)", "'exec rm' in ' '.join(command.argv)")
    assert taken in script
    assert "'exec rm'" in script
    argv = ("run", "disk | ext4", "-w", "null", "--rounds", "2", "--device", f"disk={device.name}", "--yes")
    done = subprocess.run(
        (sys.executable, "-c", script, "", *argv, "--out", "run"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 3, done
    assert "carries a signature of ext4" in done.stderr
    assert signatures(device.node) == ["ext4"]
    status = json.loads(strata("status", "run", "--json", cwd=tmp_path).stdout)
    assert status["visits_done"] == 1, status
