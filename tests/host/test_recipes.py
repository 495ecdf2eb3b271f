"""Shell recipes on loop devices: applied, judged by the layers, applied again, removed; and what they refuse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.recipes import plan, shell
from strata.recipes.plan import Recipe

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

BY_ID = Path("/dev/disk/by-id")
NAME = f"t{os.getpid()}"
STATE = Path("/var/lib/strata") / NAME


def run(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    # without the judge, which the tests call themselves: another strata may be in the PATH of this machine
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=100, env=os.environ | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    )
    assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
    return done


@dataclass
class Bench:
    root: Path
    links: list[Path] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)

    def device(self, size: str = "512M") -> Path:
        """A link below /dev/disk/by-id to a loop device."""
        number = len(self.links)
        file = self.root / f"{number}.img"
        run("truncate", f"--size={size}", str(file))
        self.loops.append(run("losetup", "--find", "--show", "--partscan", str(file)).stdout.strip())
        link = BY_ID / f"{NAME}-{number}"
        link.symlink_to(self.loops[-1])
        self.links.append(link)
        return link

    def recipe(self, stack: str, *roles: str) -> Recipe:
        given = plan.mapped([f"{role}={self.device()}" for role in roles], {})
        (parsed,) = parse_stacks(stack, catalogue())
        return plan.recipe(parsed, drivers(), given, name=NAME, mount=str(self.root / "mnt"))

    def script(self, recipe: Recipe) -> str:
        path = self.root / "recipe.sh"
        path.write_text(shell.render(recipe))
        return str(path)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    BY_ID.mkdir(parents=True, exist_ok=True)
    made = Bench(tmp_path)
    yield made
    script = tmp_path / "recipe.sh"
    if script.exists() and STATE.exists():
        run("sh", str(script), "remove", "--destroy-data", check=False)
    for link in made.links:
        link.unlink()
    for loop in made.loops:
        run("losetup", "--detach", loop)
    assert not STATE.exists()


STACKS = [
    ("disk | ext4(noatime)", ["disk"]),
    ("disk | partition | xfs | dir(images)", ["disk"]),
    ("2*disk | btrfs(raid1, compress=zstd)", ["disk", "disk"]),
]


@pytest.mark.parametrize(("stack", "roles"), STACKS)
def test_it_builds_what_was_measured_and_takes_it_away(bench: Bench, stack: str, roles: list[str]) -> None:
    recipe = bench.recipe(stack, *roles)
    script = bench.script(recipe)
    assert run("sh", script, "check", check=False).returncode == 1
    assert "it is in place" in run("sh", script, "apply").stdout
    assert recipe.differences(shell.seen(recipe, run("sh", script, "inspect").stdout)) == []
    (Path(recipe.top.path) / "kept").write_text("kept")
    run("sh", script, "check")

    assert "nothing had to be built" in run("sh", script, "apply").stdout
    run("umount", recipe.mount)  # as a restart of the machine does
    assert run("sh", script, "check", check=False).returncode == 1
    run("sh", script, "apply")
    assert (Path(recipe.top.path) / "kept").read_text() == "kept"
    assert recipe.differences(shell.seen(recipe, run("sh", script, "inspect").stdout)) == []

    refused = run("sh", script, "remove", check=False)
    assert refused.returncode == 3 and "--destroy-data" in refused.stderr
    assert (Path(recipe.top.path) / "kept").exists()
    run("sh", script, "remove", "--destroy-data")
    assert not STATE.exists() and not Path(recipe.mount).exists()
    for loop in bench.loops:
        assert run("wipefs", "--noheadings", loop).stdout == ""
    run("sh", script, "remove")


def test_a_changed_recipe_leaves_alone_what_another_built_and_says_how_it_is_taken_back(bench: Bench) -> None:
    recipe = bench.recipe("disk | ext4", "disk")
    script = bench.script(recipe)
    run("sh", script, "apply")
    (changed,) = parse_stacks("disk | ext4(noatime)", catalogue())
    other = bench.root / "changed.sh"
    other.write_text(shell.render(plan.recipe(changed, drivers(), recipe.given, name=NAME, mount=recipe.mount)))
    assert run("sh", str(other), "check", check=False).returncode == 1
    for verb in (["apply"], ["apply", "--wipe"], ["remove", "--destroy-data"], ["inspect"]):
        refused = run("sh", str(other), *verb, check=False)
        assert refused.returncode == 3, (verb, refused.stdout, refused.stderr)
        assert "in place is another recipe: disk | ext4 at" in refused.stderr and f"{STATE}/script" in refused.stderr
    run("sh", script, "check")
    # the first script may be gone: the copy that was kept takes back what it built
    run("sh", str(STATE / "script"), "remove", "--destroy-data")
    assert not STATE.exists() and run("wipefs", "--noheadings", bench.loops[0]).stdout == ""
    run("sh", str(other), "apply")
    run("sh", str(other), "remove", "--destroy-data")


def test_another_file_system_in_its_place_is_noticed(bench: Bench) -> None:
    recipe = bench.recipe("disk | ext4", "disk")
    script = bench.script(recipe)
    run("sh", script, "apply")
    run("umount", recipe.mount)
    other = bench.device()
    run("mkfs.ext4", "-q", str(other))
    run("mount", str(other), recipe.mount)
    assert run("sh", script, "check", check=False).returncode == 1
    assert recipe.differences(shell.seen(recipe, run("sh", script, "inspect").stdout)) != []
    # What is mounted there now is somebody else's: it stays.
    assert run("sh", script, "remove", "--destroy-data", check=False).returncode == 1
    assert recipe.mount in Path("/proc/self/mountinfo").read_text()
    run("umount", recipe.mount)


def test_a_device_that_carries_anything_is_not_touched_unless_given_up(bench: Bench) -> None:
    recipe = bench.recipe("disk | xfs", "disk")
    script = bench.script(recipe)
    run("mkfs.ext4", "-q", bench.loops[0])
    refused = run("sh", script, "apply", check=False)
    assert refused.returncode == 3 and "carries ext4" in refused.stderr and "--wipe" in refused.stderr
    assert "ext4" in run("wipefs", bench.loops[0]).stdout
    assert not STATE.exists()
    run("sh", script, "apply", "--wipe")
    assert recipe.differences(shell.seen(recipe, run("sh", script, "inspect").stdout)) == []


def test_a_device_in_use_is_not_touched_whatever_is_given_up(bench: Bench) -> None:
    recipe = bench.recipe("2*disk | btrfs(raid1)", "disk", "disk")
    script = bench.script(recipe)
    place = bench.root / "elsewhere"
    place.mkdir()
    # Of a btrfs on two devices the table of mounts names one; the other shows only when it is asked for alone.
    run("mkfs.btrfs", "-q", "-f", *bench.loops)
    run("mount", bench.loops[0], str(place))
    try:
        refused = run("sh", script, "apply", "--wipe", check=False)
        assert refused.returncode == 3, refused
        assert f"{bench.links[0]} is mounted" in refused.stderr
        assert f"{bench.links[1]} cannot be had alone" in refused.stderr
        assert not STATE.exists()
    finally:
        run("umount", str(place))
    run("wipefs", "--all", *bench.loops)
    run("mkswap", bench.loops[0])
    run("swapon", bench.loops[0])
    try:
        refused = run("sh", script, "apply", "--wipe", check=False)
        assert refused.returncode == 3 and "SWAP" in refused.stderr
    finally:
        run("swapoff", bench.loops[0])


def test_a_partition_in_use_keeps_its_disk_from_being_touched(bench: Bench) -> None:
    recipe = bench.recipe("disk | ext4", "disk")
    script = bench.script(recipe)
    subprocess.run(["sfdisk", "--quiet", bench.loops[0]], input="label: gpt\n,\n", text=True, check=True)
    run("partx", "--update", bench.loops[0])
    place = bench.root / "elsewhere"
    place.mkdir()
    run("mkfs.ext4", "-q", f"{bench.loops[0]}p1")
    refused = run("sh", script, "apply", check=False)
    assert refused.returncode == 3 and "gpt" in refused.stderr and "ext4" in refused.stderr
    run("mount", f"{bench.loops[0]}p1", str(place))
    try:
        refused = run("sh", script, "apply", "--wipe", check=False)
        assert refused.returncode == 3 and "mounted" in refused.stderr
    finally:
        run("umount", str(place))
    run("sh", script, "apply", "--wipe")
    assert recipe.differences(shell.seen(recipe, run("sh", script, "inspect").stdout)) == []


def test_a_mount_point_that_is_there_is_somebodys(bench: Bench) -> None:
    script = bench.script(bench.recipe("disk | ext4", "disk"))
    (bench.root / "mnt").mkdir()
    refused = run("sh", script, "apply", check=False)
    assert refused.returncode == 3 and "--at" in refused.stderr
    assert (bench.root / "mnt").exists()


def test_a_build_that_fails_is_taken_back(bench: Bench) -> None:
    recipe = bench.recipe("disk | ext4", "disk")
    script = bench.script(recipe)
    text = Path(script).read_text()
    assert text.count("do_4() { mount ") == 1
    Path(script).write_text(text.replace("do_4() { mount ", "do_4() { false "))
    failed = run("sh", script, "apply", check=False)
    assert failed.returncode == 1 and "taking back" in failed.stderr
    assert not STATE.exists() and not Path(recipe.mount).exists()
    assert run("wipefs", "--noheadings", bench.loops[0]).stdout == ""


def test_a_build_cut_short_is_removed_without_more_words(bench: Bench) -> None:
    recipe = bench.recipe("disk | ext4", "disk")
    script = bench.script(recipe)
    text = Path(script).read_text()
    Path(script).write_text(text.replace("do_4() { mount ", "do_4() { kill -9 $$; mount "))
    assert run("sh", script, "apply", check=False).returncode == -9
    Path(script).write_text(text)
    refused = run("sh", script, "apply", check=False)
    assert refused.returncode == 3 and "cut short" in refused.stderr
    run("sh", script, "remove")
    assert run("wipefs", "--noheadings", bench.loops[0]).stdout == ""
    run("sh", script, "apply")


def test_words_that_mean_nothing(bench: Bench) -> None:
    script = bench.script(bench.recipe("disk | ext4", "disk"))
    for words in ((), ("apply", "--force"), ("remove", "--wipe"), ("destroy",)):
        assert run("sh", script, *words, check=False).returncode == 2
