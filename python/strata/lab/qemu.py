"""QEMU for a lab machine: which one will do, its command line, what a saved state depends on. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Literal

from strata.hosts.mailbox import PORTS, REGION_BYTES
from strata.lab.image import Image
from strata.lab.models import DiskModel, Limits
from strata.model import Command, WriteCache
from strata.processors import ACCELERATOR, CPU, Accel
from strata.units import human_size

Clock = Literal["real", "virtual"]

PROGRAM = "qemu-system-x86_64"
SSH_USER = "root"

# Of ten boots under emulation two survived with QEMU 7.2, and 23 of 23 with 10.0.
_OLDEST_EMULATED = (10, 0)
# From here on a state goes to a file by itself; before, through a program.
_FILE_URI = (9, 0)

# virtio-blk hands 20 bytes of serial number to its guest.
_SERIAL_BYTES = 20

# A panic ends QEMU (-no-reboot), an oops is a panic, and so is the interrupt that a machine gets which does not answer;
# a guest that its host keeps waiting is no lockup.
KERNEL = (
    "console=ttyS0 quiet panic=-1 oops=panic unknown_nmi_panic=1 nowatchdog workqueue.watchdog_thresh=0 "
    "net.ifnames=0 mitigations=off"
)
# On the virtual clock nothing may differ from boot to boot but what the seed decides.
_KERNEL_VIRTUAL = "nokaslr random.trust_cpu=off"

# The generators behind RDRAND and RDSEED start again with QEMU, so a machine that is saved and resumed would draw other
# numbers than one that went on.
_NOT_VIRTUAL = ",-rdrand,-rdseed"

# An idle machine's clock is moved on by QEMU's main thread, which reads it without asking whether the processor's
# thread is just stopping: instructions since its last reading are then counted twice. While QEMU records, each thread
# waits for the other (replay/replay-internal.c: a mutex that is none without it). What it records is of no use here.
# It refuses more than one processor, and to save its state; a machine that boots hardly idles. See decision 39.
_APART = ",rr=record,rrfile=/dev/null"

# Room for the NVDIMMs beside the memory, and their slots; both are fixed, since they are part of the saved machine.
_NVDIMM_SLOTS = 4
_NVDIMM_ROOM = 4 << 30


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A machine to boot. All of it, with the contents of the image and of the engine, makes the saved state's key."""

    image: Image
    engine: Path  # strata-engine on this machine, which goes into the guest
    clock: Clock = "real"
    cpus: int = 2
    memory_bytes: int = 2 << 30
    accel: Accel = "tcg"  # virtual: always tcg, whatever is said here
    guests: bool = False  # are started within it: what they start from is in its root
    mips: int = 1000  # virtual: millions of instructions a second

    @property
    def ips_shift(self) -> int:
        """As QEMU counts: an instruction takes 2**ips_shift ns."""
        return (1000 // self.mips).bit_length() - 1

    @property
    def emulated(self) -> bool:
        return self.accel == "tcg" or self.clock == "virtual"


@dataclass(frozen=True, slots=True)
class Wires:
    """What ties one QEMU to this machine. Nothing of it is in the saved state."""

    initrd: Path
    console: Path
    qmp: tuple[str, ...]  # arguments of its control socket
    ssh_port: int | None = None  # real clock: on 127.0.0.1
    mailbox: Path | None = None  # virtual clock
    bells: tuple[Path, Path] | None = None


def argv(spec: MachineSpec, wires: Wires, sizes: tuple[int, int], incoming: bool) -> list[str]:
    """`sizes`: bytes of the image's root and modules. `incoming`: it awaits a saved state instead of booting."""
    image = spec.image
    line = [PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc,nvdimm=on"]
    room = f"size={spec.memory_bytes >> 20}M,slots={_NVDIMM_SLOTS},maxmem={spec.memory_bytes + _NVDIMM_ROOM >> 20}M"
    line += ["-m", room, "-smp", str(spec.cpus), "-cpu", _cpu(spec)]
    line += system(image.root, image.modules, sizes)
    if spec.clock == "virtual":
        assert wires.mailbox is not None and wires.bells is not None
        apart = _APART if incoming and spec.cpus == 1 else ""
        line += ["-accel", "tcg,thread=single", "-icount", f"shift={spec.ips_shift},align=off,sleep=off{apart}"]
        line += ["-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
        line += ["-object", _memory("mailbox", wires.mailbox, REGION_BYTES), "-device", "nvdimm,memdev=mailbox"]
        for number, (bell, port) in enumerate(zip(wires.bells, PORTS, strict=True)):
            line += ["-chardev", f"file,id=bell{number},path={_quoted(bell)}"]
            line += ["-device", f"isa-debugcon,iobase={port:#x},chardev=bell{number}"]
    else:
        line += ["-accel", ACCELERATOR[spec.accel]]
        forward = "" if wires.ssh_port is None else f",hostfwd=tcp:127.0.0.1:{wires.ssh_port}-:22"
        line += ["-netdev", f"user,id=net,restrict=on{forward}", "-device", "virtio-net-pci,netdev=net,romfile="]
    kernel = KERNEL if spec.clock == "real" else f"{KERNEL} {_KERNEL_VIRTUAL}"
    line += ["-kernel", str(image.kernel), "-initrd", str(wires.initrd)]
    line += ["-append", f"{kernel} strata.clock={spec.clock}"]
    line += ["-serial", f"file:{_quoted(wires.console)}", *wires.qmp]
    return [*line, "-incoming", "defer"] if incoming else line


def _cpu(spec: MachineSpec) -> str:
    return CPU["tcg"] + _NOT_VIRTUAL if spec.clock == "virtual" else CPU[spec.accel]


def system(root: PurePath, modules: PurePath, sizes: tuple[int, int]) -> list[str]:
    """The system's two images, read-only, as memory that keeps its content. `sizes`: their bytes."""
    line: list[str] = []
    for name, path, size in (("root", root, sizes[0]), ("modules", modules, sizes[1])):
        line += ["-object", _memory(name, path, size) + ",readonly=on", "-device", f"nvdimm,memdev={name},unarmed=on"]
    return line


def _memory(name: str, path: PurePath, size: int) -> str:
    # share=on: the content of the file is no part of the saved state, which only names it.
    return f"memory-backend-file,id={name},share=on,mem-path={_quoted(path)},size={size}"


def _quoted(path: PurePath) -> str:
    """In an option of QEMU a comma ends a value; two are one."""
    return str(path).replace(",", ",,")


# ---------------------------------------------------------------- which QEMU, which machine


def version(said: str) -> tuple[int, int]:
    """From what --version says. Raises ValueError when it says none."""
    found = re.search(r"version (\d+)\.(\d+)", said)
    if found is None:
        raise ValueError(said)
    return int(found[1]), int(found[2])


def reasons_against(said: str | None, emulated: bool) -> list[str]:
    """Why this QEMU cannot carry a lab machine. `said`: its --version, None when there is none."""
    if said is None:
        return [f"the lab needs QEMU and there is no {PROGRAM} here; install the package qemu-system-x86."]
    now = version(said)
    if emulated and now < _OLDEST_EMULATED:
        reason = f"QEMU {now[0]}.{now[1]} is too old to carry the lab without KVM (with 7.2 two boots of ten survived)"
        return [f"{reason}; install 10.0 or newer, on Debian 12: apt install -t bookworm-backports qemu-system-x86."]
    return []


def reasons_against_memory(spec: MachineSpec, available_bytes: int) -> list[str]:
    """Why this machine cannot give the lab its memory."""
    if spec.memory_bytes <= available_bytes:
        return []
    wanted, given = human_size(spec.memory_bytes), human_size(available_bytes)
    reason = f"the lab machine is to have {wanted} of memory and this machine has {given} to give"
    return [f"{reason}; give it less, or end what uses the memory."]


def no_room(cache: Path, free_bytes: int, wanted_bytes: int) -> str:
    wanted, free = human_size(wanted_bytes), human_size(free_bytes)
    return (
        f"a saved state of the lab machine may take {wanted} and {cache} has {free} free; make room there, or name "
        "another cache with XDG_CACHE_HOME."
    )


def probe(kernel: Path, console: Path) -> list[str]:
    """A machine under KVM that ends by itself: its kernel finds no root, and panics."""
    line = [PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"]
    line += ["-accel", "kvm", "-cpu", CPU["kvm"], "-m", "512M", "-kernel", str(kernel), "-append", KERNEL]
    return [*line, "-serial", f"file:{_quoted(console)}"]


# What QEMU's isa-debug-exit makes an exit code of.
_ENDS_PORT, _ENDS_CODE = 0xF4, 0x2A

# Where KVM has no processor's help and emulates, a firmware runs to its end and a kernel stops at the first instruction
# that KVM does not know: so one of BMI2 is among these, which compilers write, where the processor has it.
_SECTOR = bytes.fromhex(
    "fa 31c0 8ed8"  # cli; ax = ds = 0
    "660f01163b7c"  # lgdt [0x7c3b]
    "0f20c0 0c01 0f22c0 ea187c0800"  # protected mode: cr0 |= 1; jump to 8:0x7c18
    "31c0 0fa2 83f807 7213"  # cpuid of leaf 0: without leaf 7 go to the end
    "b807000000 31c9 0fa2 f6c701 7405"  # cpuid of leaf 7: without BMI2 go to the end
    "c4e279f7c0"  # shlx eax, eax, eax
    f"b0{_ENDS_CODE:02x} e6{_ENDS_PORT:02x}"  # the end: out to the port
    "f4 ebfd"  # hlt, again and again
    "0f00 487c0000"  # the table's length and address
    "00000000000000"  # to a multiple of 8
    "0000000000000000 ffff0000009acf00"  # the table: nothing, and all memory as 32-bit code
)

BOOT_SECTOR = _SECTOR.ljust(510, b"\0") + b"\x55\xaa"
"""The disk of `bare_probe`."""

BARE_PROBE_CODE = _ENDS_CODE << 1 | 1
"""QEMU's exit code when the machine carried it out."""


def bare_probe(disk: Path, accel: Accel) -> list[str]:
    """A machine without anybody's kernel: QEMU's firmware starts the boot sector, which ends it."""
    line = [PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"]
    line += ["-accel", accel, "-cpu", CPU[accel], "-m", "64M", "-device", f"isa-debug-exit,iobase={_ENDS_PORT:#x}"]
    line += ["-blockdev", f"driver=raw,node-name=disk,file.driver=file,file.filename={_quoted(disk)}"]
    return [*line, "-device", "ide-hd,drive=disk,bootindex=0"]


# ---------------------------------------------------------------- the saved state


def kind(spec: MachineSpec) -> str:
    """Equal for states of which only the newest is of use: those of one machine by other programs."""
    return f"{spec.clock} {spec.accel} {spec.cpus} {spec.memory_bytes} {spec.ips_shift}"


def key(spec: MachineSpec, said: str, cpu: str, initrd: bytes, sizes: tuple[int, int]) -> str:
    """Equal for machines that are equal in every respect. `said`: QEMU's version; `cpu`: this machine's."""
    # Where a file lies says nothing: the hash of the image says what it holds.
    here = Path("/")
    wires = Wires(here, here, (), mailbox=here, bells=(here, here))
    nowhere = replace(spec.image, root=here, modules=here, kernel=here)
    line = argv(replace(spec, image=nowhere), wires, sizes, incoming=False)
    parts = [
        *(["counts from zero"] if spec.clock == "virtual" else []),
        spec.image.hash,
        said,
        hashlib.sha256(initrd).hexdigest(),  # strata-engine and /lab-init are in it
        # Under emulation the model of the processor is QEMU's own.
        "" if spec.emulated else cpu,
        *line,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def sandbox(now: tuple[int, int], seccomp: bool) -> list[str]:
    """Arguments by which QEMU gives up system calls that a lab machine never needs: what breaks out of the machine can
    start no program and gain no privilege. `seccomp`: this QEMU was built with it.

    A QEMU that moves a saved state through a program must be able to start one, so it keeps its calls.
    """
    if not seccomp or now < _FILE_URI:
        return []
    return ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]


def state_uri(path: Path, now: tuple[int, int], incoming: bool) -> str:
    if now >= _FILE_URI:
        return f"file:{path}"
    return f"exec:cat {'<' if incoming else '>'} {shlex.quote(str(path))}"


# ---------------------------------------------------------------- disks on the real clock


def serial(name: str) -> str:
    """A name that fits a serial number, unique for unique names."""
    if len(name.encode()) <= _SERIAL_BYTES:
        return name
    return f"{name.encode()[:11].decode(errors='ignore')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def disk_path(name: str) -> str:
    return f"/dev/disk/by-id/virtio-{serial(name)}"


# $1 the path, a link that udev makes when it has looked at the disk; $2 whether it turns.
_AWAIT = """\
udevadm wait --timeout=30 "$1" || exit 1
device=$(readlink "$1")
echo "$2" >"/sys/class/block/${device##*/}/queue/rotational\""""


def await_disk(name: str, rotational: bool) -> tuple[Command, ...]:
    """What the guest must run before it uses a disk that was plugged in: virtio-blk cannot say that nothing turns."""
    argv = ("sh", "-c", _AWAIT, "sh", disk_path(name), str(int(rotational)))
    return (Command(argv, timeout_s=60.0),)


def hot_plug(
    name: str, path: Path, write_cache: WriteCache, model: DiskModel | None
) -> Sequence[tuple[str, dict[str, Any]]]:
    """QMP commands that add a disk: what the guest sees of a flush, and how fast it may be.

    The cache of a disk is the page cache of this machine. "volatile": the guest is told of a write cache, and its
    flushes reach the file. "protected": it is told of one, and a flush costs nothing, as in front of a battery.
    "none": the guest is told of none, and every write is in the file before it is acknowledged.
    """
    node = f"disk-{serial(name)}"
    file = {"driver": "file", "filename": str(path), "discard": "unmap", "locking": "off"}
    cache = {"direct": False, "no-flush": write_cache == "protected"}
    commands: list[tuple[str, dict[str, Any]]] = []
    block: dict[str, Any] = {"driver": "raw", "discard": "unmap", "cache": cache, "file": file | {"cache": cache}}
    if model is not None and model.limits is not None:
        commands.append(
            ("object-add", {"qom-type": "throttle-group", "id": f"limit-{node}", "limits": _limits(model.limits)})
        )
        block = {"driver": "throttle", "throttle-group": f"limit-{node}", "file": block}
    commands.append(("blockdev-add", block | {"node-name": node, "discard": "unmap", "cache": cache}))
    device: dict[str, Any] = {
        "driver": "virtio-blk-pci",
        "id": f"dev-{serial(name)}",
        "drive": node,
        "serial": serial(name),
        "write-cache": "off" if write_cache == "none" else "on",
        # A full disk of ours must not stop the machine, but fail the write in the guest.
        "werror": "report",
        "rerror": "report",
    }
    if model is not None and model.rotational:
        # No disk that turns takes discards; and a limit on bytes would let those of a mkfs last as long as writing all.
        device["discard"] = False
    commands.append(("device_add", device))
    return commands


def _limits(limits: Limits) -> dict[str, int]:
    """As a throttle group takes them. Where reads and writes may be equally many they share what there is, as under the
    one arm of a disk that turns: apart, three reads to a write would be a third more than the disk can do."""
    found: dict[str, int] = {}
    for name, read, write in (
        ("iops", limits.read_iops, limits.write_iops),
        ("bps", limits.read_bytes_per_s, limits.write_bytes_per_s),
    ):
        if read == write:
            found[f"{name}-total"] = round(read)
        else:
            found |= {f"{name}-read": round(read), f"{name}-write": round(write)}
    return found
