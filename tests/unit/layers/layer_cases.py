"""Calls, places and machines for the tests of layer drivers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strata.layers import drivers
from strata.model import Call, Completed, Facts, Kind, LayerDriver, Place, Provides, Value

HERE = Path(__file__).parent
PLACE = Place("strata-a1b2c3-7-2", "/run/visit/2", "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
LAYERS = sorted(drivers())


def spec(layer: str, values: Mapping[str, Value | None] | None = None) -> Call:
    given = dict(values or {})
    params = drivers()[layer].info.params
    unknown = set(given) - {param.name for param in params}
    assert not unknown, f"{layer} has no {unknown}"
    return Call(layer, layer, {param.name: given.get(param.name, param.default) for param in params})


def below(layer: str, count: int = 1, *, claimed: bool = False, size_bytes: int | None = 1 << 30) -> list[Provides]:
    """What `layer` could stand on."""
    accepts = drivers()[layer].info.accepts
    if not accepts:
        return []
    if Kind.GRANT in accepts:
        path = "/dev/disk/by-id/wwn-0x5000" if claimed else "/run/visit/0.img"
        return [Provides(Kind.GRANT, path, size_bytes, ours=not claimed)]
    if Kind.BLOCK in accepts:
        return [Provides(Kind.BLOCK, f"/run/visit/{n}/device", size_bytes, ours=not claimed) for n in range(count)]
    return [Provides(Kind.DIRECTORY, "/run/visit/1/mnt", size_bytes, mount="/run/visit/1/mnt")]


def facts(**changes: Any) -> Facts:
    """A machine on which every layer can be built, with `changes`."""
    tools = {tool: "1.0" for driver in drivers().values() for tool in driver.info.tools}
    able = Facts(
        hostname="host",
        kernel=(6, 12, 0),
        kernel_text="6.12.0-1-amd64",
        os="Debian GNU/Linux 13",
        cpu_model="cpu",
        cpus=2,
        memory_bytes=1 << 30,
        root=True,
        filesystems=frozenset({"ext4", "xfs", "btrfs", "f2fs"}),
        tools=tools,
        schedulers=frozenset({"none", "mq-deadline", "kyber", "bfq"}),
        free_bytes=1 << 40,
    )
    return dataclasses.replace(able, **changes)


@dataclasses.dataclass(frozen=True, slots=True)
class Captured:
    """What a real machine answered to the inspection of a layer."""

    driver: LayerDriver
    spec: Call
    below: tuple[Provides, ...]
    place: Place
    seen: tuple[Completed, ...]

    def differences(self, seen: Sequence[Completed] | None = None) -> list[str]:
        return self.driver.differences(self.spec, self.below, self.place, self.seen if seen is None else seen)

    def with_stdout(self, index: int, old: str, new: str) -> list[Completed]:
        """The answers with `old` replaced in one of them."""
        answer = self.seen[index]
        assert old in answer.stdout, answer.stdout
        changed = dataclasses.replace(answer, stdout=answer.stdout.replace(old, new))
        return [*self.seen[:index], changed, *self.seen[index + 1 :]]


def captured(layer: str, case: str) -> Captured:
    data = json.loads((HERE / "captured" / layer / f"{case}.json").read_text())
    return Captured(
        drivers()[layer],
        spec(layer, data["values"]),
        tuple(Provides(**{**each, "kind": Kind(each["kind"])}) for each in data["below"]),
        Place(**data["place"]),
        tuple(Completed(**{**each, "argv": tuple(each["argv"]), "duration_s": 0.0}) for each in data["seen"]),
    )


CAPTURED = sorted((path.parent.name, path.stem) for path in (HERE / "captured").glob("*/*.json"))
