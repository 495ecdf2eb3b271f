"""What an engine's client says is over is over: removal, stopping, and room that is counted after all was written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .layer_bench import ENVIRONMENT, Bench, do, undo

ROOT = r"""
mkdir -p "$1/bin" "$1/dev" "$1/etc" "$1/proc" "$1/sys" && cp "$(command -v busybox)" "$1/bin/busybox" || exit 1
for name in sh cat dd sleep; do ln -s busybox "$1/bin/$name"; done
printf '%s\n' '#!/bin/sh' 'trap exit TERM' 'sleep 2147483 & wait' >"$1/stay" && chmod +x "$1/stay"
head -c 8M /dev/urandom >"$1/content" && tar --create --file "$1.tar" --directory "$1" .
"""


class Engine:
    def __init__(self, bench: Bench, images: Path) -> None:
        self.client, self.bench = bench.layers[-1].provides.path, bench
        subprocess.run(("sh", "-c", ROOT, "sh", str(images / "root")), check=True)
        self.ask("load", str(images / "root.tar"), "base")

    def ask(self, *words: str) -> str:
        done = subprocess.run((self.client, *words), capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    def run(self, name: str) -> None:
        self.ask("create", "base", name, "--", "/stay")
        self.ask("start", name)


def built(bench: Bench, images: Path, engine: str, filesystem: str, **values: str) -> Iterator[Engine]:
    programs = {"containerd": "ctr", "incus": "incus", "podman": "podman"}
    if shutil.which(programs[engine]) is None:
        pytest.skip(f"{engine} is not installed; scripts/os-packages.sh test installs it")
    stack = bench.disk("2048M")
    for name in (filesystem, engine):
        stack = bench.put(name, stack, **(values if name == engine else {}))
    done = []
    try:
        for step in bench.steps:
            done.append(step)
            do([step])
        yield Engine(bench, images)
    finally:
        undo(done)
    # The files of the places go with the visit.
    assert str(bench.root) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture
def containerd(bench: Bench, images: Path) -> Iterator[Engine]:
    yield from built(bench, images, "containerd", "ext4")


@pytest.fixture
def podman(bench: Bench, images: Path) -> Iterator[Engine]:
    yield from built(bench, images, "podman", "ext4")


@pytest.fixture
def incus(bench: Bench, images: Path) -> Iterator[Engine]:
    yield from built(bench, images, "incus", "btrfs", backend="btrfs")


def test_nothing_is_left_of_what_containerd_removed(containerd: Engine) -> None:
    root = Path(containerd.bench.layers[1].provides.path) / "containerd/containerd"
    snapshots = root / "io.containerd.snapshotter.v1.overlayfs/snapshots"
    before = sorted(path.name for path in snapshots.iterdir())
    assert len(before) == 1  # the image
    for name in ("one", "two"):
        containerd.run(name)
    assert len(list(snapshots.iterdir())) == 3
    containerd.ask("stop", "one")
    assert containerd.ask("count") == "1"
    containerd.ask("remove", "one")
    containerd.ask("remove", "two")
    assert sorted(path.name for path in snapshots.iterdir()) == before


def test_nothing_is_left_of_subvolumes_once_settled(incus: Engine) -> None:
    point = incus.bench.layers[1].provides.path
    names = [f"c{number}" for number in range(3)]
    for name in names:
        incus.run(name)
        incus.ask("exec", name, "/bin/dd", "if=/dev/zero", "of=/more", "bs=1M", "count=16")
    for name in names:
        incus.ask("remove", name)
    incus.ask("settle")
    deleted = subprocess.run(("btrfs", "subvolume", "list", "-d", point), capture_output=True, text=True, check=True)
    assert deleted.stdout == ""


def test_a_step_of_a_build_runs_in_a_container_without_a_network(podman: Engine, images: Path) -> None:
    (images / "context").mkdir()
    (images / "context/Dockerfile").write_text("FROM base\nRUN cat /proc/1/comm /proc/net/dev >/report\n")
    podman.ask("build", str(images / "context"), "built")
    podman.ask("create", "built", "one", "--", "/stay")
    podman.ask("start", "one")
    first, _, _, *links = podman.ask("exec", "one", "/bin/cat", "/report").splitlines()
    assert first == "cat" and [link.split(":")[0].strip() for link in links] == ["lo"]
