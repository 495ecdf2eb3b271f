"""containerd as a layer, used by its own client `ctr`: what Kubernetes keeps images and containers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.errors import BadInput
from strata.layers._containerd import CONFIGURE, PROGRAMS, start_containerd
from strata.layers._control_groups import control_group_reasons
from strata.layers._driver import Driver
from strata.layers._engine import (
    NO_INSTANCES,
    TOOLS,
    Instance,
    Root,
    begin,
    differences,
    ending,
    inspect,
    instance,
    needs_filesystem,
    no_filesystem,
    other_root,
    prove,
    provides,
    root_reasons,
    text,
    tools_for,
    version_reasons,
)
from strata.layers._image_caches import IN_OWN_CACHES
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
from strata.units import format_size

SNAPSHOTTERS = ("overlayfs", "native", "btrfs", "devmapper", "blockfile", "erofs")
_SIZED = ("devmapper", "blockfile")
_GIB = 1 << 30

INFO = LayerInfo(
    name="containerd",
    about="A private containerd whose images and containers lie on what is below.",
    params=(
        Param(
            "snapshotter",
            ParamType.CHOICE,
            "how layers are kept; devmapper makes thin volumes in the pool of lvmthin below it",
            default="overlayfs",
            choices=SNAPSHOTTERS,
            positional=True,
        ),
        Param(
            "base_size",
            ParamType.SIZE,
            "how large a container's root is, 1G unless said (devmapper, blockfile)",
            minimum=1 << 28,
        ),
        Param("fs", ParamType.CHOICE, "the file system of a container's root, ext4 unless said (devmapper, blockfile)",
              choices=("ext4", "xfs")),
    ),
    accepts=frozenset({Kind.DIRECTORY, Kind.BLOCK}),
    provides=Kind.ENGINE,
    engine=EngineSupport(lacks=NO_INSTANCES, only_for={"buildah": "build"}),
    tools={"containerd": "containerd", "ctr": "containerd", "runc": "runc", "sha256sum": "coreutils",
           "numfmt": "coreutils", "buildah": "buildah", "dmsetup": "dmsetup",
           "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", **TOOLS},
)  # fmt: skip

# $1 the place, $2 where containerd keeps what it has, $3 snapshotter, $4 namespace, $5 bytes of a root or "",
# $6 its file system, $7 the thin pool or "".
_CONFIGURE = (
    CONFIGURE
    + r"""
echo "$snapshotter" >"$dir/snapshotter"; echo "$group" >"$dir/group"; echo "$pool" >"$dir/pool"
[ -z "$size" ] || numfmt --from=iec "$size" >"$dir/base"
case $snapshotter in
  devmapper)
    cat >>"$dir/containerd.toml" <<END
[plugins."io.containerd.snapshotter.v1.devmapper"]
root_path = "$kept/devmapper"
pool_name = "$pool"
base_image_size = "$size"
fs_type = "$fs"
END
    ;;
  blockfile)
    truncate --size "$size" "$kept/scratch" && "mkfs.$fs" -q "$kept/scratch" || exit 1
    cat >>"$dir/containerd.toml" <<END
[plugins."io.containerd.snapshotter.v1.blockfile"]
root_path = "$kept/blockfile"
scratch_file = "$kept/scratch"
fs_type = "$fs"
mount_options = ["loop"]
recreate_scratch = true
END
    ;;
esac
"""
)

# containerd numbers its volumes from 1, which is what the pool's own volume has, and takes a number that failed for
# used. $1 the place, $2 namespace.
_SKIP = """\
for try in 1 2 3 4 5 6 7 8; do
  if said=$(ctr --address "$1/containerd.sock" --namespace "$2" snapshots --snapshotter devmapper prepare first 2>&1)
  then exec ctr --address "$1/containerd.sock" --namespace "$2" snapshots --snapshotter devmapper remove first; fi
done
echo "$said" >&2
exit 1"""

# An image is made by hand in the form of `docker save`, which ctr reads. What is built is built by buildah in a storage
# of its own on the same stack, written to a file, and imported: so a build has all three in it.
_CLIENT = (
    r"""#!/bin/sh
# The containerd of one visit of Strata, and no other.
d=${0%/*}
read -r group <"$d/group"; read -r snapshotter <"$d/snapshotter"; read -r pool <"$d/pool"
export CONTAINERD_ADDRESS="$d/containerd.sock" CONTAINERD_NAMESPACE="$group"
builder() {
  verb=$1; shift
  # Each of these would lead to the user's own images.
  unset STORAGE_DRIVER STORAGE_OPTS CONTAINERS_CONF_OVERRIDE
  CONTAINERS_CONF="$d/containers.conf" CONTAINERS_STORAGE_CONF="$d/storage.conf" TMPDIR="$d/storage/builder" \
    CONTAINERS_REGISTRIES_CONF="$d/registries.conf" \
    in_own_caches buildah --root "$d/storage/builder/images" --runroot "$d/buildah" --storage-driver overlay "$verb" \
    --signature-policy "$d/policy.json" --quiet "$@" >/dev/null
}
# containerd only marks what is removed; its garbage collector deletes it, later or, asked by a lease, at once.
collect_garbage() { lease=$(ctr leases create) && ctr leases delete --sync "$lease" >/dev/null; }
state() { ctr tasks list | awk -v name="$1" '$1 == name { print $3 }'; }
verb=$1; shift
"""
    + IN_OWN_CACHES
    + THROTTLE
    + AT_START
    + r"""
case $verb in
  load)
    work=$d/load-$2; mkdir -- "$work" && cp -- "$1" "$work/layer.tar" || exit 1
    case $(uname -m) in x86_64) machine=amd64 ;; aarch64) machine=arm64 ;; *) machine=$(uname -m) ;; esac
    layer=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
    # buildah builds only on an image whose history tells of each of its layers.
    printf '{"architecture":"%s","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},%s}' \
      "$machine" "$layer" '"history":[{"created":"1970-01-01T00:00:01Z","created_by":"load"}]' >"$work/config.json"
    printf '[{"Config":"config.json","RepoTags":["localhost/%s:latest"],"Layers":["layer.tar"]}]' "$2" \
      >"$work/manifest.json"
    tar --create --file "$work.tar" --directory "$work" manifest.json config.json layer.tar || exit 1
    rm -rf -- "$work"
    # containerd 2 imports in its daemon unless told otherwise, and unpacks there for no snapshotter but overlayfs.
    ctr images import --help | grep -o -m 1 -e --local >"$d/import"
    ctr images import $(cat "$d/import") --snapshotter "$snapshotter" "$work.tar"; status=$?
    rm -f -- "$work.tar"; exit $status ;;
  ready)
    if ! command -v buildah >/dev/null; then
      echo "containerd itself builds no images: install the Debian package buildah" >&2; exit 65
    fi
    mkdir -p -- "$d/storage/builder" || exit 1
    printf '[network]\nnetwork_config_dir = "%s/networks"\n' "$d" >"$d/containers.conf"; : >"$d/registries.conf"
    printf '[storage]\ndriver = "overlay"\n' >"$d/storage.conf"
    echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$d/policy.json"
    tar=$d/storage/builder/$1.tar
    ctr images export "$tar" "localhost/$1:latest" && builder pull "docker-archive:$tar"; status=$?
    rm -f -- "$tar"; exit $status ;;
  build)
    tar=$d/storage/builder/$2.tar
    builder build --layers --no-cache --isolation oci --runtime runc --cgroup-parent "/$group/build" --network none \
      --pull-never --tag "localhost/$2" -- "$1" &&
      builder push "localhost/$2" "docker-archive:$tar:localhost/$2:latest" &&
      ctr images import $(cat "$d/import") --snapshotter "$snapshotter" "$tar" >/dev/null; status=$?
    rm -f -- "$tar"; exit $status ;;
  forget) exec ctr images remove --sync "localhost/$1:latest" ;;
  create)
    image=$1 name=$2 command=; shift 2
    for word; do
      shift
      if [ -n "$command" ]; then set -- "$@" "$word"
      elif [ "$word" = -- ]; then command=yes; set -- "$@" -- "localhost/$image:latest" "$name"
      elif [ "${word#limit:}" != "$word" ]; then keep_limit "$name" "$word" || exit 1
      else
        how=rw to=${word#*:}
        case $to in *:ro) how=ro to=${to%:ro} ;; esac
        set -- "$@" --mount "type=bind,src=${word%%:*},dst=$to,options=rbind:$how"
      fi
    done
    exec ctr containers create --snapshotter "$snapshotter" "$@" ;;
  start)
    ctr tasks start --detach --null-io --fifo-dir "$d/fifo" --pid-file "$d/pid-$1" "$1" || exit 1
    ! has_limits "$1" || set_limits "$1" "$("$d/client" pid "$1")" ;;
  stop)
    pid=$(cat "$d/pid-$1") && ctr tasks kill --signal SIGTERM "$1" || exit 1
    number=0
    while [ -e "/proc/$pid" ] && [ "$number" -lt 1000 ]; do number=$((number + 1)); sleep 0.01; done
    # containerd hears of the end a moment later than /proc shows it.
    for pause in 0.01 0.02 0.05 0.1 0.2 0.5 1; do
      if ctr tasks delete "$1" 2>/dev/null; then exit 0; fi
      sleep "$pause"
    done
    exec ctr tasks delete --force "$1" ;;
  remove)
    forget_limits "$1"
    [ -z "$(state "$1")" ] || ctr tasks delete --force "$1" || exit 1
    ctr containers delete "$1" && rm -f -- "$d/pid-$1" && collect_garbage ;;
  exec) name=$1; shift; exec ctr tasks exec --fifo-dir "$d/fifo" --exec-id "x$$" -- "$name" "$@" ;;
  pid) ctr tasks list | awk -v name="$1" '$1 == name { print $2 }' ;;
  count) ctr tasks list | grep -c ' RUNNING$' || [ $? = 1 ] ;;
  reset)
    forget_limits
    for name in $(ctr containers list --quiet); do "$d/client" remove "$name" || exit 1; done
    for name in $(ctr images list --quiet); do ctr images remove --sync "$name" || exit 1; done
    if [ -d "$d/storage/builder/images" ]; then
      umount -- "$d/storage/builder/images/overlay" 2>/dev/null
      rm -rf --one-file-system -- "$d/storage/builder" "$d/buildah"
    fi ;;
  info)
    ctr version >/dev/null || exit 1
    printf '{"version": "%s", "snapshotter": "%s", "state": "%s", "root": "%s"}\n' \
      "$(ctr version | awk '/Version:/ { version = $2 } END { print version }')" "$snapshotter" \
      "$(ctr plugins list "id==$snapshotter" | awk '/snapshotter.v1/ { print $NF }')" \
      "$(readlink -- "$d/storage")" ;;
"""
    + ending(POOL_ROOM)
)

_PROGRAMS = (*PROGRAMS, "buildah")
_OLDEST = {"blockfile": (1, 7), "erofs": (2, 1)}


class ContainerdDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        how = str(spec["snapshotter"])
        reasons = standard_reasons(facts, _needed(spec))
        reasons += version_reasons(f"containerd({how}): containerd", facts.tools.get("containerd"),
                                   _OLDEST.get(how, (1, 6)))  # fmt: skip
        reasons += control_group_reasons("containerd", facts, "runc")
        filesystem = {"overlayfs": "overlay", "erofs": "erofs"}.get(how)
        if filesystem is not None and filesystem not in facts.filesystems:
            reasons.append(no_filesystem(f"containerd({how})", filesystem, facts))
        if how == "devmapper" and "dm_thin_pool" not in facts.modules:
            reasons.append(
                f"The kernel {facts.kernel_text} has no dm_thin_pool, which containerd(devmapper) needs; boot one "
                "that has it, or use the lab."
            )
        if how not in _SIZED and (spec["base_size"] is not None or spec["fs"] is not None):
            reasons.append(
                f"containerd({how}) has no size and no file system of its own for a container; "
                "leave out base_size and fs, or choose devmapper."
            )
        return reasons + root_reasons(spec)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        _check(spec, below[0])
        return provides(_made(below, place), below[0], str(spec["snapshotter"]))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        _check(spec, below[0])
        made = _made(below, place)
        size = "" if spec["snapshotter"] not in _SIZED else format_size(int(spec["base_size"] or _GIB))
        words = (str(spec["snapshotter"]), place.name, size, str(spec["fs"] or "ext4"), below[0].thin_pool or "")
        return [
            *begin(made, _CLIENT),
            Step(sh(_CONFIGURE, made.way, made.root, *words), None, "write the configuration of this containerd"),
            start_containerd(made),
            *([] if not made.pool else [Step(sh(_SKIP, made.way, place.name), None, "skip numbers that are taken")]),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(_made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        made, how = _made(below, place), str(spec["snapshotter"])

        def judge(info: Mapping[str, object], root: Root) -> list[str]:
            wrong = []
            if text(info, "state") != "ok":
                wrong.append(f"containerd: its snapshotter {how} is {text(info, 'state') or 'unknown'} instead of ok.")
            if text(info, "root") != made.root:
                wrong.append(f"containerd: it keeps containers in {text(info, 'root')}.")
            if not _shows(how, made, below[0], root):
                wrong.append(other_root(made, root, how))
            if spec["fs"] is not None and root.fstype != spec["fs"]:
                wrong.append(f"containerd: the root of a container is {root.fstype} instead of {spec['fs']}.")
            return wrong

        return differences(made, below[0], seen, judge)


def _check(spec: Call, below: Provides) -> None:
    """Raises BadInput where the snapshotter cannot work on what is below."""
    how = str(spec["snapshotter"])
    if how == "btrfs":
        needs_filesystem("containerd", "btrfs", below, "btrfs")
    if how == "devmapper" and below.thin_pool is None:
        raise BadInput("containerd(devmapper) makes volumes in a thin pool; put it right on lvmthin.")
    if how != "devmapper" and below.kind is Kind.BLOCK:
        raise BadInput(f"containerd({how}) needs a directory; put a file system below it, or choose devmapper.")


def _made(below: Sequence[Provides], place: Place) -> Instance:
    if below[0].kind is Kind.BLOCK:
        # Containers are volumes of the pool; images as they were loaded are kept beside.
        return Instance("containerd", place, f"{place.dir}/containerd", _PROGRAMS, below[0].thin_pool or "")
    return instance("containerd", below[0], place, _PROGRAMS)


def _needed(spec: Call) -> dict[str, str]:
    how, fs = spec["snapshotter"], str(spec["fs"] or "ext4")
    used = {"dmsetup": how == "devmapper", "buildah": False}
    return tools_for(INFO.tools, used | {f"mkfs.{each}": how in _SIZED and each == fs for each in ("ext4", "xfs")})


def _shows(how: str, made: Instance, below: Provides, root: Root) -> bool:
    """Whether this is how the kernel shows the root of a container of that snapshotter."""
    kept = f"{made.root}/containerd/io.containerd.snapshotter.v1"
    match how:
        case "overlayfs" | "erofs":
            return root.fstype == "overlay" and root.options.get("upperdir", "").startswith(f"{kept}.{how}/")
        case "native":
            return root.fstype != "overlay" and "/io.containerd.snapshotter.v1.native/snapshots/" in root.inside
        case "btrfs":
            return root.fstype == "btrfs" and "/io.containerd.snapshotter.v1.btrfs/" in root.inside
        case "devmapper":
            return root.source.startswith(f"/dev/mapper/{below.thin_pool}-snap-")
        case _:
            return root.inside == "/" and f"{made.root}/blockfile/" in root.backing


DRIVER = ContainerdDriver()
