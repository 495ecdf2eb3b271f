"""Docker's devicemapper: a thin pool of Docker's own in sparse files (loop-lvm), or the thin pool of `lvmthin` below it
(direct-lvm).

Docker takes a pool only if nobody used it: it must hold no data and its transaction must be number 0. LVM counts a
transaction for the volume that `lvmthin` made, and refuses a pool whose count is not its own; so the count is set to 0
and put back when Docker has ended. Docker numbers its volumes itself and leaves out what is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from strata.layers._engine import Instance, Root, text
from strata.layers._engine_end import REMOVE_VOLUMES
from strata.layers._steps import sh
from strata.model import Step

# $1 pool, $2 file.
_OWN = """\
count() { dmsetup status "$1" | awk '$3 == "thin-pool" { print $4 }'; }
was=$(count "$1") && [ -n "$was" ] && echo "$was" >"$2" || exit 1
[ "$was" = 0 ] || dmsetup message "$1" 0 "set_transaction_id $was 0\""""

# $1 pool, $2 file, by whose number Docker's volumes are known. A pool that is not there holds none.
_DISOWN = (
    REMOVE_VOLUMES
    + """\
count() { dmsetup status "$1" | awk '$3 == "thin-pool" { print $4 }'; }
if [ ! -s "$2" ] || ! dmsetup status "$1" >/dev/null 2>&1; then exit 0; fi
remove_volumes "$1" || exit 1
if [ -S /run/udev/control ]; then udevadm settle --timeout=60; fi
was=$(cat "$2") now=$(count "$1") || exit 1
[ "$was" = "$now" ] || dmsetup message "$1" 0 "set_transaction_id $now $was\""""
)


def steps(made: Instance) -> list[Step]:
    """Before Docker starts. Undone when nothing of it runs or is mounted any more. A pool in files goes with Docker."""
    if not made.pool:
        return []
    count = f"{made.place.dir}/transaction"
    return [
        Step(
            sh(_OWN, made.pool, count),
            sh(_DISOWN, made.pool, count, timeout_s=600.0),
            "make the thin pool look unused, as Docker asks",
        )
    ]


def options(made: Instance, size_bytes: int | None, filesystem: str | None) -> list[str]:
    """Of dockerd."""
    chosen = {
        "dm.thinpooldev": f"/dev/mapper/{made.pool}" if made.pool else None,
        "dm.basesize": None if size_bytes is None else str(size_bytes),
        "dm.fs": filesystem,
    }
    return [
        word for name, value in chosen.items() if value is not None for word in ("--storage-opt", f"{name}={value}")
    ]


def differences(made: Instance, info: Mapping[str, object], root: Root, filesystem: str | None) -> list[str]:
    """What Docker says of its pool, and what the kernel says of the root of a container."""
    said = _status(info)
    pool, data = text(said, "Pool Name"), text(said, "Data loop file")
    wrong = []
    if made.pool and (pool != made.pool or data):
        wrong.append(f"docker: it has its volumes in the pool {pool or 'nobody knows of'} instead of {made.pool}.")
    if not made.pool and not data.startswith(f"{made.root}/devicemapper/"):
        wrong.append(f"docker: its pool is in {data or 'no file'} instead of files in {made.root}/devicemapper.")
    if not root.source.startswith("/dev/mapper/docker-") or root.inside != "/rootfs":
        wrong.append(
            f"docker: the root of a container is {root.fstype} from {root.source}{root.inside}, "
            "which is not what devicemapper makes."
        )
    if filesystem is not None and root.fstype != filesystem:
        wrong.append(f"docker: the root of a container is {root.fstype} instead of {filesystem}.")
    return wrong


def _status(info: Mapping[str, object]) -> Mapping[str, object]:
    """DriverStatus is a list of pairs."""
    pairs = info.get("DriverStatus")
    rows = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
    return {str(name): value for name, value in rows}
