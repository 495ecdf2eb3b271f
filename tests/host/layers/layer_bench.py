"""A plan runner for one layer or a few, on loop files of ours: build, read back, take down, look for left-overs."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strata.hosts.local import engine_path
from strata.layers import drivers
from strata.model import Call, Command, Completed, Kind, Place, Provides, Step, Value

# These tests make a file system with the same UUID again and again; a visit never does. libblkid believes what it
# read less than two seconds ago, and mkfs.btrfs would then take the UUID for one that is in use.
# Steps may call strata-engine by that name: hosts put it in PATH.
ENVIRONMENT = os.environ | {"BLKID_FILE": "/dev/null", "PATH": f"{Path(engine_path()).parent}:{os.environ['PATH']}"}


def execute(command: Command) -> Completed:
    done = subprocess.run(
        command.argv,
        input=command.stdin,
        capture_output=True,
        text=True,
        timeout=command.timeout_s,
        check=False,
        env=ENVIRONMENT,
    )
    return Completed(command.argv, done.returncode, done.stdout, done.stderr, 0.0)


def call(name: str, values: dict[str, Value] | None = None) -> Call:
    info = drivers()[name].info
    given = dict(values or {})
    known = {param.name for param in info.params}
    assert set(given) <= known, f"{name} knows no {set(given) - known}"
    return Call(name, name, {param.name: given.get(param.name, param.default) for param in info.params})


@dataclass
class Built:
    """One layer placed on what is below it."""

    spec: Call
    below: tuple[Provides, ...]
    place: Place

    @property
    def provides(self) -> Provides:
        return drivers()[self.spec.name].provides(self.spec, self.below, self.place)

    @property
    def steps(self) -> list[Step]:
        return drivers()[self.spec.name].plan_create(self.spec, self.below, self.place)

    def differences(self) -> list[str]:
        driver = drivers()[self.spec.name]
        seen = [execute(command) for command in driver.plan_inspect(self.spec, self.below, self.place)]
        return driver.differences(self.spec, self.below, self.place, seen)


def undo(steps: Sequence[Step], *, check: bool = True) -> Completed | None:
    """Newest first and no further than the first that fails, as a tear-down does; returns that failure."""
    for step in reversed(steps):
        done = execute(step.undo) if step.undo is not None else None
        if done is not None and done.exit_code:
            assert not check, (step.why, done)
            return done
    return None


def do(steps: Sequence[Step]) -> None:
    for step in steps:
        done = execute(step.do)
        assert done.exit_code == 0, (step.why, done)


@dataclass
class Bench:
    """A directory of one visit. `stack` places layers; nothing is built before `do`."""

    root: Path
    layers: list[Built] = field(default_factory=list)

    def place(self) -> Place:
        number = len(self.layers)
        directory = self.root / str(number)
        directory.mkdir()
        return Place(f"strata-test-{number}", str(directory), str(uuid.uuid5(uuid.NAMESPACE_OID, str(directory))))

    def put(self, layer: str, /, *below: Built, **values: Value) -> Built:
        return self.put_values(layer, below, values)

    def put_values(self, name: str, below: Sequence[Built], values: dict[str, Value]) -> Built:
        built = Built(call(name, values), tuple(each.provides for each in below), self.place())
        self.layers.append(built)
        return built

    def disk(self, size: str = "512M") -> Built:
        size_bytes = int(size.removesuffix("M")) << 20
        grant = Provides(Kind.GRANT, str(self.root / f"{len(self.layers)}.img"), size_bytes)
        built = Built(call("disk", {"role": "disk"}), (grant,), self.place())
        self.layers.append(built)
        return built

    @property
    def steps(self) -> list[Step]:
        return [step for layer in self.layers for step in layer.steps]

    def differences(self) -> list[str]:
        return [sentence for layer in self.layers for sentence in layer.differences()]

    def left_over(self) -> list[str]:
        """Everything that names this visit: loop devices, mounts, and files but the directories of the places."""
        loops = execute(Command(("losetup", "--list", "--noheadings", "--output", "BACK-FILE"))).stdout
        mounts = Path("/proc/self/mountinfo").read_text()
        lines = [line for text in (loops, mounts) for line in text.splitlines() if str(self.root) in line]
        places = {layer.place.dir for layer in self.layers}
        return lines + [str(path) for path in self.root.rglob("*") if str(path) not in places]
