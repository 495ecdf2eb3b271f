"""Calls, places and machines for the tests of layer drivers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from strata.layers import drivers
from strata.model import (
    Ability,
    Beside,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerDriver,
    Metered,
    Place,
    Provides,
    Snapshots,
    Step,
    Value,
)

HERE = Path(__file__).parent
PLACE = Place("strata-a1b2c3-7-2", "/run/visit/2", "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
BESIDE = Beside("/run/beside/guest1", 40001, 10809)
LAYERS = sorted(drivers())

MODULES = frozenset(
    {
        *("raid0", "raid1", "raid10", "raid456", "linear", "bcache", "null_blk", "scsi_debug"),
        *("dm_mod", "dm_delay", "dm_flakey", "dm_zero", "dm_snapshot", "dm_raid", "dm_thin_pool"),
        *("dm_cache", "dm_cache_smq", "dm_cache_mq", "dm_vdo", "zfs", "nbd"),
    }
)
"""Every kernel module that a layer needs."""

ASKS_NOTHING = frozenset({"null", "warm", "snapshot", "duperemove", "balance", "degraded", "rebuilding"})
"""Layers that build nothing of their own: what a condition did is inspected by the layer that did it."""

CONDITIONS = frozenset({"fill", "age", "precondition", "kernel", "debian"}) | ASKS_NOTHING


def spec(layer: str, values: Mapping[str, Value | None] | None = None) -> Call:
    given = dict(values or {})
    params = drivers()[layer].info.params
    unknown = set(given) - {param.name for param in params}
    assert not unknown, f"{layer} has no {unknown}"
    return Call(layer, layer, {param.name: given.get(param.name, param.default) for param in params})


def ability(name: str) -> Ability:
    """One step for each time, as a layer that offers `name` might plan."""
    return lambda count: [Step(Command((name, f"{n + 1}")), None, f"{name} {n + 1}") for n in range(count)]


SNAPSHOTS = Snapshots(ability("hold"), Command(("drop",)), Command(("look",)))
ABILITIES = {name: ability(name) for name in ("snapshot", "degrade", "rebuild", "balance", "dedupe")}


def below(
    layer: str,
    count: int = 1,
    *,
    claimed: bool = False,
    size_bytes: int | None = 1 << 30,
    image: str | None = None,
    thin_pool: bool = False,
) -> list[Provides]:
    """What `layer` could stand on; `image`: on an image of this format; `thin_pool`: on a volume of lvmthin."""
    accepts = drivers()[layer].info.accepts
    if thin_pool:
        return [
            Provides(
                Kind.BLOCK,
                "/dev/strata-a1b2c3-7-1/volume",
                size_bytes,
                name="strata-a1b2c3-7-1/volume",
                thin_pool="strata--a1b2c3--7--1-pool-tpool",
            )
        ]
    if image is not None:
        return [Provides(Kind.IMAGE, f"/run/visit/1/mnt/strata-a1b2c3-7-1.{image}", size_bytes, name=image)]
    if not accepts:
        return []
    if Kind.GRANT in accepts:
        path = "/dev/disk/by-id/wwn-0x5000" if claimed else "/run/visit/0.img"
        return [Provides(Kind.GRANT, path, size_bytes, ours=not claimed)]
    # These take only a thin pool, and tenants share only what can be shared.
    if Kind.BLOCK in accepts and layer not in ("containerd", "docker", "incus", "lxd", "tenants"):
        return [
            Provides(
                Kind.BLOCK, f"/run/visit/{n}/device", size_bytes, ours=not claimed, can=ABILITIES, snapshots=SNAPSHOTS
            )
            for n in range(count)
        ]
    mount = "/run/visit/1/mnt"
    return [Provides(Kind.DIRECTORY, mount, size_bytes, mount=mount, name="tank", can=ABILITIES, snapshots=SNAPSHOTS)]


def facts(**changes: Any) -> Facts:
    """A machine on which every layer can be built, with `changes`."""
    tools = {tool: "99.0" for driver in drivers().values() for tool in driver.info.tools}
    able = Facts(
        hostname="host",
        kernel=(6, 12, 0),
        kernel_text="6.12.0-1-amd64",
        os="Debian GNU/Linux 13",
        cpu_model="cpu",
        cpus=2,
        memory_bytes=4 << 30,
        root=True,
        filesystems=frozenset({"ext4", "xfs", "btrfs", "f2fs", "fuse", "overlay"}),
        tools=tools,
        schedulers=frozenset({"none", "mq-deadline", "kyber", "bfq"}),
        free_bytes=1 << 40,
        modules=MODULES,
        io_control="2",
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


def captured(layer: str, case: str, *, folder: str = "captured", answers: str = "seen") -> Captured:
    """`folder`: "broken" holds machines that are not as requested; `answers`: "figures" for those to `plan_figures`."""
    data = json.loads((HERE / folder / layer / f"{case}.json").read_text())
    return Captured(
        drivers()[layer],
        spec(layer, data["values"]),
        tuple(Provides(**{**each, "kind": Kind(each["kind"])}) for each in data["below"]),
        Place(**data["place"]),
        tuple(Completed(**{**each, "argv": tuple(each["argv"]), "duration_s": 0.0}) for each in data[answers]),
    )


def captured_figures(layer: str, case: str) -> Mapping[str, float]:
    """What a layer reported of itself on a real machine."""
    driver, answers = drivers()[layer], captured(layer, case, answers="figures")
    asked = cast(Metered, driver)
    planned = asked.plan_figures(answers.spec, answers.below, answers.place)
    assert [command.argv for command in planned] == [seen.argv for seen in answers.seen]
    figures = asked.figures(answers.spec, answers.below, answers.place, answers.seen)
    assert set(figures) <= {metric.name for metric in driver.info.metrics}
    return figures


CAPTURED = sorted((path.parent.name, path.stem) for path in (HERE / "captured").glob("*/*.json"))
