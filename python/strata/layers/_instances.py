"""LXD and Incus as layers: one daemon, one storage pool, and a client with the verbs of instances beside the others:

    client copy NAME NEW, snapshot NAME SNAPSHOT, restore NAME SNAPSHOT, publish NAME IMAGE, export NAME FILE,
    client import FILE NAME

Instances carry the name of the place in front of their own: control groups are named after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.layers._engine import (
    ROOM,
    TOOLS,
    Instance,
    Root,
    begin,
    differences,
    inspect,
    instance,
    needs_filesystem,
    other_root,
    prove,
    provides,
    start,
    text,
    tools_for,
    version_reasons,
)
from strata.layers._steps import sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

# Each of these would lead to the user's own daemon.
_USERS = "LXD_SOCKET LXD_PROJECT LXC_REMOTE LXD_GLOBAL_CONF INCUS_SOCKET INCUS_PROJECT INCUS_REMOTE INCUS_GLOBAL_CONF"

# $1 short way to the place, $2 the engine's directory on the stack, $3 name of the place.
_CONFIGURE = """\
mkdir -- "$1/state" && ln -s -- "$2" "$1/storage" && echo "$3" >"$1/group\""""

# $1 short way to the place, $2 the engine's directory on the stack, $3 backend, $4 the ZFS pool below, $5 name of the
# place, $6 client program, $7 and $8 names of its variables.
_POOL = """\
way=$1 root=$2 backend=$3 zpool=$4 name=$5 program=$6
unset USERS
export "$7=$way/state" "$8=$way/config"
case $backend in
  dir) source=$root/pool; mkdir -- "$source" || exit 1 ;;
  zfs) source=$zpool/$name ;;
  *) source=$root/pool ;;
esac
"$program" storage create default "$backend" "source=$source" >/dev/null || exit 1
"$program" profile device add default root disk pool=default path=/ >/dev/null"""

_DESTROY = 'if zfs list -H -o name "$1" >/dev/null 2>&1; then zfs destroy -r -- "$1"; fi'

# The command of a container is its first process. LXC splits it at spaces, so no word may have one.
_CLIENT = (
    r"""#!/bin/sh
# The PROGRAM of one visit of Strata, and no other.
d=${0%/*}
unset USERS
export DIR_VARIABLE="$d/state" CONF_VARIABLE="$d/config"
read -r group <"$d/group"
verb=$1; shift
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
    while [ "$1" != -- ]; do volumes="$volumes $1"; shift; done
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
  start) exec PROGRAM start "$group-$1" --quiet ;;
  stop) exec PROGRAM stop "$group-$1" --timeout 10 --quiet ;;
  remove) exec PROGRAM delete "$group-$1" --force --quiet ;;
  exec) name=$1; shift; exec PROGRAM exec "$group-$name" --mode non-interactive -- "$@" ;;
  pid) PROGRAM info "$group-$1" | awk '$1 == "PID:" { print $2 }' ;;
  count) PROGRAM list --format csv --columns s | grep -c '^RUNNING$' || [ $? = 1 ] ;;
  reset)
    for name in $(PROGRAM list --format csv --columns n); do PROGRAM delete "$name" --force || exit 1; done
    for image in $(PROGRAM image list --format csv --columns f); do PROGRAM image delete "$image" || exit 1; done ;;
  copy) exec PROGRAM copy "$group-$1" "$group-$2" --quiet ;;
  snapshot) exec PROGRAM SNAPSHOT "$group-$1" "$2" --quiet ;;
  restore) exec PROGRAM RESTORE "$group-$1" "$2" --quiet ;;
  publish) exec PROGRAM publish "$group-$1" --alias "$2" --quiet "strata.number=$2" ;;
  export) exec PROGRAM export "$group-$1" "$2" --quiet ;;
  import) exec PROGRAM import "$1" "$group-$2" --quiet ;;
  info) exec PROGRAM query /1.0/storage-pools/default ;;
  room)
"""
    + ROOM
    + r"""    ;;
  *) echo "this client does not know '$verb'" >&2; exit 64 ;;
esac
"""
)

BACKENDS = ("dir", "btrfs", "zfs")


@dataclass(frozen=True, slots=True)
class Kin:
    """What differs between the two."""

    name: str  # of the layer
    title: str
    program: str  # the client
    daemon: str
    variables: tuple[str, str]  # of the daemon's directory and of the client's configuration
    snapshot: str
    restore: str
    packages: tuple[tuple[str, str], ...]
    oldest: tuple[int, int]


def info(kin: Kin) -> LayerInfo:
    return LayerInfo(
        name=kin.name,
        about=f"A private {kin.title} with one storage pool on what is below.",
        params=(
            Param("backend", ParamType.CHOICE, "how instances and images are kept", default="dir",
                  choices=BACKENDS, positional=True),
        ),
        accepts=frozenset({Kind.DIRECTORY}),
        provides=Kind.ENGINE,
        tools={**dict(kin.packages), "zfs": "zfsutils-linux", "btrfs": "btrfs-progs", **TOOLS},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstancesDriver:
    """A LayerDriver of LXD or Incus."""

    kin: Kin
    info: LayerInfo

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        backend = str(spec["backend"])
        needed = tools_for(self.info.tools, {name: backend == name for name in ("zfs", "btrfs")})
        reasons = standard_reasons(facts, needed)
        return reasons + version_reasons(self.kin.title, facts.tools.get(self.kin.daemon), self.kin.oldest)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if spec["backend"] in ("btrfs", "zfs"):
            needs_filesystem(self.kin.name, str(spec["backend"]), below[0], str(spec["backend"]))
        return provides(self._made(below, place), below[0])

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        made, kin, backend = self._made(below, place), self.kin, str(spec["backend"])
        client = _CLIENT.replace("PROGRAM", kin.program).replace("SNAPSHOT", kin.snapshot)
        client = client.replace("RESTORE", kin.restore).replace("DIR_VARIABLE", kin.variables[0])
        client = client.replace("CONF_VARIABLE", kin.variables[1]).replace("USERS", _USERS)
        zpool = below[0].name or ""
        words = (made.way, made.root, backend, zpool, place.name, kin.program, *kin.variables)
        destroy = sh(_DESTROY, f"{zpool}/{place.name}") if backend == "zfs" else None
        unset = [f"--unset={name}" for name in _USERS.split()]
        at_home = ("env", *unset, f"{kin.variables[0]}={made.way}/state")
        daemon = (*at_home, kin.daemon, "--group", "root", "--logfile", f"{made.way}/daemon.log")
        ask = f'unset {_USERS}; {kin.variables[0]}="$1/state" {kin.program} query /1.0'
        # The data set goes when nothing of the engine runs or is mounted any more.
        first, *rest = begin(made, client.replace("DIR_VARIABLE", kin.variables[0]))
        held = [Step(sh("true"), destroy, "note the data set of the pool")] if destroy else []
        return [
            first,
            *held,
            *rest,
            Step(sh(_CONFIGURE, made.way, made.root, place.name), None, f"write the configuration of this {kin.name}"),
            start(made, kin.daemon, ask, *daemon),
            Step(sh(_POOL.replace("USERS", _USERS), *words), None, "make the storage pool"),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(self._made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        made, backend = self._made(below, place), str(spec["backend"])

        def judge(found: Mapping[str, object], root: Root) -> list[str]:
            wrong = []
            if text(found, "driver") != backend:
                keeps = text(found, "driver") or "nothing known"
                wrong.append(f"{self.kin.name}: the engine keeps instances by {keeps} instead of {backend}.")
            if not _shows(backend, self.kin.name, place, root):
                wrong.append(other_root(made, root, backend))
            return wrong

        return differences(made, below[0], seen, judge)

    def _made(self, below: Sequence[Provides], place: Place) -> Instance:
        return instance(self.kin.name, below[0], place, (self.kin.daemon, self.kin.program))


def _shows(backend: str, name: str, place: Place, root: Root) -> bool:
    """Whether this is how the kernel shows the root of a container of that backend."""
    if backend == "zfs":
        return root.fstype == "zfs" and f"/{place.name}/containers/" in root.source
    kept = f"/{name}/pool/containers/" in root.inside
    return kept and (root.fstype == "btrfs" if backend == "btrfs" else root.fstype != "overlay")
