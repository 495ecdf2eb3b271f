"""Disks, testbeds, and the facts of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# What a disk does with a write that it has acknowledged: lost without power unless flushed, safe in a cache, or none.
WriteCache = Literal["volatile", "protected", "none"]


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that the operator gave, or a file that we make."""

    role: str
    size_bytes: int
    device: str | None = None  # stable by-id path of a claimed device; None: a sparse file of ours
    model: str | None = None  # the model that sets its speed; None: as fast as what carries it
    write_cache: WriteCache | None = None  # None: what the device or the model says
    # Of a claimed device that this run holds: which one it is, whatever its stable id leads to later.
    identity: str | None = field(default=None, compare=False)
    keep_blocks: bool = field(default=False, compare=False)  # Of such a device: it is not discarded before visits.


@dataclass(frozen=True, slots=True)
class Testbed:
    """Where a campaign builds and measures. All but `kind` and `host` are of the lab, and mean nothing elsewhere."""

    kind: Literal["local", "lab", "ssh"] = "local"
    host: str | None = None  # ssh: the machine, as the ssh client knows it
    debian: int = 13  # the release that the lab machine is made of
    clock: Literal["real", "virtual"] = "real"  # virtual: instructions are counted, and every figure is exact
    memory_bytes: int = 2 << 30  # of the lab machine, the modelled disks of the virtual clock included
    cpus: int = 2
    mips: int = 1000  # millions of instructions that its processor carries out in a second of the virtual clock
    kernel: str | None = None  # "6.1", "6.12" ...; None: the release's own
    features: frozenset[str] = frozenset()  # package groups beyond the base: "zfs", "containers", "postgres", "qemu"

    @property
    def repeats(self) -> Literal["rounds", "seeds"]:
        """What further visits of a stack are called, and the option that asks for them."""
        return "seeds" if self.clock == "virtual" else "rounds"


@dataclass(frozen=True, slots=True)
class Facts:
    """Read once per run. Pure functions decide from it what can run."""

    hostname: str
    kernel: tuple[int, int, int]
    kernel_text: str
    os: str
    cpu_model: str
    cpus: int
    memory_bytes: int
    root: bool
    filesystems: frozenset[str]  # what the kernel can mount now or by a module it has
    tools: Mapping[str, str]  # program -> version text, for every program found
    schedulers: frozenset[str]  # offered for the disks given (loop devices when none were)
    free_bytes: int  # where sparse files would lie
    machine_id: str = ""
    # kernel modules that matter to storage, loadable or built in, with `_` for `-`: "dm_thin_pool", "raid10", "zfs"
    modules: frozenset[str] = frozenset()
    caveats: tuple[str, ...] = ()  # sentences that must stand beside every figure measured here
    cgroups: frozenset[str] = frozenset()  # controllers by the version that has them: "1:memory", "2:hugetlb"
    # of "newuidmap", "newgidmap", "subuid" and "subgid": what there is for this user's own containers; and
    # "subuid:NAME", "subgid:NAME" for every user who has ids for theirs
    id_maps: frozenset[str] = frozenset()
    io_control: str = ""  # the version of cgroups by which I/O can be limited: "1", "2"; "": by none
    without: frozenset[str] = frozenset()  # known to be no part of the running kernel: "xfs quotas", "ext4 quotas"
    emulated: bool = False  # its processor is emulated by QEMU
    io_uring_disabled: str = ""  # kernel.io_uring_disabled, where that keeps this user from io_uring: "1", "2"
    ticks_per_s: int | None = None  # CONFIG_HZ of the running kernel; None: not known

    @property
    def described(self) -> str:
        """The machine in a few words, for people."""
        return f"{self.cpu_model}, kernel {self.kernel_text}, {self.os}"

    @property
    def io_uring_lacking(self) -> str:
        """Why there is no io_uring here, and what to do, but for what to take instead; "": there is one.

        Sources: io_uring_setup(2), since Linux 5.1; the kernel's admin-guide/sysctl/kernel, since 6.6.
        """
        if self.kernel < (5, 1):
            return f"The kernel {self.kernel_text} has no io_uring; boot Linux 5.1 or newer"
        if self.io_uring_disabled:
            return (
                f"io_uring is switched off here (kernel.io_uring_disabled is {self.io_uring_disabled}); switch it on "
                "with `sysctl kernel.io_uring_disabled=0`"
            )
        return ""
