"""A guest from an image of the user's own, with the disk below beside its system: `vm(image=..., os=...)`.

Nothing of ours is in it, so nothing is built there: a workload's command goes in by ssh and finds the bare disk. The
image itself is only read; what the guest writes to its system lies in a file of the visit.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from strata.layers._steps import sh
from strata.model import Call, Command, Facts, Guest, Kind, Place, Provides, Step
from strata.processors import ACCELERATOR, CPU
from strata.store.ownership import WAY
from strata.units import format_size

_MIB = 1 << 20

# The disks of its system and then ours: Windows numbers them so, with the system on the first port.
_WINDOWS_DISK = r"\\.\PhysicalDrive1"

# Source: Microsoft, the requirements of Windows 10 and Server 2016 (64 bit).
_LEAST_WINDOWS_BYTES = 2 << 30
_USER = re.compile(r"[A-Za-z0-9._\\@-]+")

# What Windows is told of the machine that it runs on, without which it takes interrupts and clocks the slow way; as
# libvirt and Proxmox say it of a Windows guest (QEMU: docs/system/i386/hyperv.rst).
_HYPER_V = "host,hv_relaxed,hv_vapic,hv_spinlocks=0x1fff,hv_time,hv_vpindex,hv_synic,hv_stimer"


# $1 the user's image, $2 their key, $3 what is made. A name does not tell the format: clouds' images are qcow2 and end
# in .img. An image may come from a stranger and name other files, which QEMU would open as root and show to the guest:
# so its format is told by its first bytes, before QEMU looks at it, and one that can name a file is refused.
# Sources: QEMU's docs/interop/qcow2.txt (a backing file at byte 8, bit 2 of the incompatible features at byte 72),
# block/vhdx.c, block/vdi.c, block/vpc.c; those refused: block/vmdk.c, block/qed.c, block/parallels.c.
# Between that and QEMU nobody may put another in its place: only its owner and root, on all the way to it.
_OVERLAY = (
    WAY
    + """\
for file in "$1" "$2"; do
  if [ ! -r "$file" ]; then echo "$file cannot be read; say where it is (image=, key=)" >&2; exit 1; fi
done
refuse() {
  echo "$1 $2, and the guest could read whatever file that is; make one image of it on a machine that you trust" \
    "(qemu-img convert -O qcow2 OLD NEW)" >&2
  exit 1
}
way "$1" | while read -r uid gid mode at; do
  mode=$((0x$mode)) why=
  case " $(trusted | tr '\\n' ' ') " in *" $uid "*) ;; *) why="belongs to user $uid" ;; esac
  # of a link only the owner counts, and in a sticky directory only the owner of an entry replaces it
  if [ -z "$why" ] && [ ! -L "$at" ] && ! { [ -d "$at" ] && [ $((mode & 01000)) != 0 ]; }; then
    if [ $((mode & 02)) != 0 ]; then why="is writable by every user"
    elif [ $((mode & 020)) != 0 ] && [ "$gid" != "$uid" ]; then why="is writable by a group"
    fi
  fi
  [ -z "$why" ] || { echo "$at $why"; break; }
done >"$3.way"
if [ -s "$3.way" ]; then
  echo "$1 can be exchanged by another user while QEMU starts: $(cat -- "$3.way"); copy it to a directory that only" \
    "you and root can change (chown, chmod go-w)" >&2
  rm -f -- "$3.way"; exit 1
fi
rm -f -- "$3.way"
bytes() { od -A n -t x1 -j "$2" -N "$3" -- "$1" | tr -d ' \\n'; }
case $(bytes "$1" 0 8) in
  514649fb*)
    format=qcow2
    [ "$(bytes "$1" 8 8)" = 0000000000000000 ] || refuse "$1" "names a backing file"
    case $(bytes "$1" 4 4)$(bytes "$1" 79 1) in
      00000002* | 00000003?[012389abAB]) ;;
      *) refuse "$1" "keeps its data in another file, or is of an unknown version" ;;
    esac ;;
  7668647866696c65) format=vhdx ;;
  3c3c3c20*) format=vdi ;;
  636f6e6563746978) format=vpc ;;
  4b444d56* | 434f5744* | 2320446973* | 51454400* | 57697468*) refuse "$1" "is of a format that can name other files" ;;
  *) format=raw ;;
esac
qemu-img create -q -f qcow2 -b "$1" -F "$format" -- "$3\""""
)

# $1 directory, $2 the first port to try, $3 ssh up to the port, as a shell reads it, $4 user, the rest: QEMU and its
# arguments. What has no console for us is ready when it answers by ssh; `exit` is a command of every shell.
START = """\
dir=$1 port=$2 ssh=$3 user=$4; shift 4
first() {
  until eval "$ssh -o ConnectTimeout=5 -p $port -- '$user@127.0.0.1' exit" 2> "$dir/first"; do
    if ! pid=$(cat "$dir/pid" 2>/dev/null) || [ ! -d "/proc/$pid" ]; then
      echo "the guest ended before it answered by ssh $(grep -a -m 1 'Kernel panic' "$dir/console")" >> "$dir/first"
      return 1
    fi
    sleep 0.5
  done
  started=$(cat "$dir/started"); now=$(cut -d ' ' -f 1 /proc/uptime)
  awk "BEGIN { printf \\"%.2f\\\\n\\", $now - $started }" > "$dir/boot_s.new" && mv -- "$dir/boot_s.new" "$dir/boot_s"
}
console=$(printf %s "$dir/console" | sed 's/,/,,/g')
: > "$dir/console"
for try in 1 2 3 4 5 6 7 8; do
  cut -d ' ' -f 1 /proc/uptime > "$dir/started"
  if "$@" -daemonize -pidfile "$dir/pid" -serial "file:$console" \\
      -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" 2> "$dir/said"; then
    echo "$port" > "$dir/port"
    first < /dev/null &
    echo $! > "$dir/first-pid"
    exit 0
  fi
  grep -q 'host forwarding rule' "$dir/said" || break
  port=$((port + 1))
done
cat "$dir/said" >&2
exit 1"""

# $1 directory, $2 ssh as above, $3 user, the rest: a command, which the guest's shell reads. None of its words has a
# blank or a quote: shells of Windows and of Linux agree on nothing else.
_ENTER = """\
dir=$1 ssh=$2 user=$3; shift 3
eval "exec $ssh -p $(cat "$dir/port") -- '$user@127.0.0.1' \\"\\$*\\"\""""


def is_asked(spec: Call) -> bool:
    return spec["image"] is not None


def reasons(spec: Call, facts: Facts) -> list[str]:
    found = []
    if not is_asked(spec):
        return [
            f"vm({name}=) is of a guest from an image of your own; add image=, or leave it out."
            for name, unless in (("key", None), ("user", None), ("os", "linux"))
            if spec[name] != unless
        ]
    if not _USER.fullmatch(_user(spec)):
        found.append(f"vm(user={spec['user']}) is no name that ssh takes here; write letters, digits, . _ - and \\.")
    memory = int(spec["memory"] or 0)
    if spec["os"] == "windows" and memory < _LEAST_WINDOWS_BYTES:
        found.append(
            f"vm(memory={format_size(memory)}) is too little for Windows, which takes 2G and more; write memory=4G."
        )
    for name in ("image", "key"):
        if not str(spec[name] or "").startswith("/"):
            found.append(f"vm(image=) needs {name}=/PATH, from the root; write it.")
    if spec["engine"] == "libvirt":
        found.append("A guest from an image of your own is started by QEMU itself; leave engine= out.")
    if spec["beside"] or spec["nested"]:
        found.append("A guest from an image of your own cannot be started in a lab yet; take --on local.")
    if "qemu-img" not in facts.tools:
        found.append("The program qemu-img is not installed; install the Debian package qemu-utils.")
    return found


def provided(spec: Call, below: Provides, place: Place, serial: str) -> Provides:
    windows = spec["os"] == "windows"
    disk = _WINDOWS_DISK if windows else f"/dev/disk/by-id/{_BY_ID[str(spec['bus'])]}{serial}"
    inside = ("sh", "-c", _ENTER, "sh", place.dir, shlex.join(ssh(spec, place)), _user(spec))
    pid_file = f"{place.dir}/pid"
    return Provides(Kind.GUEST, disk, below.size_bytes, inside=inside, pid_file=pid_file)


# How udev names a disk by its serial number.
_BY_ID = {
    "virtio-blk": "virtio-",
    "virtio-scsi": "scsi-0QEMU_QEMU_HARDDISK_",
    "sata": "ata-QEMU_HARDDISK_",
    "nvme": "nvme-QEMU_NVMe_Ctrl_",
}


def ssh(spec: Call, place: Place) -> list[str]:
    """Its host key is taken when it is first seen: the port leads to a guest that we started."""
    options = (
        *("BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=accept-new"),
        # A guest that hangs does not keep a trial waiting until its time is up.
        *("ServerAliveInterval=15", "ServerAliveCountMax=4"),
        *(f"UserKnownHostsFile={place.dir}/known_hosts", "GlobalKnownHostsFile=/dev/null", "LogLevel=ERROR"),
    )
    return ["ssh", "-F", "none", "-i", str(spec["key"]), *(word for each in options for word in ("-o", each))]


def overlay(spec: Call, place: Place) -> Step:
    """What the guest writes to its system. It goes with the directory of the visit."""
    make = sh(_OVERLAY, str(spec["image"]), str(spec["key"]), _system(place))
    return Step(make, None, "make the layer over the user's image")


def about(spec: Call, place: Place, port: int) -> list[str]:
    """Arguments of `START`, but for QEMU's command line."""
    return [place.dir, str(port), shlex.join(ssh(spec, place)), _user(spec)]


def program(spec: Call, guest: Guest, place: Place, disk: Sequence[str]) -> list[str]:
    """QEMU's command line, but for what `START` adds. `disk`: what is of the disk below."""
    memory = int(spec["memory"] or 0) // _MIB
    line = ["qemu-system-x86_64", "-name", guest.name, "-nodefaults", "-no-user-config", "-display", "none"]
    accel = guest.image.accel
    cpu = _HYPER_V if spec["os"] == "windows" and accel == "kvm" else CPU[accel]
    line += ["-no-reboot", "-machine", str(spec["machine"]), "-accel", ACCELERATOR[accel], "-cpu", cpu]
    line += ["-smp", str(spec["cpus"]), "-m", f"size={memory}M"]
    # What every system has a driver for.
    line += ["-blockdev", f"driver=qcow2,node-name=system,file.driver=file,file.filename={_escaped(_system(place))}"]
    line += ["-device", "ich9-ahci,id=system-bus", "-device", "ide-hd,bus=system-bus.0,drive=system,bootindex=0"]
    line += ["-device", "e1000e,netdev=net,romfile="]
    if spec["os"] == "linux":
        line += ["-device", "pvpanic-pci"]  # by which its kernel says that it panics, which ends QEMU
    if spec["os"] == "windows":
        line += ["-rtc", "base=localtime"]
    return [*line, *disk]


def ready(command: Command) -> Command:
    """Another system than the lab's may take long to boot."""
    return Command(command.argv, 1800.0, command.stdin)


def _user(spec: Call) -> str:
    return str(spec["user"] or ("Administrator" if spec["os"] == "windows" else "root"))


def _system(place: Place) -> str:
    return f"{place.dir}/system.qcow2"


def _escaped(path: str) -> str:
    return path.replace(",", ",,")
