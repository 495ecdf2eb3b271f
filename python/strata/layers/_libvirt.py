"""A guest as libvirt runs it: the domain, and the programs that start, show and end it on the measured machine.

They are Python with libvirt's binding, which tells "no such domain" from "no libvirt" by a number; why not virsh, and
why the system's own Python: docs/decisions/0024. Of the domain, the disk and the machine are libvirt's to translate;
only what it has no words for goes to QEMU as it is: the lab's system in read-only memory, and the way in by ssh.
Source of the elements: the "Domain XML format" of libvirt's manual.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from strata.layers import _limits
from strata.layers._steps import run
from strata.model import Call, Command, Facts, Guest, Kind, Place, Provides
from strata.processors import WITHHELD

PYTHON = "/usr/bin/python3"  # Debian's binding is for the system's Python only
BINDING = "python3:libvirt"
DAEMONS = ("libvirtd", "virtqemud")
TOOLS: Mapping[str, str] = {BINDING: "python3-libvirt", **dict.fromkeys(DAEMONS, "libvirt-daemon-system")}

_MIB = 1 << 20
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
_NETWORK = "@network@"  # the start chooses a port that is free
_DOMAIN_TYPE = {"kvm": "kvm", "tcg": "qemu"}

# Argument of `vm` -> what `iotune` calls it.
_IOTUNE = {
    "read_iops": "read_iops_sec",
    "write_iops": "write_iops_sec",
    "read_bps": "read_bytes_sec",
    "write_bps": "write_bytes_sec",
}

# A transient domain is gone when its QEMU is, so that is what is looked for where libvirt does not answer.
_COMMON = """\
import os, re, sys, time
try:
    import libvirt
except ImportError:
    sys.exit("the system's Python has no binding of libvirt; install the Debian package python3-libvirt")
libvirt.registerErrorHandler(lambda *_: None, None)

def process(uuid):
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                words = file.read().split(b"\\0")
            with open(f"/proc/{number}/comm") as file:
                ours = file.read().startswith("qemu-")
        except OSError:
            continue
        if ours and uuid.encode() in words:
            return number
    return None

def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None
"""

# Directory, UUID, domain; then what every start of a guest is given for QEMU: -daemonize -pidfile P -serial S
# -netdev N. Where the user's libvirt is, is noted first: the end may come from another shell.
_START = (
    _COMMON
    + """
from xml.sax.saxutils import escape
directory, uuid, domain, _, _, pid_file, _, _, _, network = sys.argv[1:]
uri = os.environ.get("LIBVIRT_DEFAULT_URI") or "qemu:///system"
with open(directory + "/uri", "w") as file:
    file.write(uri)
try:
    connection = libvirt.open(uri)
    # Other models than that of owners, AppArmor's above all, know nothing of the lab's files.
    models = re.findall("<model>(\\\\w+)</model>\\\\s*<doi>", connection.getCapabilities())
    labels = "".join(f"<seclabel type='none' model='{model}'/>" for model in models if model not in ("none", "dac"))
    domain = domain.replace("@network@", escape(network)).replace("</domain>", labels + "</domain>")
    connection.createXML(domain, 0)
except libvirt.libvirtError as error:
    sys.exit(f"libvirt did not start the guest ({uri}): {error}")
number = process(uuid)
if number is None:
    sys.exit("the guest ended as soon as it was started; see libvirt's log of it")
with open(pid_file, "w") as file:
    file.write(number + "\\n")
"""
)

# Directory, UUID. Only this very domain: any other is the user's.
_END = (
    _COMMON
    + """
directory, uuid = sys.argv[1:]
uri = read(directory + "/uri")
said = ""
if uri:
    try:
        libvirt.open(uri).lookupByUUIDString(uuid).destroy()
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            said = str(error)
for _ in range(100):
    if process(uuid) is None:
        sys.exit(0)
    time.sleep(0.1)
sys.exit(f"the guest (process {process(uuid)}) still lives: {said or 'libvirt ended it'}; see to libvirt at {uri}, "
         "then clean up again")
"""
)

_SHOW = (
    _COMMON
    + """
directory, uuid = sys.argv[1:]
try:
    print(libvirt.open(read(directory + "/uri") or "qemu:///system").lookupByUUIDString(uuid).XMLDesc())
except libvirt.libvirtError as error:
    sys.exit(str(error))
"""
)


def reasons(spec: Call, facts: Facts) -> list[str]:
    found = []
    if BINDING not in facts.tools:
        found.append(
            f"vm(engine=libvirt) asks libvirt from {PYTHON}, which has no binding of it; "
            "install the Debian package python3-libvirt."
        )
    if not any(daemon in facts.tools for daemon in DAEMONS):
        found.append(
            f"vm(engine=libvirt) needs libvirt, and neither {' nor '.join(DAEMONS)} is installed; "
            "install the Debian package libvirt-daemon-system and start it."
        )
    elif facts.tools.get(BINDING) == "nobody listens":
        found.append(
            "vm(engine=libvirt) needs libvirt to run, and nobody listens in /run/libvirt; type `systemctl start "
            "libvirtd`, or say where it is with LIBVIRT_DEFAULT_URI."
        )
    if spec["bus"] == "nvme":
        found.append("vm(engine=libvirt) has no bus=nvme; choose virtio-blk, virtio-scsi or sata, or engine=qemu.")
    return found


def start(spec: Call, below: Provides, guest: Guest, place: Place, serial: str) -> list[str]:
    """In the place of QEMU and its arguments."""
    return [PYTHON, "-I", "-c", _START, place.dir, place.uuid, domain(spec, below, guest, place.uuid, serial)]


def end(place: Place) -> Command:
    return run(PYTHON, "-I", "-c", _END, place.dir, place.uuid, timeout_s=60.0)


def show(place: Place) -> Command:
    return run(PYTHON, "-I", "-c", _SHOW, place.dir, place.uuid)


def domain(spec: Call, below: Provides, guest: Guest, uuid: str, serial: str) -> str:
    """The domain as it is handed to libvirt, but for the network, whose port is chosen when it is started."""
    ElementTree.register_namespace("qemu", _QEMU)
    root = ElementTree.Element("domain", type=_DOMAIN_TYPE[guest.image.accel])
    _text(root, "name", guest.name)
    _text(root, "uuid", uuid)
    memory = int(spec["memory"] or 0) // _MIB
    _text(root, "memory", str(memory), unit="MiB")
    _text(root, "vcpu", str(spec["cpus"]))
    if spec["iothread"]:
        _text(root, "iothreads", "1")
    _text(ElementTree.SubElement(root, "os"), "type", "hvm", arch="x86_64", machine=str(spec["machine"]))
    ElementTree.SubElement(ElementTree.SubElement(root, "features"), "acpi")
    ElementTree.SubElement(root, "cpu", mode="maximum")
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _text(root, event, "destroy")
    devices = ElementTree.SubElement(root, "devices")
    _disk(devices, spec, below, serial)
    console = ElementTree.SubElement(devices, "serial", type="file")
    ElementTree.SubElement(console, "source", path=f"{guest.dir}/console")
    ElementTree.SubElement(devices, "controller", type="usb", model="none")
    ElementTree.SubElement(devices, "memballoon", model="none")
    # As root, as the other engine: the lab's files are root's, and the owner of a user's device is not to be changed.
    _text(ElementTree.SubElement(root, "seclabel", type="static", model="dac", relabel="no"), "label", "+0:+0")
    line = ElementTree.SubElement(root, f"{{{_QEMU}}}commandline")
    # QEMU places its devices before those of libvirt, which have the first slots.
    for word in (
        *("-machine", "nvdimm=on", "-m", f"slots=4,maxmem={memory + 4096}M", *guest.image.boot),
        *("-netdev", _NETWORK, "-device", "virtio-net-pci,netdev=net,romfile=,addr=0x1e"),
        # libvirt 9.0 has no word for FSRS.
        *(w for name in WITHHELD[guest.image.accel] for w in ("-global", f"max-x86_64-cpu.{name}=off")),
    ):
        ElementTree.SubElement(line, f"{{{_QEMU}}}arg", value=word)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


# bus -> (name of the disk, what libvirt calls the bus). Of NVMe, which it has not, the plan says so.
_TARGET = {"virtio-blk": ("vda", "virtio"), "virtio-scsi": ("sda", "scsi"), "sata": ("sda", "sata")}
_VERSIONED = {"q35": "pc-q35-", "pc": "pc-i440fx-"}


def _target(spec: Call) -> tuple[str, str]:
    return _TARGET.get(str(spec["bus"]), _TARGET["virtio-blk"])


def _disk(devices: ElementTree.Element, spec: Call, below: Provides, serial: str) -> None:
    block, bus = below.kind is Kind.BLOCK, str(spec["bus"])
    disk = ElementTree.SubElement(devices, "disk", type="block" if block else "file", device="disk")
    driver = ElementTree.SubElement(disk, "driver", _driver(spec, below))
    ElementTree.SubElement(disk, "source", {"dev" if block else "file": below.path})
    name, kind = _target(spec)
    ElementTree.SubElement(disk, "target", dev=name, bus=kind)
    _text(disk, "serial", serial)
    limits = _iotune(spec)
    if limits:
        tune = ElementTree.SubElement(disk, "iotune")
        for name, value in limits.items():
            _text(tune, name, value)
    if bus == "virtio-scsi":
        controller = ElementTree.SubElement(devices, "controller", type="scsi", model="virtio-scsi")
        if spec["iothread"]:
            ElementTree.SubElement(controller, "driver", iothread="1")
    elif spec["iothread"]:
        driver.set("iothread", "1")


def _driver(spec: Call, below: Provides) -> dict[str, str]:
    return {
        "name": "qemu",
        "type": "raw" if below.kind is Kind.BLOCK else below.name or "raw",
        "cache": str(spec["cache"]),
        "io": str(spec["aio"]),
        "discard": "unmap" if spec["discard"] else "ignore",
        "detect_zeroes": str(spec["detect_zeroes"]),
        # An error is the guest's to see, as on a real disk.
        "error_policy": "report",
    }


def _iotune(spec: Call) -> dict[str, str]:
    return {_IOTUNE[name]: str(limit) for name, limit in _limits.asked(spec).items()}


def differences(spec: Call, below: Provides, shown: str) -> list[str]:
    """What libvirt says of the domain that runs, against what was asked of its disk, memory and processors."""
    try:
        root = ElementTree.fromstring(shown)
    except ElementTree.ParseError as error:
        return [f"vm: what libvirt says of the guest cannot be read: {error}."]
    wrong = []
    disk = root.find("devices/disk")
    if disk is None:
        return ["vm: the guest that libvirt runs has no disk."]
    driver, source, tune = disk.find("driver"), disk.find("source"), disk.find("iotune")
    has = dict(driver.attrib) if driver is not None else {}
    asked: list[tuple[str, object, object]] = [
        (f"{name} of the disk", has.get(name), value) for name, value in _driver(spec, below).items()
    ]
    path = None if source is None else source.get("dev") or source.get("file")
    asked.append(("source of the disk", path, below.path))
    limits = {} if tune is None else {each.tag: each.text for each in tune if each.text != "0"}
    asked.append(("limits of the disk", _plain(limits), _plain(_iotune(spec))))
    asked.append(("number of processors", root.findtext("vcpu"), str(spec["cpus"])))
    asked.append(("memory in KiB", _memory_kib(root), int(spec["memory"] or 0) // _MIB * 1024))
    # It writes out which version of a machine type its QEMU took.
    machine, system = str(spec["machine"]), root.find("os/type")
    has_machine = "" if system is None else str(system.get("machine"))
    alike = has_machine == machine or has_machine.startswith(_VERSIONED[machine])
    asked.append(("machine type", machine if alike else has_machine, machine))
    target = disk.find("target")
    asked.append(("bus of the disk", None if target is None else target.get("bus"), _target(spec)[1]))
    thread = (
        disk.find("driver") if spec["bus"] != "virtio-scsi" else root.find("devices/controller[@type='scsi']/driver")
    )
    own = thread is not None and thread.get("iothread") is not None
    asked.append(("thread of its own for the disk", own, bool(spec["iothread"])))
    for what, now, wanted in asked:
        if now != wanted:
            wrong.append(f"vm: libvirt gives the guest {now} as the {what} instead of {wanted}.")
    return wrong


def _memory_kib(root: ElementTree.Element) -> int | None:
    memory = root.find("memory")
    if memory is None or not (memory.text or "").isdecimal():
        return None
    # Without a unit it is KiB (libvirt's formatdomain.html).
    return int(memory.text or 0) * {"KiB": 1, "MiB": 1024, "GiB": 1 << 20}.get(memory.get("unit", "KiB"), 0)


def _plain(limits: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(limits.items())) or "none"


def _text(parent: ElementTree.Element, tag: str, text: str, **attributes: str) -> None:
    ElementTree.SubElement(parent, tag, attributes).text = text
