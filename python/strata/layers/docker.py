"""Docker as a layer: a dockerd of its own with a containerd of its own, no network, its data on the stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.layers._containerd import CONFIGURE, PROGRAMS, start_containerd
from strata.layers._engine import (
    ARRANGE,
    ROOM,
    TOOLS,
    Instance,
    Root,
    begin,
    differences,
    inspect,
    instance,
    needs_filesystem,
    no_filesystem,
    other_root,
    prove,
    provides,
    start,
    text,
    tools_for,
    version_reasons,
)
from strata.layers._steps import sh, standard_reasons
from strata.layers._throttle import THROTTLE, VERBS
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

DRIVERS = ("overlay2", "fuse-overlayfs", "btrfs", "zfs", "vfs", "devicemapper", "aufs", "overlay")

_GONE = {
    "aufs": "aufs was never part of Linux: it would need a kernel patched with it and Docker older than 24",
    "overlay": "overlay (the first version, one lower layer by hard links) would need Docker older than 24; "
    "overlay2 took its place",
    "devicemapper": "Docker dropped devicemapper in version 25: it would need a machine with Docker 24 or older and "
    "device mapper; containerd(devmapper) took its place",
}

INFO = LayerInfo(
    name="docker",
    about="A private Docker whose images and containers lie on what is below.",
    params=(
        Param(
            "driver", ParamType.CHOICE, "how layers are kept", default="overlay2", choices=DRIVERS, positional=True
        ),
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.ENGINE,
    tools={"dockerd": "docker.io", "docker": "docker-cli (Debian 12: docker.io)", "containerd": "containerd",
           "ctr": "containerd", "runc": "runc", "prlimit": "util-linux",
           "fuse-overlayfs": "fuse-overlayfs", "zfs": "zfsutils-linux", **TOOLS},
)  # fmt: skip

# The client beside the daemon and not any other: they are of one version. $4 name.
_CONFIGURE = (
    CONFIGURE
    + r"""
# Up to version 23 it would write a key of its own to /etc/docker.
case $(dockerd --version) in
  *" version 19."*|*" version 20."*|*" version 23."*) echo "{\"deprecated-key-path\": \"$dir/key.json\"}" ;;
  *) echo '{}' ;;
esac >"$dir/daemon.json"
mkdir -- "$dir/config"
beside=$(dirname -- "$(command -v dockerd)")/../bin/docker
[ -x "$beside" ] || beside=$(command -v docker)
ln -s -- "$beside" "$dir/docker"
"""
)

# Where it may not raise any limit of a process, not even root can give a container more than it has.
_DAEMON = r"""
dir=$1 name=$2 root=$3 driver=$4; shift 4
least() {
  have=$(prlimit "--$1" --output HARD --noheadings --raw)
  if [ "$have" = unlimited ] || [ "$have" -gt "$2" ]; then have=$2; fi
  echo "$have:$have"
}
exec dockerd --config-file "$dir/daemon.json" --data-root "$root" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" \
  --host "unix://$dir/docker.sock" --containerd "$dir/containerd.sock" --storage-driver "$driver" \
  --iptables=false --ip6tables=false --ip-forward=false --bridge none --cgroup-parent "/$name" \
  --exec-opt native.cgroupdriver=cgroupfs \
  --default-ulimit "nofile=$(least nofile 1024)" --default-ulimit "nproc=$(least nproc 8192)" "$@"
"""

_CLIENT = (
    r"""#!/bin/sh
# The Docker of one visit of Strata, and no other.
d=${0%/*}
export DOCKER_HOST="unix://$d/docker.sock" DOCKER_CONFIG="$d/config" DOCKER_BUILDKIT=0
unset DOCKER_CONTEXT
verb=$1; shift
"""
    + THROTTLE
    + r"""
case $verb in
  load) exec "$d/docker" import -- "$1" "$2" ;;
  build) exec "$d/docker" build --quiet --no-cache --network none --tag "$2" -- "$1" ;;
  forget) exec "$d/docker" rmi --force "$1" ;;
  create)
"""
    + ARRANGE
    + r"""
    exec "$d/docker" create --network none --log-driver none --name "$name" "$@" ;;
  start) exec "$d/docker" start "$1" ;;
  stop) exec "$d/docker" stop --time 10 "$1" ;;
  remove) exec "$d/docker" rm --force --volumes "$1" ;;
  exec) exec "$d/docker" exec "$@" ;;
  pid) exec "$d/docker" inspect --type container --format '{{.State.Pid}}' "$1" ;;
  count) "$d/docker" ps --quiet --filter status=running | wc -l ;;
  reset)
    for name in $("$d/docker" ps --all --quiet); do "$d/docker" rm --force --volumes "$name" || exit 1; done
    "$d/docker" image prune --all --force >/dev/null || exit 1
    [ -z "$("$d/docker" images --all --quiet)" ] ;;
  # `info` alone succeeds without a daemon too
  info) "$d/docker" version >/dev/null && exec "$d/docker" info --format '{{json .}}' ;;
  room)
"""
    + ROOM
    + r"""    ;;
"""
    + VERBS
    + r"""
  *) echo "this client does not know '$verb'" >&2; exit 64 ;;
esac
"""
)

_OLDEST = (19, 3)


class DockerDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        driver = str(spec["driver"])
        if driver in _GONE:
            return [f"docker({driver}) cannot run here: {_GONE[driver]}; choose another driver."]
        reasons = standard_reasons(facts, _needed(driver))
        reasons += version_reasons("Docker", facts.tools.get("dockerd"), _OLDEST)
        if driver == "overlay2" and "overlay" not in facts.filesystems:
            reasons.append(no_filesystem("docker(overlay2)", "overlay", facts))
        if driver == "fuse-overlayfs" and "fuse" not in facts.filesystems:
            reasons.append(no_filesystem("docker(fuse-overlayfs)", "fuse", facts))
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if spec["driver"] in ("btrfs", "zfs"):
            needs_filesystem("docker", str(spec["driver"]), below[0], str(spec["driver"]))
        return provides(_made(below, place), below[0])

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        made = _made(below, place)
        configure = sh(_CONFIGURE, made.way, made.root)
        daemon = ("sh", "-c", _DAEMON, "sh", made.way, place.name, made.root, str(spec["driver"]))
        return [
            *begin(made, _CLIENT),
            Step(configure, None, "write the configuration of this docker"),
            start_containerd(made),
            start(made, "dockerd", 'DOCKER_HOST="unix://$1/docker.sock" "$1/docker" version', *daemon),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(_made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        made, driver = _made(below, place), str(spec["driver"])

        def judge(info: Mapping[str, object], root: Root) -> list[str]:
            wrong = []
            if text(info, "Driver") != driver:
                wrong.append(
                    f"docker: the engine keeps layers by {text(info, 'Driver') or 'nothing known'} instead of {driver}."
                )
            if text(info, "DockerRootDir") != made.root:
                wrong.append(f"docker: the engine keeps them in {text(info, 'DockerRootDir')}.")
            if not _shows(driver, made, root):
                wrong.append(other_root(made, root, driver))
            return wrong

        return differences(made, below[0], seen, judge)


def _made(below: Sequence[Provides], place: Place) -> Instance:
    return instance("docker", below[0], place, ("dockerd", "docker", "docker-proxy", "fuse-overlayfs", *PROGRAMS))


def _needed(driver: str) -> dict[str, str]:
    return tools_for(INFO.tools, {"fuse-overlayfs": driver == "fuse-overlayfs", "zfs": driver == "zfs"})


def _shows(driver: str, made: Instance, root: Root) -> bool:
    """Whether this is how the kernel shows the root of a container of that driver."""
    match driver:
        case "overlay2":
            return root.fstype == "overlay" and root.options.get("upperdir", "").startswith(f"{made.root}/overlay2/")
        case "fuse-overlayfs":
            return root.fstype.startswith("fuse") and "fuse-overlayfs" in f"{root.fstype} {root.source}"
        case "btrfs":
            return root.fstype == "btrfs" and "/docker/btrfs/subvolumes/" in root.inside
        case "vfs":
            return root.fstype != "overlay" and "/docker/vfs/dir/" in root.inside
        case _:
            return root.fstype == "zfs" and root.inside == "/"


DRIVER = DockerDriver()
