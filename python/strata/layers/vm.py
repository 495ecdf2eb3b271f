"""A virtual machine on an image or a block device, as libvirt and Proxmox start it: QEMU with one disk beside its own
system, which is the lab's and is read-only memory. What stands above it is built and measured inside."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.layers import _beside, _libvirt, _limits, _own_image
from strata.layers._daemon import SHOWN, UNMARKED, direct_differences
from strata.layers._device import fields, io_uring_reasons
from strata.layers._driver import Driver
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import (
    Brought,
    BuildNeeds,
    Call,
    Command,
    Completed,
    Facts,
    Guest,
    GuestImage,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
    Work,
)
from strata.processors import ACCELERATOR, CPU
from strata.units import format_size, human_size

PROGRAM = "qemu-system-x86_64"

_MIB = 1 << 20

# (reads and writes pass the host's page cache by, flushes are ignored, the guest is told of a write cache): the table
# "cache" of QEMU's manual page.
_CACHE = {
    "none": (True, False, True),
    "writeback": (False, False, True),
    "writethrough": (False, False, False),
    "directsync": (True, False, False),
    "unsafe": (False, True, True),
}

_TOOLS = {PROGRAM: "qemu-system-x86", "ssh": "openssh-client"}
_TOOLS_BESIDE = {_beside.DAEMON: "qemu-utils"}

INFO = LayerInfo(
    name="vm",
    about="A virtual machine whose disk is the image or device below; what stands above is built inside it.",
    params=(
        Param(
            "cache",
            ParamType.CHOICE,
            "QEMU's cache mode; unsafe ignores flushes and can lose what it has acknowledged",
            default="none",
            choices=tuple(_CACHE),
        ),
        Param(
            "aio",
            ParamType.CHOICE,
            "how QEMU does its I/O",
            default="threads",
            choices=("threads", "native", "io_uring"),
        ),
        Param(
            "bus",
            ParamType.CHOICE,
            "what the guest sees the disk as",
            default="virtio-blk",
            choices=("virtio-blk", "virtio-scsi", "sata", "nvme"),
        ),
        Param("iothread", ParamType.FLAG, "a thread of its own for the disk (virtio only)", default=False),
        Param("discard", ParamType.FLAG, "hand discards of the guest to what is below", default=False),
        Param(
            "detect_zeroes",
            ParamType.CHOICE,
            "turn written zeroes into a hole (unmap, with discard) or a cheap write (on)",
            default="off",
            choices=("off", "on", "unmap"),
        ),
        *_limits.params("QEMU"),
        Param("cpus", ParamType.INT, "virtual processors", default=1, minimum=1, maximum=64),
        Param("memory", ParamType.SIZE, "memory of the guest", default=512 * _MIB, minimum=256 * _MIB),
        Param("machine", ParamType.CHOICE, "QEMU's machine type", default="q35", choices=("q35", "pc")),
        Param(
            "beside",
            ParamType.FLAG,
            "start it beside the lab machine that its disk is in, and reach the disk by NBD",
            default=False,
        ),
        Param(
            "nested",
            ParamType.FLAG,
            "start it within the lab machine that its disk is in, by KVM where that machine has it",
            default=False,
        ),
        Param(
            "engine",
            ParamType.CHOICE,
            "what starts it: qemu itself, or the libvirt of that machine (at LIBVIRT_DEFAULT_URI, else qemu:///system)",
            default="qemu",
            choices=("qemu", "libvirt"),
        ),
        Param(
            "image",
            ParamType.TEXT,
            "an image of your own that it boots from, by BIOS, with the disk below beside its system",
            file=True,
        ),
        Param("os", ParamType.CHOICE, "what that image holds", default="linux", choices=("linux", "windows")),
        Param("user", ParamType.TEXT, "who logs in there by ssh; by itself root, or Administrator"),
        Param("key", ParamType.TEXT, "the file of that user's private key", file=True),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.IMAGE}),
    provides=Kind.BLOCK,
    tools={**_TOOLS, **_TOOLS_BESIDE, **_libvirt.TOOLS, "qemu-img": "qemu-utils"},
    metrics=(
        Metric("vm.boot_s", "s", "lower", "from the start of QEMU to the first command carried out in the guest"),
    ),
    starts_guest=True,
    build=BuildNeeds(
        # Its boot: 8.8 to 14 s emulated on a quiet machine; by KVM not measured.
        work=Work(native_s=10.0, emulated_s=13.0),
        brought=(
            Brought(
                "vm(image=/PATH, key=/PATH, os={linux, windows})",
                {"image": "/PATH", "key": "/PATH", "os": "windows", "memory": 4 << 30},
                (PROGRAM, "qemu-img", "ssh"),
                "You bring the image, which boots by BIOS, with an ssh server that takes your key, and fio in its "
                "PATH; one of Windows with the virtio drivers too (viostor, vioscsi), unless you write bus=sata or "
                "bus=nvme.",
            ),
        ),
    ),
)

# $1 directory, $2 the first port to try, $3 serial number, $4 link for the disk in the guest, $5 its size or "", $6 ssh
# up to the port as a shell reads it, $7 the address of the port, the rest: QEMU and its arguments. It is to live longer
# than this command; its undo ends it. What asks for the first command goes on in the background:
# other guests are started meanwhile, and each is asked as soon as it listens. The line that it waits for is written
# then; the first command finds the disk by its serial number.
_START = """\
dir=$1 port=$2 serial=$3 link=$4 size=$5 ssh=$6 address=$7; shift 7
first() {
  # QEMU takes the file of its process number away as it ends. Nothing looks again and again: several boot at once.
  if ! pid=$(cat "$dir/pid") || ! tail -c +1 -f -s 0.2 --pid="$pid" -- "$dir/console" | grep -aqm 1 'strata-lab: ready'
  then
    echo "the guest ended before it was ready: $(grep -a -m 1 'Kernel panic' "$dir/console")"; return 1
  fi
  eval "$ssh -p $port -- root@127.0.0.1 sh -s -- '$serial' '$link' '$size'" <<'END' || return 1
for pause in 0 0.2 0.5 1 2 4 8; do
  sleep "$pause"
  for disk in /sys/block/*; do
    # One path of an NVMe disk has no device file: the disk has.
    [ -e "/dev/${disk##*/}" ] || continue
    if grep -aqsF -e "$1" "$disk/serial" "$disk/device/serial" "$disk/device/vpd_pg80"; then
      mkdir -p "${2%/*}" && ln -sfn "/dev/${disk##*/}" "$2" || exit 1
      have=$(($(cat "$disk/size") * 512))
      if [ -n "$3" ] && [ "$have" != "$3" ]; then
        echo "the disk has $have bytes in the guest instead of $3" >&2; exit 1
      fi
      exit 0
    fi
  done
done
echo "the guest has no disk with the serial number $1" >&2
exit 1
END
  started=$(cat "$dir/started"); now=$(cut -d ' ' -f 1 /proc/uptime)
  awk "BEGIN { printf \\"%.2f\\\\n\\", $now - $started }" > "$dir/boot_s.new" && mv -- "$dir/boot_s.new" "$dir/boot_s"
}
console=$(printf %s "$dir/console" | sed 's/,/,,/g')
: > "$dir/console"
for try in 1 2 3 4 5 6 7 8; do
  cut -d ' ' -f 1 /proc/uptime > "$dir/started"
  if "$@" -daemonize -pidfile "$dir/pid" -serial "file:$console" \\
      -netdev "user,id=net,restrict=on,hostfwd=tcp:$address:$port-:22" 2> "$dir/said"; then
    echo "$port" > "$dir/port"
    first < /dev/null > "$dir/first" 2>&1 &
    echo $! > "$dir/first-pid"
    exit 0
  fi
  grep -q 'host forwarding rule' "$dir/said" || break
  port=$((port + 1))
done
cat "$dir/said" >&2
exit 1"""

# Every QEMU that was given this pid file, which is the visit's alone, also one that was about to start when Strata was
# killed. $1 directory.
_END = """\
ours() {
  for process in $(grep -lxzF -e "$1/pid" /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${process%/cmdline}
    case $(cat "$process/comm" 2>/dev/null) in qemu-system*) echo "${process#/proc/}" ;; esac
  done
}
for pid in $(ours "$1"); do kill -TERM "$pid"; done 2>/dev/null
for pause in 0.05 0.1 0.2 0.4 0.8 1.6 ''; do
  left=$(ours "$1")
  if [ -z "$left" ]; then exit 0; fi
  [ -n "$pause" ] && sleep "$pause"
done
kill -KILL $left 2>/dev/null
for pause in 0.1 0.2 0.4 0.8 1.6 3.2; do
  sleep "$pause"
  if [ -z "$(ours "$1")" ]; then exit 0; fi
done
echo "QEMU (process $left) was killed and still lives: see what it waits for, then clean up again" >&2
exit 1"""

# $1 directory
_AWAIT = """\
until [ -e "$1/boot_s" ]; do
  read -r pid < "$1/first-pid"
  if [ ! -d "/proc/$pid" ] && [ ! -e "$1/boot_s" ]; then cat "$1/first" >&2; exit 1; fi
  sleep 0.2
done"""

# $1 directory, $2 what the disk is
_SHOW = SHOWN + 'pid=$(cat "$1/pid") && grep -qxzF -e "$1/pid" "/proc/$pid/cmdline" && shown "$pid" "$2"'

_FIRST_PORT, _PORTS = 20000, 10000

# Where nothing is known of guests nothing is started: the plan says why.
_NO_IMAGE = GuestImage("/no-guest-image")


class VmDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, _TOOLS_BESIDE if spec["beside"] else _TOOLS)
        if spec["beside"] and spec["nested"]:
            reasons.append("A guest of a lab runs beside its machine or within; leave out beside or nested.")
        if spec["engine"] == "libvirt" and (spec["beside"] or spec["nested"]):
            reasons.append("A guest of a lab is started by QEMU itself; leave engine=libvirt out or say --on local.")
        elif spec["engine"] == "libvirt":
            reasons += _libvirt.reasons(spec, facts)
        reasons += _own_image.reasons(spec, facts)
        direct = _CACHE[str(spec["cache"])][0]
        if spec["aio"] == "native" and not direct:
            reasons.append(
                f"QEMU refuses vm(cache={spec['cache']}, aio=native): Linux has no asynchronous I/O through the page "
                "cache; choose cache=none or directsync, or aio=threads or io_uring."
            )
        if spec["bus"] == "nvme" and not _CACHE[str(spec["cache"])][2]:
            # hw/nvme/ctrl.c sets VWC whatever write-cache= says.
            reasons.append(
                f"vm(bus=nvme, cache={spec['cache']}) cannot be compared with other buses: QEMU's NVMe controller "
                "always reports a write cache, so the guest sends flushes that it does not send elsewhere; choose "
                "another bus, or cache=none, writeback or unsafe."
            )
        reasons += io_uring_reasons(spec, facts)
        if spec["iothread"] and not str(spec["bus"]).startswith("virtio"):
            reasons.append(f"vm(bus={spec['bus']}) has no iothread; choose bus=virtio-blk or virtio-scsi, or leave it.")
        if spec["detect_zeroes"] == "unmap" and not spec["discard"]:
            reasons.append("QEMU refuses vm(detect_zeroes=unmap) without discard; add discard.")
        memory = int(spec["memory"] or 0)
        if memory > facts.memory_bytes and not spec["beside"]:
            reasons.append(
                f"vm(memory={format_size(memory)}) is more than this machine has, {human_size(facts.memory_bytes)}; "
                "give the guest less."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        link = f"/run/strata-disks/{_serial(place.name)}"
        if _own_image.is_asked(spec):
            return _own_image.provided(spec, below[0], place, _serial(place.name))
        return Provides(Kind.BLOCK, link, below[0].size_bytes, guest=_guest(spec, place))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        port, address = _FIRST_PORT + int(place.uuid.replace("-", ""), 16) % _PORTS, "127.0.0.1"
        if spec["nested"]:
            # The controller's way in is forwarded to the lab machine's own address.
            port, address = _beside.reach(place, "nested").lab_port, "0.0.0.0"
        if _own_image.is_asked(spec):
            return _own_steps(spec, below[0], place, port)
        provided = self.provides(spec, below, place)
        assert provided.guest is not None
        at = provided.guest.dir
        size = "" if provided.size_bytes is None else str(provided.size_bytes)
        ssh = shlex.join(provided.guest.image.ssh)
        about = (at, str(port), _serial(place.name), provided.path, size, ssh, address)
        if spec["engine"] == "libvirt":
            program = _libvirt.start(spec, below[0], provided.guest, place, _serial(place.name))
            end = _libvirt.end(place)
        else:
            program, end = _program(spec, below[0], place), sh(_END, at, timeout_s=60.0)
        # A guest beside the lab keeps the mark of the run, by which it is found after a kill -9; any other is in the
        # journal.
        mark = () if spec["beside"] else UNMARKED
        steps = [
            Step(sh(_START, *about, *mark, *program), end, "start the guest"),
            Step(sh(_AWAIT, at), None, "wait until the guest carries out a command"),
        ]
        if not spec["beside"]:
            return steps
        nodes, top = _nodes(spec, below[0])
        return [
            _beside.export(place, nodes, top, writethrough=_writes_through(spec)),
            *map(_beside.beside_step, [Step(run("mkdir", "--parents", "--", at), None, "make its directory"), *steps]),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        if spec["engine"] == "libvirt":
            return [_libvirt.show(place)]
        show = _where(spec, sh(_SHOW, _dir(spec, place), below[0].path))
        return [show, _beside.show(place, below[0].path)] if spec["beside"] else [show]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is not None and spec["engine"] == "libvirt":
            return _libvirt.differences(spec, below[0], shown.stdout)
        if shown is None:
            return [f"The guest does not run any more: {said(seen, 0)}."]
        guest, disk = fields(seen, 0), fields(seen, -1)
        wrong = _started_differently("QEMU", _program(spec, below[0], place), guest)
        if spec["beside"]:
            nodes, top = _nodes(spec, below[0])
            daemon = _beside.daemon(place, nodes, top, writethrough=_writes_through(spec))
            wrong += _started_differently(_beside.DAEMON, daemon, disk)
        direct = _CACHE[str(spec["cache"])][0]
        return wrong + direct_differences(f"vm(cache={spec['cache']})", below[0].path, direct=direct, state=disk)

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [_where(spec, sh('cat -- "$1/boot_s"', _dir(spec, place)))]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        shown = output(seen, 0)
        return {"vm.boot_s": float(shown.stdout)} if shown and shown.stdout.strip() else {}


def _own_steps(spec: Call, below: Provides, place: Place, port: int) -> list[Step]:
    start = sh(_own_image.START, *_own_image.about(spec, place, port), *UNMARKED, *_program(spec, below, place))
    return [
        _own_image.overlay(spec, place),
        Step(start, sh(_END, place.dir, timeout_s=60.0), "start the guest"),
        Step(_own_image.ready(sh(_AWAIT, place.dir)), None, "wait until the guest answers by ssh"),
    ]


def _program(spec: Call, below: Provides, place: Place) -> list[str]:
    """QEMU's command line, but for what the scripts add: the pid file, the network, the console of our own guests."""
    guest = _guest(spec, place)
    if not _own_image.is_asked(spec):
        return argv(spec, below, guest, place)
    nodes, top = _nodes(spec, below)
    return _own_image.program(spec, guest, place, [*nodes, *_device(spec, top, _serial(place.name))])


def _started_differently(name: str, asked: Sequence[str], state: Mapping[str, Sequence[str]]) -> list[str]:
    has = state.get("argument", [])
    if list(has[: len(asked)]) == list(asked):
        return []
    return [f"vm: {name} was not started as requested: {' '.join(has) or 'it does not run'}."]


def _writes_through(spec: Call) -> bool:
    return not _CACHE[str(spec["cache"])][2]


def _guest(spec: Call, place: Place) -> Guest:
    image, memory = place.guest_image or _NO_IMAGE, int(spec["memory"] or 0)
    port = _beside.reach(place, "nested").port if spec["nested"] else None
    return Guest(place.name, _dir(spec, place), image, memory, bool(spec["beside"]), port)


def _dir(spec: Call, place: Place) -> str:
    """On the machine that starts the guest."""
    return _beside.reach(place).dir if spec["beside"] else place.dir


def _where(spec: Call, command: Command) -> Command:
    return replace(command, beside=bool(spec["beside"]))


def argv(spec: Call, below: Provides, guest: Guest, place: Place) -> list[str]:
    """QEMU's command line, but for what `_START` adds: the pid file, the console, the network."""
    image = guest.image
    memory = int(spec["memory"] or 0) // _MIB
    line = [PROGRAM, "-name", guest.name, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    line += ["-machine", f"{spec['machine']},nvdimm=on", "-accel", ACCELERATOR[image.accel], "-cpu", CPU[image.accel]]
    line += ["-smp", str(spec["cpus"]), "-m", f"size={memory}M,slots=4,maxmem={memory + 4096}M"]
    line += [*image.boot]
    line += ["-device", "virtio-net-pci,netdev=net,romfile="]
    if guest.beside:
        nodes, top = _beside.disk(place, "disk", _discard(spec)), "disk"
    else:
        nodes, top = _nodes(spec, below)
    return [*line, *nodes, *_device(spec, top, _serial(guest.name))]


def _discard(spec: Call) -> str:
    return f"discard={'unmap' if spec['discard'] else 'ignore'}"


def _nodes(spec: Call, below: Provides) -> tuple[list[str], str]:
    """The options that make the nodes of the disk, and the name of the topmost."""
    direct, no_flush, _ = _CACHE[str(spec["cache"])]
    cache = f"cache.direct={_on(direct)},cache.no-flush={_on(no_flush)}"
    discard = _discard(spec)
    path = below.path.replace(",", ",,")
    protocol = "host_device" if below.kind is Kind.BLOCK else "file"
    form = "raw" if below.kind is Kind.BLOCK else below.name or "raw"
    line = ["-blockdev", f"driver={protocol},node-name=file,filename={path},{cache},aio={spec['aio']},{discard}"]
    zeroes = f"detect-zeroes={spec['detect_zeroes']}"
    line += ["-blockdev", f"driver={form},node-name=disk,file=file,{cache},{discard},{zeroes}"]
    top = "disk"
    if (group := _limits.throttle_group(spec)) is not None:
        top = "limited"
        line += ["-object", group]
        line += ["-blockdev", f"driver=throttle,node-name={top},throttle-group=limit,file=disk,{cache},{discard}"]
    return line, top


def _device(spec: Call, top: str, serial: str) -> list[str]:
    line: list[str] = []
    write_cache = _CACHE[str(spec["cache"])][2]
    thread = ",iothread=io" if spec["iothread"] else ""
    if thread:
        line += ["-object", "iothread,id=io"]
    # An error is the guest's to see, as on a real disk; by default QEMU would stop the guest when there is no room.
    about = f"drive={top},serial={serial},write-cache={_on(write_cache)}"
    errors = ",rerror=report,werror=report"
    match spec["bus"]:
        case "virtio-scsi":
            line += ["-device", f"virtio-scsi-pci,id=scsi{thread}", "-device", f"scsi-hd,bus=scsi.0,{about}{errors}"]
        case "sata":
            line += ["-device", "ich9-ahci,id=sata", "-device", f"ide-hd,bus=sata.0,{about}{errors}"]
        case "nvme":
            line += ["-device", f"nvme,{about}"]
        case _:
            line += ["-device", f"virtio-blk-pci,{about}{errors}{thread}"]
    return line


def _serial(name: str) -> str:
    """virtio-blk hands 20 bytes of it to the guest."""
    return name[-20:]


def _on(value: bool) -> str:
    return "on" if value else "off"


DRIVER = VmDriver()
