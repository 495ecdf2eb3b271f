"""Where it was measured: the testbed, its disks, and what happened to its machines."""

from __future__ import annotations

from itertools import groupby

from strata.model import Disk, Testbed, View
from strata.report.model import Fact, Lost
from strata.report.numbers import MISSING
from strata.units import count, human_size


def testbed(view: View) -> str:
    """In one line: "lab: Debian 13, kernel 6.12.48+deb13-amd64, QEMU 10.0.13, virtual clock, 1 CPU, 8.0 GiB"."""
    where, facts = view.testbed, view.facts
    if where.kind == "local":
        return "local"
    if where.kind == "ssh":
        return f"ssh: {where.host}"
    kernel = facts.kernel_text if facts is not None else where.kernel
    qemu = view.versions.get("qemu")
    parts = [
        f"Debian {where.debian}",
        *([f"kernel {kernel}"] if kernel else []),
        *([f"QEMU {qemu.removeprefix('QEMU emulator version ').split(' ')[0]}"] if qemu else []),
        f"{where.clock} clock",
        count(where.cpus, "CPU"),
        human_size(where.memory_bytes),
        *(f"with {feature}" for feature in sorted(where.features)),
    ]
    return f"lab: {', '.join(parts)}"


def disk(each: Disk, where: Testbed) -> str:
    """What a disk is, without its role."""
    if each.device is not None:
        carrier = each.device
    elif where.kind != "lab":
        carrier = "a sparse file on a loop device"
    else:
        carrier = "held in the memory of the lab machine" if where.clock == "virtual" else "a file of the lab"
    parts = [human_size(each.size_bytes), carrier]
    if each.model is not None:
        parts.append(f"model {each.model}")
    if each.write_cache is not None:
        parts.append(f"write cache: {each.write_cache}")
    return ", ".join(parts)


def facts(view: View) -> tuple[Fact, ...]:
    """The machine and its disks; disks that are alike stand together."""
    named = [(each.role, disk(each, view.testbed)) for each in view.disks]
    disks = [
        Fact(f"Disk '{role}'" if alike == 1 else f"{alike} disks '{role}'", text)
        for (role, text), group in groupby(named)
        for alike in [len(list(group))]
    ]
    where = () if view.testbed.kind == "local" else (Fact("Testbed", testbed(view)),)
    seen = view.facts
    if seen is None:
        return (*where, Fact("Machine", "Nothing is stored about it."), *disks)
    return (
        *where,
        Fact("Host", seen.hostname),
        Fact("System", seen.os),
        Fact("Kernel", seen.kernel_text),
        Fact("Processor", f"{seen.cpu_model}, {count(seen.cpus, 'CPU')}"),
        Fact("Memory", human_size(seen.memory_bytes)),
        Fact("I/O schedulers offered", ", ".join(sorted(seen.schedulers)) or MISSING),
        *disks,
    )


def lost(view: View) -> tuple[Lost, ...]:
    """Attempts that ended with their machine, and what became of their visits."""
    given_up = {failed.visit for failed in view.failed}
    measured = {trial.visit for trial in view.trials} - given_up
    return tuple(
        Lost(
            loss.visit,
            loss.stack,
            f"visit {loss.visit} of round {loss.round + 1}, "
            + (
                "made again" if loss.visit in measured else "given up" if loss.visit in given_up else "to be made again"
            ),
            loss.reason,
            loss.console,
        )
        for loss in view.losses
    )
