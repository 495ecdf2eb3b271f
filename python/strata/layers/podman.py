"""Podman as a layer, without a daemon, root's or a user's: its storage on the stack, everything else in the visit's
directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.layers import _rootless
from strata.layers._control_groups import control_group_reasons, rootless_reasons
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
    text,
    tools_for,
    version_reasons,
)
from strata.layers._image_caches import IN_OWN_CACHES
from strata.layers._steps import sh, standard_reasons
from strata.layers._throttle import THROTTLE
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

DRIVERS = ("overlay", "vfs", "btrfs", "zfs")
PROGRAMS = ("podman", "conmon", "runc", "crun", "fuse-overlayfs", "buildah")

INFO = LayerInfo(
    name="podman",
    about="A private Podman whose images and containers lie on what is below.",
    params=(
        Param("driver", ParamType.CHOICE, "how layers are kept", default="overlay", choices=DRIVERS, positional=True),
        Param("runtime", ParamType.CHOICE, "what starts the containers", default="runc", choices=("runc", "crun")),
        Param(
            "base_size",
            ParamType.SIZE,
            "how large a container's root may be; overlay needs xfs(pquota) below it",
            minimum=1 << 24,
        ),
        _rootless.USER,
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.ENGINE,
    engine=EngineSupport(
        lacks=NO_INSTANCES,
        lacks_by={"user": {"limit": "a user's own Podman may not limit I/O; leave out the limit, or user="}},
    ),
    tools={"podman": "podman", "conmon": "conmon", "runc": "runc", "crun": "crun", "zfs": "zfsutils-linux",
           "setpriv": "util-linux", **TOOLS},
)  # fmt: skip

# $1 short way to the place: Podman refuses a directory of state whose path has more than 50 letters.
# Of the limits a container may have, some machines do not let even root raise any; so none is above what holds here.
# Locks in files: those in /dev/shm are shared with the user's own Podman.
_CONFIGURE = (
    """\
dir=$1 root=$2 driver=$3 runtime=$4 name=$5 user=$7
printf %s "$6" >"$dir/base"
"""
    + _rootless.CONFIGURE
    + """\
least() {
  have=$(prlimit "--$1" --output HARD --noheadings --raw)
  if [ "$have" = unlimited ] || [ "$have" -gt "$2" ]; then have=$2; fi
  echo "$have"
}
files=$(least nofile 1024) processes=$(least nproc 8192)
# The filter that Podman would take, but that what libaio asks first is unknown there instead of forbidden: decision 36.
filter=
for file in /etc/containers/seccomp.json /usr/share/containers/seccomp.json; do
  if [ -r "$file" ]; then
    sed '/^[[:space:]]*"io_pgetevents\\(_time64\\)\\{0,1\\}",$/d' "$file" >"$dir/seccomp.json" || exit 1
    filter="seccomp_profile = \\"$dir/seccomp.json\\""
    break
  fi
done
cat >"$dir/containers.conf" <<END
[containers]
$filter
default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "$runtime"
tmp_dir = "$own/tmp"
static_dir = "$root/libpod"
volume_path = "$root/volumes"
image_copy_tmp_dir = "$root/copies"
[network]
network_config_dir = "$own/networks"
END
cat >"$dir/storage.conf" <<END
[storage]
driver = "$driver"
runroot = "$own/state"
graphroot = "$root"
rootless_storage_path = "$root"
END
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$dir/policy.json"
: >"$dir/registries.conf"
ln -s -- "$root" "$dir/storage" && echo "$name" >"$dir/group\""""
)

_CLIENT = (
    r"""#!/bin/sh
# The Podman of one visit of Strata, and no other.
d=${0%/*}
# Each of these would lead to the user's own Podman.
unset CONTAINER_HOST CONTAINER_CONNECTION CONTAINERS_CONF_OVERRIDE STORAGE_DRIVER STORAGE_OPTS
export CONTAINERS_CONF="$d/containers.conf" CONTAINERS_STORAGE_CONF="$d/storage.conf"
export CONTAINERS_REGISTRIES_CONF="$d/registries.conf" TMPDIR="$d/storage/copies"
# Each step of a build runs in a container, as Docker's do.
export BUILDAH_ISOLATION=oci
verb=$1; shift
"""
    + _rootless.AS_USER
    + IN_OWN_CACHES
    + THROTTLE
    + r"""
images=$podman
[ -n "$user" ] || images="in_own_caches podman"
case $verb in
  load) $images import --quiet -- "$1" "localhost/$2" ;;
  build)
    tag=$2; set -- -- "$1"
    [ -n "$user" ] || set -- --cgroup-parent "/$group/build" "$@"
    $images build --quiet --no-cache --network none --signature-policy "$d/policy.json" --pull-never \
      --tag "localhost/$tag" "$@" ;;
  forget) exec $podman rmi --force "localhost/$1" ;;
  create)
    set -- "localhost/$@"
    for word; do
      case $word in --) break ;; /*:*) give "$word" || exit 1 ;; esac
    done
"""
    + ARRANGE
    + r"""
    if [ -s "$d/base" ]; then set -- --storage-opt "size=$(cat -- "$d/base")" "$@"; fi
    # A user's own stays in the group of the call.
    [ -n "$user" ] || set -- --cgroup-parent "/$group" "$@"
    exec $podman create --name "$name" "$@" ;;
  start) exec $podman start "$1" ;;
  stop) exec $podman stop --time 10 "$1" ;;
  remove) exec $podman rm --force --time 0 --volumes "$1" ;;
  exec) exec $podman exec "$@" ;;
  pid) pid=$($podman inspect --type container --format '{{.State.Pid}}' "$1") && started_here "$pid" && echo "$pid" ;;
  count) $podman ps --quiet --filter status=running | wc -l ;;
  reset) $podman rm --all --force --time 0 --volumes && $podman rmi --all --force ;;
  info) exec $podman info --format json ;;
"""
    + ending()
)

_OLDEST = (4, 0)


class PodmanDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, _needed(spec))
        reasons += version_reasons("Podman", facts.tools.get("podman"), _OLDEST)
        reasons += control_group_reasons("podman", facts, str(spec["runtime"])) + rootless_reasons("Podman", facts)
        reasons += _rootless.user_reasons(spec, facts)
        if spec["driver"] in ("vfs", "btrfs") and spec["base_size"] is not None:
            reasons.append(no_size("podman", str(spec["driver"])))
        if spec["driver"] == "overlay" and "overlay" not in facts.filesystems:
            reasons.append(no_filesystem("podman(overlay)", "overlay", facts))
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if spec["driver"] in ("btrfs", "zfs"):
            needs_filesystem("podman", str(spec["driver"]), below[0], str(spec["driver"]))
        if spec["driver"] == "overlay" and spec["base_size"] is not None:
            needs_quotas("podman", "overlay", below[0])
        return provides(_made(below, place), below[0], str(spec["driver"]))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        made = _made(below, place)
        size = "" if spec["base_size"] is None else str(spec["base_size"])
        words = (made.root, str(spec["driver"]), str(spec["runtime"]), place.name, size, _rootless.user_of(spec) or "")
        configure = sh(_CONFIGURE, made.way, *words)
        return [
            *begin(made, _CLIENT),
            Step(configure, None, "write the configuration of this podman"),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(_made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        made, driver = _made(below, place), str(spec["driver"])

        def judge(info: Mapping[str, object], root: Root) -> list[str]:
            wrong = []
            says = text(info, "store", "graphDriverName")
            if says != driver:
                wrong.append(f"podman: the engine keeps layers by {says or 'nothing known'} instead of {driver}.")
            if text(info, "store", "graphRoot") != made.root:
                wrong.append(f"podman: the engine keeps them in {text(info, 'store', 'graphRoot')}.")
            if not _shows(driver, made, root, below[0]):
                wrong.append(other_root(made, root, driver))
            if (user := _rootless.user_of(spec)) is not None and not _is_rootless(info):
                wrong.append(f"podman: the engine runs as root instead of as {user}.")
            return wrong

        return differences(made, below[0], seen, judge)


def _made(below: Sequence[Provides], place: Place) -> Instance:
    return instance("podman", below[0], place, PROGRAMS)


def _is_rootless(info: Mapping[str, object]) -> bool:
    host = info.get("host")
    security = host.get("security") if isinstance(host, dict) else None
    return isinstance(security, dict) and security.get("rootless") is True


def _needed(spec: Call) -> dict[str, str]:
    return tools_for(INFO.tools, {"runc": spec["runtime"] == "runc", "crun": spec["runtime"] == "crun",
                                  "zfs": spec["driver"] == "zfs", "setpriv": spec["user"] is not None})  # fmt: skip


def _shows(driver: str, made: Instance, root: Root, below: Provides) -> bool:
    """Whether this is how the kernel shows the root of a container of that driver."""
    match driver:
        case "overlay":
            return root.fstype == "overlay" and root.options.get("upperdir", "").startswith(f"{made.root}/overlay/")
        case "btrfs":
            return root.fstype == "btrfs" and "/podman/btrfs/subvolumes/" in root.inside
        case "vfs":
            return root.fstype != "overlay" and "/podman/vfs/dir/" in root.inside
        case _:
            return in_pool(root, below)


DRIVER = PodmanDriver()
