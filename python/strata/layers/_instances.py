"""LXD and Incus as layers: one daemon, one storage pool, and a client with the verbs of instances beside the others:

    client copy NAME NEW, snapshot NAME SNAPSHOT, restore NAME SNAPSHOT, publish NAME IMAGE,
    client export NAME FILE [OPTION]..., import FILE NAME
    client unprivileged NAME                       before its start: in a user namespace, as the daemon itself would

Containers are privileged unless that is said, as those of the other engines are.

Instances carry the name of the place in front of their own: control groups are named after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.layers import _instance_pools
from strata.layers._daemon import UNMARKED
from strata.layers._device import module_reasons
from strata.layers._driver import Driver
from strata.layers._engine import (
    TOOLS,
    Instance,
    begin,
    differences,
    ending,
    inspect,
    instance,
    prove,
    provides,
    root_reasons,
    start,
    tools_for,
    version_reasons,
)
from strata.layers._steps import sh, standard_reasons
from strata.layers._thin_pool import ROOM as POOL_ROOM
from strata.layers._throttle import AT_START, THROTTLE
from strata.model import (
    Call,
    Command,
    Completed,
    EngineSupport,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

# Each of these would lead to the user's own daemon.
_USERS = "LXD_SOCKET LXD_PROJECT LXC_REMOTE LXD_GLOBAL_CONF INCUS_SOCKET INCUS_PROJECT INCUS_REMOTE INCUS_GLOBAL_CONF"

_HOMES = ("state", "config", "cache")
"""Directories in the place: of the daemon, of the client's configuration, and of what the client remembers."""

# $1 short way to the place, $2 the engine's directory on the stack, $3 name of the place, $4 thin pool or "", $5 bytes
# of a container's root or "".
_CONFIGURE = """\
mkdir -- "$1/state" && ln -s -- "$2" "$1/storage" && echo "$3" >"$1/group" && echo "$4" >"$1/pool" &&
printf %s "$5" >"$1/base\""""

# The command of a container is its first process. LXC splits it at spaces, so no word may have one.
_CLIENT = (
    r"""#!/bin/sh
# The PROGRAM of one visit of Strata, and no other.
d=${0%/*}
unset USERS
export HOMES
read -r group <"$d/group"; read -r pool <"$d/pool"
verb=$1; shift
"""
    + THROTTLE
    + AT_START
    + r"""
case $verb in
  load)
    work=$d/load-$2; mkdir -- "$work" || exit 1
    printf 'architecture: %s\ncreation_date: 1\nproperties: {}\n' "$(uname -m)" >"$work/metadata.yaml"
    tar --create --file "$work/meta.tar" --directory "$work" metadata.yaml || exit 1
    PROGRAM image import "$work/meta.tar" "$1" --alias "$2" --quiet; status=$?
    rm -rf -- "$work"; exit $status ;;
  build) echo "PROGRAM builds no images: measure building with podman or docker" >&2; exit 65 ;;
  forget) exec PROGRAM image delete "$1" ;;
  create)
    image=$1 name=$group-$2; shift 2
    volumes=
    while [ "$1" != -- ]; do
      case $1 in limit:*) keep_limit "$name" "$1" || exit 1 ;; *) volumes="$volumes $1" ;; esac
      shift
    done
    shift
    PROGRAM init "$image" "$name" --quiet --config security.privileged=true \
      --config "raw.lxc=lxc.init.cmd = $*
lxc.signal.halt = SIGTERM" </dev/null || exit 1
    number=0
    for volume in $volumes; do
      number=$((number + 1)) to=${volume#*:} how=false
      case $to in *:ro) to=${to%:ro} how=true ;; esac
      PROGRAM config device add "$name" "volume$number" disk "source=${volume%%:*}" "path=$to" "readonly=$how" \
        --quiet || exit 1
    done ;;
  unprivileged) exec PROGRAM config set "$group-$1" security.privileged=false ;;
  start)
    # What it says itself is to look into this log.
    PROGRAM start "$group-$1" --quiet || { PROGRAM info "$group-$1" --show-log | tail -n 3 >&2; exit 1; }
    if has_limits "$group-$1"; then set_limits "$group-$1" "$("$d/client" pid "$1")"; fi ;;
  # One that does not stop in time is a failure; an emulated processor may need more than ten seconds for one that does.
  stop) exec PROGRAM stop "$group-$1" --timeout 60 --quiet ;;
  remove)
    forget_limits "$group-$1"
    exec PROGRAM delete "$group-$1" --force --quiet ;;
  exec) name=$1; shift; exec PROGRAM exec "$group-$name" --mode non-interactive -- "$@" ;;
  pid) PROGRAM info "$group-$1" | awk '$1 == "PID:" { print $2 }' ;;
  count) PROGRAM list --format csv --columns s | grep -c '^RUNNING$' || [ $? = 1 ] ;;
  reset)
    forget_limits
    for name in $(PROGRAM list --format csv --columns n); do PROGRAM delete "$name" --force || exit 1; done
    for image in $(PROGRAM image list --format csv --columns f); do PROGRAM image delete "$image" || exit 1; done ;;
  copy) exec PROGRAM copy "$group-$1" "$group-$2" --quiet ;;
  snapshot) exec PROGRAM SNAPSHOT "$group-$1" "$2" --quiet ;;
  restore) exec PROGRAM RESTORE "$group-$1" "$2" --quiet ;;
  publish) exec PROGRAM publish "$group-$1" --alias "$2" --quiet "strata.number=$2" ;;
  export) name=$1; shift; exec PROGRAM export "$group-$name" "$@" --quiet ;;
  import) exec PROGRAM import "$1" "$group-$2" --quiet ;;
  info) exec PROGRAM query /1.0/storage-pools/default ;;
"""
    + ending(POOL_ROOM)
)


# Programs that not every backend needs.
_NEEDED_BY = {
    "zfs": {"zfs": "zfsutils-linux"},
    "btrfs": {"btrfs": "btrfs-progs"},
    "lvm": {
        **dict.fromkeys(("lvs", "lvcreate", "lvremove", "vgchange"), "lvm2"),
        "dmsetup": "dmsetup",
        "lsblk": "util-linux",
        "mkfs.ext4": "e2fsprogs",
        "mkfs.xfs": "xfsprogs",
    },
}
_NEEDED_BY_NAME = {name: package for tools in _NEEDED_BY.values() for name, package in tools.items()}


@dataclass(frozen=True, slots=True)
class Kin:
    """What differs between the two."""

    name: str  # of the layer
    title: str
    program: str  # the client
    daemon: str
    daemon_program: str  # its name or, where it is in no PATH, its path
    variables: tuple[str, ...]  # of the directories in _HOMES
    snapshot: str
    restore: str
    packages: tuple[tuple[str, str], ...]
    oldest: tuple[int, int]


def _homes(kin: Kin, place: str) -> str:
    """The variables of the client, as words of the shell: without them it reads and writes those of the user."""
    return " ".join(f'{name}="{place}/{home}"' for name, home in zip(kin.variables, _HOMES, strict=False))


def info(kin: Kin) -> LayerInfo:
    return LayerInfo(
        name=kin.name,
        about=f"A private {kin.title} with one storage pool on what is below.",
        params=(
            Param("backend", ParamType.CHOICE, "how instances and images are kept", default="dir",
                  choices=_instance_pools.BACKENDS, positional=True),
            Param("base_size", ParamType.SIZE, "how large a container's root may be; 10G unless said (lvm)",
                  minimum=1 << 28),
            Param("fs", ParamType.CHOICE, "file system of a container's root, ext4 unless said (lvm)",
                  choices=_instance_pools.FILESYSTEMS),
        ),
        accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
        provides=Kind.ENGINE,
        engine=EngineSupport(lacks={"build": "it builds no images; measure building with podman or docker"}),
        tools={**dict(kin.packages), **_NEEDED_BY_NAME, **TOOLS},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstancesDriver(Driver):
    """A LayerDriver of LXD or Incus."""

    kin: Kin
    info: LayerInfo

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        backend, name = str(spec["backend"]), self.kin.name
        used = {tool: tool in _NEEDED_BY.get(backend, ()) for tool in _NEEDED_BY_NAME}
        used |= {f"mkfs.{each}": backend == "lvm" and each == (spec["fs"] or "ext4") for each in ("ext4", "xfs")}
        reasons = standard_reasons(facts, tools_for(self.info.tools, used))
        reasons += version_reasons(self.kin.title, facts.tools.get(self.kin.daemon_program), self.kin.oldest)
        if backend == "lvm":
            reasons += module_reasons(f"{name}(lvm)", facts, ("dm_thin_pool",))
        elif spec["fs"] is not None:
            reasons.append(
                f"{name}({backend}) has no file system of its own for a container; leave out fs, or choose lvm."
            )
        return reasons + root_reasons(spec)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        _instance_pools.check(self.kin.name, spec, below[0])
        return provides(self._made(below, place), below[0], str(spec["backend"]))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        _instance_pools.check(self.kin.name, spec, below[0])
        made, kin, pool = self._made(below, place), self.kin, self._pool(spec, below, place)
        client = _CLIENT.replace("PROGRAM", kin.program).replace("SNAPSHOT", kin.snapshot)
        client = client.replace("RESTORE", kin.restore).replace("USERS", _USERS)
        client = client.replace("HOMES", _homes(kin, "$d"))
        unset = [f"--unset={name}" for name in _USERS.split()]
        at_home = (*UNMARKED, *unset, f"{kin.variables[0]}={made.way}/state", *pool.environment)
        daemon = (*at_home, kin.daemon_program, "--group", "root", "--logfile", f"{made.way}/daemon.log")
        ask = f"unset {_USERS}; {_homes(kin, '$1')} {kin.program} query /1.0"
        first, *rest = begin(made, client)
        size = "" if spec["base_size"] is None else str(spec["base_size"])
        configure = sh(_CONFIGURE, made.way, made.root, place.name, made.pool, size)
        return [
            first,
            *pool.prepare(),
            *rest,
            Step(configure, None, f"write the configuration of this {kin.name}"),
            start(made, kin.daemon, ask, *daemon),
            pool.make(kin.program, f"unset {_USERS}; export {_homes(kin, made.way)}"),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(self._made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        pool = self._pool(spec, below, place)
        return differences(pool.made, below[0], seen, pool.differences)

    def _made(self, below: Sequence[Provides], place: Place) -> Instance:
        name, programs = self.kin.name, (self.kin.daemon, self.kin.program)
        if below[0].kind is Kind.BLOCK:
            # Instances and images are volumes of the pool; the daemon's own files are kept beside.
            return Instance(name, place, f"{place.dir}/{name}", programs, below[0].thin_pool or "")
        return instance(name, below[0], place, programs)

    def _pool(self, spec: Call, below: Sequence[Provides], place: Place) -> _instance_pools.Pool:
        size = None if spec["base_size"] is None else int(spec["base_size"])
        filesystem = None if spec["fs"] is None else str(spec["fs"])
        made = self._made(below, place)
        return _instance_pools.Pool(str(spec["backend"]), made, below[0], place, size, filesystem)
