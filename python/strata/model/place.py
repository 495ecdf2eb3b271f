"""Where a layer of a visit may put things, and the guests that it may start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class GuestImage:
    """What guests start from, on the machine that starts them: a kernel and a system in read-only memory."""

    directory: str  # absolute; holds its files, of which `key` and `known_hosts` are for ssh into the guest
    accel: Literal["kvm", "tcg"] = "tcg"
    boot: tuple[str, ...] = ()  # arguments of QEMU, beside those of a machine with NVDIMMs
    ssh: tuple[str, ...] = ("ssh",)  # the client's command but for `-p PORT -- root@127.0.0.1`


BOOT_TIME = "/run/strata-boot-s"
"""In a guest: how long it took from its start to its first command, in seconds; where it was measured."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A virtual machine that a layer starts. Ending it is the undo of all that was done inside."""

    name: str
    # on the machine that started it; holds `port` (of 127.0.0.1, leads to its ssh), `pid`, `console` and `boot_s`
    dir: str
    image: GuestImage
    memory_bytes: int = 0
    beside: bool = False  # started on the controller's machine, beside the lab machine that its disk is in
    port: int | None = None  # of 127.0.0.1 on the controller's machine, leads to its ssh; None: that in `dir` does


@dataclass(frozen=True, slots=True)
class Beside:
    """How a guest of a lab machine and what is on the controller's machine reach each other: one beside the lab machine
    its disk, the controller one within. And where the former may put things on the controller's machine."""

    dir: str  # absolute, on the controller's machine; removed with the lab machine
    port: int  # of 127.0.0.1 there
    lab_port: int  # of the lab machine, where `port` leads


@dataclass(frozen=True, slots=True)
class Place:
    """Where one layer of one visit may put things. Both are unique on the machine while the visit lives."""

    name: str  # [a-z0-9-]{1,24}: for arrays, volume groups, pools, guests
    dir: str  # absolute; exists, empty, removed with the visit
    uuid: str  # deterministic; a file system or table made with it can be told from anybody else's
    guest_image: GuestImage | None = None  # for layers that start a guest; None: this machine has none
    scratch: str = ""  # where job files and logs of trials will lie, never on the stack
    beside: Beside | None = None  # for layers that start a guest; None: it is started where its disk is
    mount: str | None = None  # where its file system is mounted, for one that is to stay; None: inside `dir`
    stays: bool = False  # of a recipe: it is built to be used, without what isolates a measurement
