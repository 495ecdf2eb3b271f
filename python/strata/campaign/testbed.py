"""Where a campaign runs: `local`, `lab`, `ssh:HOST`, what may be said of a lab, and the one text that names it all."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from strata.campaign.source import did_you_mean
from strata.model import Testbed
from strata.text import listed
from strata.units import format_size

KINDS = ("local", "lab", "ssh:HOST")
FEATURES = ("containers", "install", "postgres", "qemu", "zfs")  # of a lab, beyond the storage tools that each has
FIRST_SEED = 1  # of the virtual clock, where none is stated: the same everywhere, so that the figures are

# Modelled disks lie in the memory of the machine, which its host gives out as it is written to. Virtual processors
# take turns on the one counter of instructions, so a second one makes nothing faster.
# 1000 million instructions a second is the fastest that QEMU counts, and still a third of what a current processor
# does: the less of a figure is the processor's, the more of it is the stack's. A slower one stands for a slow machine.
MIPS = (1000, 500, 250, 125)
_VIRTUAL = Testbed("lab", clock="virtual", memory_bytes=8 << 30, cpus=1)
_REAL = Testbed("lab")

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]-]*")  # never an option of the ssh client
_KERNEL = re.compile(r"[1-9][0-9]{0,2}\.[0-9]{1,3}")


def lab(clock: Literal["real", "virtual"]) -> Testbed:
    """The lab with nothing else said of it."""
    return _VIRTUAL if clock == "virtual" else _REAL


def parse_kind(text: str) -> Testbed:
    """`local`, `lab` or `ssh:HOST`. Raises ValueError with a sentence."""
    kind, colon, host = text.partition(":")
    if text in ("local", "lab"):
        return _REAL if text == "lab" else Testbed()
    if kind == "ssh" and colon:
        return Testbed("ssh", parse_host(host))
    hint = did_you_mean(kind, ("local", "lab", "ssh")) if kind != "ssh" else ""
    raise ValueError(f"'{text}' is no testbed{hint}; write {listed(KINDS, 'or')}")


def parse_host(text: str) -> str:
    """A host as the ssh client takes it. Raises ValueError."""
    if not _HOST.fullmatch(text):
        raise ValueError(f"'{text}' is no host for ssh; write it as in ssh:root@server or ssh:ALIAS")
    return text


def parse_kernel(text: str) -> str:
    """The first two numbers of a kernel, as Debian counts them: "6.1", "6.12". Raises ValueError."""
    if not _KERNEL.fullmatch(text):
        raise ValueError(f"'{text}' is no version of a kernel; write it as 6.12")
    return text


def parse_mips(text: str) -> int:
    """Raises ValueError."""
    if text not in map(str, MIPS):
        raise ValueError(f"mips cannot be '{text}'; write {', '.join(map(str, MIPS))}: what QEMU can count by")
    return int(text)


def with_clock(testbed: Testbed, clock: Literal["real", "virtual"]) -> Testbed:
    """The same lab by another clock; memory and processors that were left at their defaults take the new ones."""
    was, now = lab(testbed.clock), lab(clock)
    return replace(
        testbed,
        clock=clock,
        memory_bytes=now.memory_bytes if testbed.memory_bytes == was.memory_bytes else testbed.memory_bytes,
        cpus=now.cpus if testbed.cpus == was.cpus else testbed.cpus,
    )


def overridden(
    testbed: Testbed, *, on: str | None, clock: str | None, debian: int | None, kernel: str | None
) -> Testbed:
    """`testbed` with what a command line says of it. Raises ValueError with a sentence."""
    if on is not None:
        wanted = parse_kind(on)
        testbed = testbed if (wanted.kind, wanted.host) == (testbed.kind, testbed.host) else wanted
    said = {"--clock": clock, "--debian": debian, "--kernel": kernel}
    given = [option for option, value in said.items() if value is not None]
    if given and testbed.kind != "lab":
        raise ValueError(f"{listed(given)} can only be said of the lab; add --on lab")
    if clock is not None:
        if clock not in ("real", "virtual"):
            raise ValueError(f"'{clock}' is no clock; write --clock real or --clock virtual")
        testbed = with_clock(testbed, "virtual" if clock == "virtual" else "real")
    if debian is not None:
        testbed = replace(testbed, debian=debian)
    return testbed if kernel is None else replace(testbed, kernel=parse_kernel(kernel))


def described(testbed: Testbed) -> str:
    """All that was said of it in one text, equal for equal testbeds: "lab(clock=virtual, cpus=1, debian=13 ...)"."""
    if testbed.kind == "local":
        return "local"
    if testbed.kind == "ssh":
        return f"ssh:{testbed.host}"
    parts = [
        f"clock={testbed.clock}",
        f"cpus={testbed.cpus}",
        f"debian={testbed.debian}",
        *([f"features={'+'.join(sorted(testbed.features))}"] if testbed.features else []),
        *([f"kernel={testbed.kernel}"] if testbed.kernel else []),
        f"memory={format_size(testbed.memory_bytes)}",
        *([f"mips={testbed.mips}"] if testbed.mips != Testbed().mips else []),
    ]
    return f"lab({', '.join(parts)})"
