"""QEMU's block layer without a machine: an image or a device as a guest would see it, as a block device of this host.

What `cache` means is said by three switches: O_DIRECT below (cache.direct), a flush after every write (writethrough),
and no flush ever (cache.no-flush). Sources: qemu-storage-daemon(1), qemu-nbd(8), nbdfuse(1) and its fuse/operations.c.
Why not QEMU's own FUSE export: docs/decisions/0014.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from strata.layers import _limits, _qcow2_snapshots
from strata.layers._daemon import FIND, SHOWN, UNMARKED, direct_differences, end
from strata.layers._device import fields, first, io_uring_reasons, module_reasons
from strata.layers._driver import Driver
from strata.layers._loop import ATTACH_WITHOUT_DISCARDS, DETACH_AND_REMOVE, SHOW
from strata.layers._steps import output, run, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

DIRECT = frozenset({"none", "directsync"})  # bypassing the page cache of this host
THROUGH = frozenset({"writethrough", "directsync"})  # a write is on the disk when it is acknowledged

INFO = LayerInfo(
    name="qsd",
    about="An image or device behind QEMU's block layer (qemu-storage-daemon), without a guest.",
    params=(
        Param(
            "cache",
            ParamType.CHOICE,
            "as of a guest's disk: bypassing the page cache (none, directsync) or through it; with a flush after every "
            "write (writethrough, directsync), when it is asked for, or never (unsafe)",
            default="writeback",
            choices=("none", "writeback", "writethrough", "directsync", "unsafe"),
        ),
        Param("aio", ParamType.CHOICE, "asynchronous I/O interface", default="threads",
              choices=("threads", "native", "io_uring")),
        Param("export", ParamType.CHOICE, "how this host reaches it: by nbdfuse and a loop device, or the kernel's NBD",
              default="fuse", choices=("fuse", "nbd")),
        Param("discard", ParamType.CHOICE, "what becomes of discards: nothing, or the image gives up their room",
              default="ignore", choices=("ignore", "unmap")),
        Param("detect_zeroes", ParamType.CHOICE, "look for zeros in what is written, and note or unmap them",
              default="off", choices=("off", "on", "unmap")),
        *_limits.params("QEMU"),
    ),
    accepts=frozenset({Kind.BLOCK, Kind.IMAGE}),
    provides=Kind.BLOCK,
    deployed=False,
    offers=frozenset({"snapshot"}),
    tools={
        **dict.fromkeys(("qemu-storage-daemon", "qemu-nbd"), "qemu-utils"), "nbdfuse": "libnbd-bin",
        "modprobe": "kmod", "losetup": "mount", "umount": "mount", "env": "coreutils", "grep": "grep",
        "perl": "perl-base",
        **dict.fromkeys(("blockdev", "findmnt"), "util-linux"),
    },
)  # fmt: skip

_LOAD_FUSE = "[ -c /dev/fuse ] || modprobe fuse"

_MAKE_FILE = ': > "$1"'

# $1 file. A daemon that was killed leaves its mount over it, which answers no stat.
_REMOVE_FILE = 'if findmnt --noheadings --mountpoint "$1" >/dev/null; then umount -- "$1" || exit 1; fi; rm -f -- "$1"'

# $1 directory, the rest: a program. A socket's path must be short, so it is named from there.
_START = 'cd -- "$1" && shift && exec "$@"'

# $1 directory, $2 file that nbdfuse mounts over, the rest: nbdfuse. That file is empty until then; some versions write
# their process number before.
_MOUNT = """\
cd -- "$1" && file=$2 && shift 2 || exit 1
setsid "$@" </dev/null >log 2>&1 &
for pause in 0 0.05 0.1 0.2 0.4 0.8 1 2 4 8 16; do
  sleep "$pause"
  if [ -s "$file" ]; then exit 0; fi
  if ! kill -0 "$!" 2>/dev/null; then break; fi
done
cat log >&2
exit 1"""

# $1 link, the rest: qemu-nbd and its arguments. Another process may take the free device first; then try the next one.
_ATTACH_NBD = """\
link=$1; shift
[ -d /sys/module/nbd ] || modprobe nbd || exit 1
for device in /sys/block/nbd*; do
  [ -e "$device/pid" ] && continue
  if said=$("$@" "--connect=/dev/${device##*/}" 2>&1); then ln -s -- "/dev/${device##*/}" "$link"; exit; fi
done
echo "no device of the kernel's NBD could be had: ${said:-all are in use}" >&2
exit 1"""

# $1 option of the file of the process number and `=`, $2 that file, $3 what is served, $4 link to the device.
_SHOW_DAEMON = (
    FIND
    + SHOWN
    + """\
for process in $(found "$1$2"); do shown "$process" "$3"; done
device=$(readlink -f -- "$4")
echo "device=$device"
echo "discards=$(cat "/sys/block/${device##*/}/queue/discard_max_bytes")"
# The kernel names the thread that waits in it.
thread=$(cat "/sys/block/${device##*/}/pid" 2>/dev/null)
[ -z "$thread" ] || sed -n 's/^Tgid:[^0-9]*/server=/p' "/proc/$thread/status"
"""
)


class QsdDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        fuse = spec["export"] == "fuse"
        reasons = standard_reasons(facts, self.info.tools, "fuse" if fuse else None)
        reasons += [] if fuse else module_reasons("qsd(export=nbd)", facts, ["nbd"])
        if spec["aio"] == "native" and spec["cache"] not in DIRECT:
            reasons.append(
                f"QEMU refuses aio=native with cache={spec['cache']}, which goes through the page cache; "
                "take cache=none or cache=directsync, or another aio."
            )
        reasons += io_uring_reasons(spec, facts)
        if fuse and spec["discard"] == "unmap":
            reasons.append(
                "nbdfuse makes discards of writes of zeros, which then need not read as zeros; "
                "take export=nbd, or leave out discard=unmap."
            )
        if not fuse and _limits.asked(spec):
            reasons.append("qemu-nbd holds no limit; take export=fuse, or leave out the limits.")
        if spec["detect_zeroes"] == "unmap" and spec["discard"] != "unmap":
            reasons.append("QEMU refuses detect_zeroes=unmap without discard=unmap; add it, or take detect_zeroes=on.")
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        given = Provides(Kind.BLOCK, _device(place), below[0].size_bytes, ours=below[0].ours)
        if not _has_monitor(spec, below[0]):
            return given
        snapshots = _qcow2_snapshots.holding(place, _monitor_socket(place), below[0].path)
        can = {"snapshot": partial(_qcow2_snapshots.numbered, place, _monitor_socket(place))}
        return replace(given, snapshots=snapshots, can=can)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        option, number, device = _number_option(spec), _number_file(place), _device(place)
        start = (*UNMARKED, *_arguments(spec, below[0], place))
        if spec["export"] == "nbd":
            attach = sh(_ATTACH_NBD, device, *start, timeout_s=120.0)
            return [Step(attach, end(option, number, device), "attach it with qemu-nbd")]
        export, mounter = _export(place), _mounter_file(place)
        serve = sh(_START, place.dir, *start, timeout_s=120.0)
        mount = sh(_MOUNT, place.dir, export, *UNMARKED, *_mounter(place), timeout_s=120.0)
        # QEMU leaves the socket of its monitor behind.
        sockets = [_socket(place), *([_monitor_socket(place)] if _has_monitor(spec, below[0]) else [])]
        return [
            Step(sh(_LOAD_FUSE), None, "load fuse"),
            Step(sh(_MAKE_FILE, export), sh(_REMOVE_FILE, export), "make the file to mount it over"),
            Step(serve, end(option, number, *(f"{place.dir}/{each}" for each in sockets)), "start qemu-storage-daemon"),
            Step(mount, end(option, mounter, f"{place.dir}/log"), "mount it with nbdfuse"),
            # nbdfuse makes discards of writes of zeros too, which then need not read as zeros. A loop device that takes
            # no discards is written zeros; and where QEMU ignores discards, as it does by itself, nothing is lost.
            Step(
                sh(ATTACH_WITHOUT_DISCARDS, export, device),
                sh(DETACH_AND_REMOVE, export, device),
                "attach a loop device that takes no discards",
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        device = _device(place)
        return [
            sh(_SHOW_DAEMON, _number_option(spec) + "=", _number_file(place), below[0].path, device),
            run("blockdev", "--getsize64", device),
            *([sh(SHOW, device), run("readlink", "-m", "--", _export(place))] if spec["export"] == "fuse" else []),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        if output(seen, 0) is None:
            return [f"qsd: the program that serves {below[0].path} cannot be looked at: {said(seen, 0)}."]
        state = fields(seen, 0)
        processes = state.get("process", [])
        if len(processes) != 1:
            return [f"qsd: {len(processes)} programs serve {below[0].path} instead of one; it may have been killed."]
        wrong = []
        asked = _arguments(spec, below[0], place)
        if tuple(state.get("argument", ()))[: len(asked)] != asked:
            wrong.append(
                f"qsd: process {processes[0]} was not started as requested: {' '.join(state.get('argument', ()))}."
            )
        asked_cache = f"qsd(cache={spec['cache']})"
        wrong += direct_differences(asked_cache, below[0].path, direct=spec["cache"] in DIRECT, state=state)
        size = output(seen, 1)
        if size is None or size.stdout.strip() != str(below[0].size_bytes):
            now = f"has {size.stdout.strip()} bytes instead of {below[0].size_bytes}" if size else said(seen, 1)
            wrong.append(f"qsd: the device over {below[0].path}: {now}.")
        if spec["export"] == "nbd":
            if first(state, "server") != processes[0]:
                wrong.append(f"qsd: {first(state, 'device')} is not served by process {processes[0]}.")
            return wrong
        if first(state, "discards") != "0":
            wrong.append(f"qsd: {first(state, 'device')} takes discards, and must not over FUSE.")
        return wrong + _loop_differences(seen)


def _device(place: Place) -> str:
    return f"{place.dir}/device"


def _export(place: Place) -> str:
    return f"{place.dir}/export"


def _number_file(place: Place) -> str:
    return f"{place.dir}/process"


def _mounter_file(place: Place) -> str:
    return f"{place.dir}/mounter"


def _mounter(place: Place) -> tuple[str, ...]:
    # On one connection it has hardly more than one request in flight; beyond 16, libfuse's ten threads are the limit.
    return (
        "nbdfuse",
        f"--pidfile={_mounter_file(place)}",
        "--connections=16",
        _export(place),
        "--unix",
        _socket(place),
    )


def _socket(place: Place) -> str:
    return f"{place.name}.sock"


def _monitor_socket(place: Place) -> str:
    return f"{place.name}.qmp"


def _number_option(spec: Call) -> str:
    return "--pidfile" if spec["export"] == "fuse" else "--pid-file"


def _arguments(spec: Call, below: Provides, place: Place) -> tuple[str, ...]:
    """The program that serves it, with its arguments; to qemu-nbd the device is added."""
    cache, number = str(spec["cache"]), f"{_number_option(spec)}={_number_file(place)}"
    image = "raw" if below.kind is Kind.BLOCK else str(below.name)
    if spec["export"] == "nbd":
        return (
            *("qemu-nbd", "--fork", number, f"--format={image}", f"--cache={cache}", f"--aio={spec['aio']}"),
            *(f"--discard={spec['discard']}", f"--detect-zeroes={spec['detect_zeroes']}", below.path),
        )
    common = {
        "cache": {"direct": cache in DIRECT, "no-flush": cache == "unsafe"},
        "discard": spec["discard"],
    }
    driver = "host_device" if below.kind is Kind.BLOCK else "file"
    nodes: list[Mapping[str, object]] = [
        {"node-name": "file", "driver": driver, "filename": below.path, "aio": spec["aio"], **common},
        {"node-name": "image", "driver": image, "file": "file", "detect-zeroes": spec["detect_zeroes"], **common},
    ]
    group: tuple[str, ...] = ()
    top = "image"
    if (throttled := _limits.throttle_group(spec)) is not None:
        top = "limited"
        group = ("--object", throttled)
        nodes.append({"node-name": top, "driver": "throttle", "throttle-group": "limit", "file": "image", **common})
    export = {"id": "export", "type": "nbd", "node-name": top, "name": "", "writable": True}
    return (
        *("qemu-storage-daemon", "--daemonize", number),
        *group,
        *(word for node in nodes for word in ("--blockdev", json.dumps(node))),
        *(_monitor(place) if _has_monitor(spec, below) else ()),
        *("--nbd-server", f"addr.type=unix,addr.path={_socket(place)}"),
        *("--export", json.dumps({**export, "writethrough": cache in THROUGH})),
    )


def _has_monitor(spec: Call, below: Provides) -> bool:
    """Whether it can be told to take snapshots in the image. QEMU takes none of a node that has another above it, as
    one that limits has."""
    qcow2 = below.kind is Kind.IMAGE and below.name == "qcow2"
    return qcow2 and spec["export"] == "fuse" and _limits.throttle_group(spec) is None


def _monitor(place: Place) -> tuple[str, ...]:
    socket = f"socket,id=monitor,path={_monitor_socket(place)},server=on,wait=off"
    return ("--chardev", socket, "--monitor", "chardev=monitor")


def _loop_differences(seen: Sequence[Completed]) -> list[str]:
    listed, export = output(seen, 2), output(seen, 3)
    try:
        loop = json.loads(listed.stdout if listed else "")["loopdevices"][0]
        name, file, direct = loop["name"], loop["back-file"], loop["dio"]
    except (ValueError, LookupError, TypeError):
        return [f"qsd: there is no loop device: {'losetup does not name it' if listed else said(seen, 2)}."]
    wrong = []
    if export is None or file != export.stdout.rstrip("\n"):
        wrong.append(f"qsd: {name} is backed by {file} instead of what the daemon exports.")
    if direct is not True:
        wrong.append(f"qsd: {name} does not use direct I/O, so the page cache of this host would serve it.")
    return wrong


DRIVER = QsdDriver()
