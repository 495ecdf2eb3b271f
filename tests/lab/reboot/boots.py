"""Four boots of one machine that holds every case, each on disks of its own; and what is seen of each case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from strata.lab import cache as caches
from strata.lab import emulator, image
from strata.lab.spec import LabSpec
from strata.recipes import shell
from strata.recipes.formats import formats
from strata.recipes.formats._units import tied

from . import system
from .cases import Rebooted
from .machine import Machine, link

# Stands for a daemon that uses the storage: it writes there at every boot.
_DAEMON = """\
[Unit]
Description=writes to /srv/{name}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cat /proc/sys/kernel/random/boot_id >>/srv/{name}/by-daemon'

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one boot shows of one stack."""

    mounted: bool
    data: bool  # what was written before is there, byte by byte
    daemon: bool  # the daemon started, and wrote
    differences: tuple[str, ...] = ()  # from the recipe, as the layers say
    below: tuple[str, ...] = ()  # what lies in the mount point where nothing is mounted
    by_hand: bool | None = None  # the data are there when it is mounted by hand; None: not tried
    told: tuple[str, ...] = ()  # where it is not mounted: what its units said


def machine(spec: LabSpec, directory: Path) -> Machine:
    """One that keeps its disks in `directory`. Raises Refused where there is no such lab."""
    lab = image.find(spec, caches.default())
    accel = emulator.accelerator("real", lab, system.MARKER)
    return Machine(system.built(lab, print), accel, directory)


def observe(machine: Machine, stacks: Iterable[Rebooted]) -> dict[str, dict[str, Observed]]:
    """By the situation, then by the name of the case: fresh, restarted, one spare disk missing, a needed one missing.

    The last two begin from the same disks.
    """
    every = list(stacks)
    disks = {name: size for each in every for name, size in each.disks.items()}
    machine.prepare(disks)
    look = _look(every)
    spare = {_disk(each, each.case.spare) for each in every if each.case.spare is not None}
    needed = {_disk(each, number) for each in every for number in each.case.needed}
    boots = {
        "fresh": machine.boot(list(disks), look | _apply(every), kept=True),
        "restarted": machine.boot(list(disks), look, kept=True),
        "spare disk missing": machine.boot([disk for disk in disks if disk not in spare], look, kept=False),
        "needed disk missing": machine.boot([disk for disk in disks if disk not in needed], look, kept=False),
    }
    return {situation: {each.name: _observed(each, answers) for each in every} for situation, answers in boots.items()}


def record(command: str, stacks: Iterable[Rebooted], observed: Mapping[str, Mapping[str, Observed]]) -> str:
    """The text of the file that keeps what was observed, and the command that made it."""
    kept = {
        "command": command,
        "day": datetime.now(UTC).date().isoformat(),
        "stacks": {each.name: {**asdict(each.case), "stack": each.recipe.stack} for each in stacks},
        "observed": {
            situation: {name: asdict(seen) for name, seen in each.items()} for situation, each in observed.items()
        },
    }
    return json.dumps(kept, indent=1) + "\n"


def _disk(each: Rebooted, number: int) -> str:
    return list(each.disks)[number]


def _look(every: list[Rebooted]) -> dict[str, str]:
    look = (Path(__file__).parent / "look.sh").read_text()
    return {"run": look, "names": "".join(f"{each.name}\n" for each in every)} | {
        f"by-hand/{each.name}": _by_hand(each) for each in every if each.case.by_hand
    }


def _by_hand(each: Rebooted) -> str:
    (left, *_) = (disk for number, disk in enumerate(each.disks) if number != each.case.spare)
    return (
        f"mount -o {each.case.by_hand} {link(left)} /mnt && (cd /mnt && sha256sum --check data.sha256); umount /mnt\n"
    )


def _apply(every: list[Rebooted]) -> dict[str, str]:
    job, fstab, units = {"apply": ""}, "", []
    for each in every:
        recipe, daemon = each.recipe, f"writer-{each.name}"
        job[f"{each.name}.sh"] = shell.render(recipe)
        job[f"files/etc/systemd/system/{daemon}.service"] = _DAEMON.format(name=each.name)
        files = [*formats()["systemd"].write(recipe), *tied(recipe, daemon)]
        if each.case.form == "fstab":
            files = [file for file in files if not file.name.endswith(".mount")]
            fstab += formats()["fstab"].write(recipe)[0].text
        job |= {f"files{file.place}": file.text for file in files}
        units += [daemon, *(file.name for file in files if not file.name.endswith(".conf"))]
    return job | {"fstab": fstab, "units": "".join(f"{unit}\n" for unit in units)}


def _observed(each: Rebooted, answers: Mapping[str, str]) -> Observed:
    own = {name.partition("/")[2]: text for name, text in answers.items() if name.startswith(f"{each.name}/")}
    inspected, by_hand = own["inspect"], own.get("by-hand")
    return Observed(
        mounted=bool(own["mounted"].strip()),
        data=own["data"].strip() == "data: OK",
        daemon=own["daemon"].strip() == "active" and own["written"].strip() == "1",
        differences=tuple(each.recipe.differences(shell.seen(each.recipe, inspected)) if inspected else ["no answers"]),
        below=tuple(own.get("below", "").split()),
        by_hand=None if by_hand is None else by_hand.strip() == "data: OK",
        told=tuple(own.get("journal", "").splitlines()),
    )
