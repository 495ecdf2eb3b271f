"""Docker as a layer: a dockerd of its own with a containerd of its own, no network, its data on the stack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from strata.errors import BadInput
from strata.layers import _docker_pool
from strata.layers._containerd import CONFIGURE, PROGRAMS, start_containerd
from strata.layers._control_groups import control_group_reasons
from strata.layers._device import module_reasons
from strata.layers._driver import Driver
from strata.layers._engine import (
    ARRANGE,
    NO_INSTANCES,
    TOOLS,
    Instance,
    Root,
    begin,
    differences,
    ending,
    in_pool,
    inspect,
    instance,
    needs_filesystem,
    needs_quotas,
    no_filesystem,
    no_size,
    other_root,
    prove,
    provides,
    root_reasons,
    start,
    text,
    tools_for,
    version_reasons,
)
from strata.layers._steps import sh, standard_reasons
from strata.layers._thin_pool import ROOM as POOL_ROOM
from strata.layers._throttle import THROTTLE
from strata.model import (
    Call,
    Command,
    Completed,
    EngineSupport,
    Facts,
    Flaw,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

DRIVERS = ("overlay2", "fuse-overlayfs", "btrfs", "zfs", "vfs", "devicemapper", "aufs", "overlay")

_AUFS = "aufs was never part of Linux: it would need a kernel patched with it and Docker older than 24"
_NO_OVERLAY = (
    "Docker dropped overlay (the first version, one lower layer by hard links) in version 24: it would need Docker 23 "
    "or older, as a lab of Debian 12 has; overlay2 took its place"
)
_NO_DEVICEMAPPER = (
    "Docker dropped devicemapper in version 25: it would need a machine with Docker 24 or older and device mapper, as "
    "a lab of Debian 12 is (--on lab --debian 12); containerd(devmapper) took its place"
)
_GONE = {"overlay": (24, _NO_OVERLAY), "devicemapper": (25, _NO_DEVICEMAPPER)}
"""The first version that has it no more, and why."""

_DROPS_LIMITS = (
    "this version of its client takes limits and drops them (docker/cli issue 5321); leave out the limit, or "
    "take a Docker that is older than 25, as a lab of Debian 12 has, or newer than 27.1.1"
)

INFO = LayerInfo(
    name="docker",
    about="A private Docker whose images and containers lie on what is below.",
    params=(
        Param(
            "driver", ParamType.CHOICE, "how layers are kept", default="overlay2", choices=DRIVERS, positional=True
        ),
        Param(
            "base_size",
            ParamType.SIZE,
            "how large a container's root may be; overlay2 and vfs need xfs(pquota) below them, btrfs btrfs(quotas); "
            "devicemapper gives 10G unless told",
            minimum=1 << 24,
        ),
        Param(
            "fs",
            ParamType.CHOICE,
            "file system of a container's root; Docker chooses xfs where it can (devicemapper)",
            choices=("ext4", "xfs"),
        ),
    ),
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    provides=Kind.ENGINE,
    engine=EngineSupport(
        lacks=NO_INSTANCES,
        flaws=(
            Flaw("limit", "docker", (25,), (25, 0, 7), _DROPS_LIMITS),
            Flaw("limit", "docker", (26,), (27, 1, 2), _DROPS_LIMITS),
        ),
    ),
    tools={"dockerd": "docker.io", "docker": "docker-cli (Debian 12: docker.io)", "containerd": "containerd",
           "ctr": "containerd", "runc": "runc", "prlimit": "util-linux",
           "fuse-overlayfs": "fuse-overlayfs", "zfs": "zfsutils-linux", "dmsetup": "dmsetup",
           "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", **TOOLS},
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
echo "$pool" >"$dir/pool"
printf %s "$size" >"$dir/base"
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
exec env --unset=STRATA_RUN dockerd --config-file "$dir/daemon.json" \
  --data-root "$root" --exec-root "$dir/exec" --pidfile "$dir/dockerd.pid" \
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
read -r pool <"$d/pool"
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
    if [ -s "$d/base" ]; then set -- --storage-opt "size=$(cat -- "$d/base")" "$@"; fi
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
"""
    + ending(POOL_ROOM)
)

_OLDEST = (19, 3)


class DockerDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        driver = str(spec["driver"])
        gone = _gone(driver, facts.tools.get("dockerd"))
        if gone is not None:
            return [f"docker({driver}) cannot run here: {gone}; choose another driver."]
        reasons = standard_reasons(facts, _needed(spec))
        reasons += version_reasons("Docker", facts.tools.get("dockerd"), _OLDEST)
        reasons += control_group_reasons("docker", facts, "dockerd", "runc")
        if driver in ("overlay", "overlay2") and "overlay" not in facts.filesystems:
            reasons.append(no_filesystem(f"docker({driver})", "overlay", facts))
        if driver == "devicemapper":
            reasons += module_reasons("docker(devicemapper)", facts, ("dm_thin_pool",))
        elif spec["fs"] is not None:
            reasons.append(
                f"docker({driver}) has no file system of its own for a container; leave out fs, or choose devicemapper."
            )
        if driver in ("overlay", "fuse-overlayfs") and spec["base_size"] is not None:
            reasons.append(no_size("docker", driver))
        if driver == "fuse-overlayfs" and "fuse" not in facts.filesystems:
            reasons.append(no_filesystem("docker(fuse-overlayfs)", "fuse", facts))
        # devmapper's own choice (Docker 20.10, daemon/graphdriver/devmapper/deviceset.go): xfs wherever it can be made
        usual = "xfs" if driver == "devicemapper" and "mkfs.xfs" in facts.tools else None
        return reasons + root_reasons(spec, usual)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        _check(spec, below[0])
        if spec["driver"] in ("btrfs", "zfs"):
            needs_filesystem("docker", str(spec["driver"]), below[0], str(spec["driver"]))
        if spec["driver"] in ("overlay2", "vfs") and spec["base_size"] is not None:
            needs_quotas("docker", str(spec["driver"]), below[0])
        if spec["driver"] == "btrfs" and spec["base_size"] is not None:
            needs_quotas("docker", "btrfs", below[0], "btrfs(quotas)")
        return provides(_made(below, place), below[0], str(spec["driver"]))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        _check(spec, below[0])
        made, driver = _made(below, place), str(spec["driver"])
        size = "" if spec["base_size"] is None else str(spec["base_size"])
        configure = sh(_CONFIGURE, made.way, made.root, "", "", size, "", made.pool)
        options = _docker_pool.options(made, *_of_root(spec)) if driver == "devicemapper" else []
        daemon = ("sh", "-c", _DAEMON, "sh", made.way, place.name, made.root, driver, *options)
        first, *rest = begin(made, _CLIENT)
        return [
            first,
            *(_docker_pool.steps(made) if driver == "devicemapper" else []),
            *rest,
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
            if driver == "devicemapper":
                wrong += _docker_pool.differences(made, info, root, _of_root(spec)[1])
            elif not _shows(driver, made, root, below[0]):
                wrong.append(other_root(made, root, driver))
            return wrong

        return differences(made, below[0], seen, judge)


def _gone(driver: str, version: str | None) -> str | None:
    """Why no Docker of this version has the driver; None: it does, or nobody knows the version."""
    if driver == "aufs":
        return _AUFS
    number = re.search(r"\b(\d+)\.", version or "")
    if driver not in _GONE or number is None or int(number[1]) < _GONE[driver][0]:
        return None
    return _GONE[driver][1]


def _check(spec: Call, below: Provides) -> None:
    """Raises BadInput where the driver cannot work on what is below."""
    if below.kind is not Kind.BLOCK:
        return
    if spec["driver"] != "devicemapper":
        raise BadInput(f"docker({spec['driver']}) needs a directory; put a file system below it.")
    if below.thin_pool is None:
        raise BadInput(
            "docker(devicemapper) takes a directory or a thin pool; put it on a file system, or right on lvmthin."
        )


def _of_root(spec: Call) -> tuple[int | None, str | None]:
    """Size and file system of a container's root, where they are asked for."""
    size, filesystem = spec["base_size"], spec["fs"]
    return None if size is None else int(size), None if filesystem is None else str(filesystem)


def _made(below: Sequence[Provides], place: Place) -> Instance:
    programs = ("dockerd", "docker", "docker-proxy", "fuse-overlayfs", *PROGRAMS)
    if below[0].kind is Kind.BLOCK:
        # Containers are volumes of the pool; what Docker knows of them is kept beside, where `docker` is the client.
        return Instance("docker", place, f"{place.dir}/kept", programs, below[0].thin_pool or "")
    return instance("docker", below[0], place, programs)


def _needed(spec: Call) -> dict[str, str]:
    driver, fs = str(spec["driver"]), spec["fs"]
    used = {"fuse-overlayfs": driver == "fuse-overlayfs", "zfs": driver == "zfs", "dmsetup": driver == "devicemapper"}
    return tools_for(INFO.tools, used | {f"mkfs.{each}": fs == each for each in ("ext4", "xfs")})


def _shows(driver: str, made: Instance, root: Root, below: Provides) -> bool:
    """Whether this is how the kernel shows the root of a container of that driver."""
    match driver:
        case "overlay" | "overlay2":
            return root.fstype == "overlay" and root.options.get("upperdir", "").startswith(f"{made.root}/{driver}/")
        case "fuse-overlayfs":
            return root.fstype.startswith("fuse") and "fuse-overlayfs" in f"{root.fstype} {root.source}"
        case "btrfs":
            return root.fstype == "btrfs" and "/docker/btrfs/subvolumes/" in root.inside
        case "vfs":
            return root.fstype != "overlay" and "/docker/vfs/dir/" in root.inside
        case _:
            return in_pool(root, below)


DRIVER = DockerDriver()
