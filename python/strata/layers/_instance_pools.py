"""Storage pools of LXD and Incus: how each backend is put on what is below, what shows that it is the one in use, and
what removes what it left there.

The backend lvm is given the thin pool of `lvmthin` below it, by the names of its volume group and of itself. The daemon
runs LVM's programs: it is given a directory with a lvm.conf of its own, by which they see only the devices below, so
that neither settings nor volumes of the machine count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.errors import BadInput
from strata.layers._engine import Instance, Root, needs_filesystem, needs_quotas, no_limits_on_existing, text
from strata.layers._lvm import SETTINGS
from strata.layers._steps import sh
from strata.model import Call, Kind, Place, Provides, Step

BACKENDS = ("dir", "btrfs", "zfs", "lvm")
FILESYSTEMS = ("ext4", "xfs")

# $1 client program, $2 backend, $3 a directory to make or "", the rest: settings of the pool.
_MAKE = """\
program=$1 backend=$2 made=$3; shift 3
[ -z "$made" ] || mkdir -- "$made" || exit 1
"$program" storage create default "$backend" "$@" >/dev/null || exit 1
"$program" profile device add default root disk pool=default path=/ >/dev/null"""

_DESTROY = 'if zfs list -H -o name "$1" >/dev/null 2>&1; then zfs destroy -r -- "$1"; fi'

# $1 directory to make, $2 the volume below, $3 settings. Every device that the volume lies on, down to the disk.
_ALONE = """\
mkdir -- "$1" || exit 1
devices=$(lsblk --inverse --list --noheadings --output PATH -- "$(readlink -f -- "$2")") || exit 1
seen=$(for device in $devices; do printf '"a|^%s$|", ' "$device"; done)
printf '%s\\n' "$3" "devices/filter=[ $seen\\"r|.*|\\" ]" >"$1/lvm.conf\""""

# $1 directory of lvm.conf, $2 volume group, $3 pool. Only what the engine names so: the pool has a volume beside.
_REMOVE_VOLUMES = """\
[ -s "$1/lvm.conf" ] || exit 0
LVM_SYSTEM_DIR=$1; export LVM_SYSTEM_DIR
ours="vg_name=$2 && pool_lv=$3 && lv_name=~\\"^(containers|images|custom|virtual-machines)_\\""
found=$(lvs --noheadings --options lv_full_name --select "$ours") || exit 1
[ -z "$found" ] || lvremove -qq --force $found"""


@dataclass(frozen=True, slots=True)
class Pool:
    """The storage pool of one engine."""

    backend: str
    made: Instance
    below: Provides
    place: Place
    size_bytes: int | None  # of a container's root (lvm)
    filesystem: str | None  # of a container's root (lvm)

    @property
    def group(self) -> str:
        """lvm: the volume group."""
        return (self.below.name or "").partition("/")[0]

    @property
    def thin_pool(self) -> str:
        """lvm: the thin pool, as LVM calls it."""
        mapped = self.group.replace("-", "--")
        return self.made.pool.removeprefix(f"{mapped}-").removesuffix("-tpool").replace("--", "-")

    @property
    def data_set(self) -> str:
        """zfs: the data set of the pool."""
        return f"{self.below.name}/{self.place.name}"

    @property
    def environment(self) -> tuple[str, ...]:
        """What the daemon needs beside its own."""
        return (f"LVM_SYSTEM_DIR={self.made.way}/lvm",) if self.backend == "lvm" else ()

    def prepare(self) -> list[Step]:
        """Undone when nothing of the engine runs or is mounted any more."""
        if self.backend == "zfs":
            return [Step(sh("true"), sh(_DESTROY, self.data_set), "note the data set of the pool")]
        if self.backend == "lvm":
            directory = f"{self.place.dir}/lvm"
            return [
                Step(
                    sh(_ALONE, directory, self.below.path, SETTINGS),
                    sh(_REMOVE_VOLUMES, directory, self.group, self.thin_pool, timeout_s=3600.0),
                    "show LVM the devices below and no others",
                )
            ]
        return []

    def make(self, program: str, environment: str) -> Step:
        """`environment`: commands of the shell that set up that of the client."""
        directory = f"{self.made.root}/pool"
        settings = [f"source={directory}"]
        if self.backend == "zfs":
            settings = [f"source={self.data_set}"]
        if self.backend == "lvm":
            # The volume that lvmthin made is in the pool, so to the engine it is not empty.
            settings = [f"source={self.group}", f"lvm.thinpool_name={self.thin_pool}", "lvm.vg.force_reuse=true"]
        if self.size_bytes is not None:
            settings.append(f"volume.size={self.size_bytes}B")
        if self.filesystem is not None:
            settings.append(f"volume.block.filesystem={self.filesystem}")
        words = (program, self.backend, directory if self.backend == "dir" else "", *settings)
        return Step(sh(f"{environment}\n{_MAKE}", *words), None, "make the storage pool")

    def differences(self, found: Mapping[str, object], root: Root) -> list[str]:
        """What is not as requested in what the engine says of the pool and the kernel of the root of a container."""
        engine, wrong = self.made.engine, []
        keeps = text(found, "driver") or "nothing known"
        if keeps != self.backend:
            wrong.append(f"{engine}: the engine keeps instances by {keeps} instead of {self.backend}.")
        if self.backend == "lvm":
            pool = f"{text(found, 'config', 'lvm.vg_name')}/{text(found, 'config', 'lvm.thinpool_name')}"
            if pool != f"{self.group}/{self.thin_pool}":
                wrong.append(f"{engine}: its volumes are in the pool {pool} and not in {self.group}/{self.thin_pool}.")
        if not self._shows(root):
            wrong.append(
                f"{engine}: the root of a container is {root.fstype} from {root.source}{root.inside}, "
                f"which is not what {self.backend} makes."
            )
        if self.filesystem is not None and root.fstype != self.filesystem:
            wrong.append(f"{engine}: the root of a container is {root.fstype} instead of {self.filesystem}.")
        return wrong

    def _shows(self, root: Root) -> bool:
        """Whether this is how the kernel shows the root of a container of that backend."""
        if self.backend == "zfs":
            return root.fstype == "zfs" and f"/{self.place.name}/containers/" in root.source
        if self.backend == "lvm":
            mapped = f"/dev/mapper/{self.group.replace('-', '--')}-containers_"
            return root.source.startswith((mapped, f"/dev/{self.group}/containers_"))
        kept = f"/{self.made.engine}/pool/containers/" in root.inside
        return kept and (root.fstype == "btrfs" if self.backend == "btrfs" else root.fstype != "overlay")


def check(engine: str, spec: Call, below: Provides) -> None:
    """Raises BadInput where the backend cannot work on what is below."""
    backend = str(spec["backend"])
    if spec["base_size"] is not None:
        no_limits_on_existing(engine, below)
    if backend in ("btrfs", "zfs") and below.kind is Kind.DIRECTORY:
        needs_filesystem(engine, backend, below, backend)
    if backend == "btrfs" and spec["base_size"] is not None:
        needs_quotas(engine, backend, below, "btrfs(quotas)")
    if backend == "lvm" and below.thin_pool is None:
        raise BadInput(f"{engine}(lvm) makes volumes in a thin pool; put it right on lvmthin.")
    if backend != "lvm" and below.kind is Kind.BLOCK:
        raise BadInput(f"{engine}({backend}) needs a directory; put a file system below it, or choose lvm.")
