"""So many requests or bytes a second at most, held by the kernel for the processes of the workload (a cgroup).

What QEMU holds is an argument of `vm` and `qsd`; this is for tenants that have no machine of their own. With version 1
of cgroups the kernel does not know whose the data are that it writes out of the page cache later, and holds only direct
writes and reads. Source: the kernel's admin-guide, cgroup-v1/blkio-controller and cgroup-v2 ("IO", "Writeback").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.errors import BadInput
from strata.layers import _limits
from strata.layers._device import fields, first
from strata.layers._driver import Driver
from strata.layers._steps import output, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Place, Provides, Step

INFO = LayerInfo(
    name="limit",
    about="At most so many reads, writes or bytes a second for the workload above, held by the kernel (cgroup).",
    params=_limits.params(),
    accepts=frozenset({Kind.BLOCK, Kind.DIRECTORY}),
    provides=None,
    deployed=False,
    tools={"findmnt": "util-linux"},
    last=True,
)

# $1 the device, or a directory: sets `number`, that of the disk whose requests are counted.
_DISK = """\
device=$1
if [ ! -b "$device" ]; then
  device=$(findmnt --noheadings --nofsroot --output SOURCE --target "$1") || exit 1
  if [ "$(findmnt --noheadings --output FSTYPE --target "$1")" = btrfs ] &&
      [ "$(ls "/sys/fs/btrfs/$(findmnt --noheadings --output UUID --target "$1")/devices" | wc -l)" -gt 1 ]; then
    echo "the kernel limits each device, and the btrfs of $1 has several; put the limit into vm or qsd" >&2; exit 1
  fi
fi
if [ ! -b "$device" ]; then
  echo "$1 lies on $device, which is no block device to limit; put the limit into vm or qsd" >&2; exit 1
fi
node=$(readlink -f -- "/sys/class/block/$(basename -- "$(readlink -f -- "$device")")")
if [ -e "$node/partition" ]; then node=${node%/*}; fi
number=$(cat -- "$node/dev") || exit 1
"""

# $1 device or directory, $2 link to the group, $3 its name, the rest: NAME=VALUE. Under version 2 a controller has to
# be handed down first, which is taken back with the group.
_MAKE = (
    _DISK
    + """\
link=$2 name=$3; shift 3
one=$(findmnt --noheadings --list --types cgroup --options blkio --output TARGET | head -n 1)
two=$(findmnt --noheadings --list --types cgroup2 --output TARGET | head -n 1)
if [ -n "$two" ] && grep -qw io "$two/cgroup.controllers"; then
  if ! grep -qw io "$two/cgroup.subtree_control"; then
    : > "$link.io" && echo +io > "$two/cgroup.subtree_control" || exit 1
  fi
  mkdir -- "$two/$name" && ln -s -- "$two/$name" "$link" || exit 1
  for limit; do
    case ${limit%%=*} in
      read_iops) key=riops ;; write_iops) key=wiops ;; read_bps) key=rbps ;; write_bps) key=wbps ;;
    esac
    echo "$number $key=${limit#*=}" > "$link/io.max" || exit 1
  done
else
  mkdir -- "$one/$name" && ln -s -- "$one/$name" "$link" || exit 1
  for limit; do
    echo "$number ${limit#*=}" > "$link/blkio.throttle.${limit%%=*}_device" || exit 1
  done
fi"""
)

# $1 link, $2 name of the group.
_REMOVE = """\
for root in $(findmnt --noheadings --list --types cgroup,cgroup2 --output TARGET); do
  for pause in 0.1 0.2 0.4 0.8 1.6 ''; do
    [ -d "$root/$2" ] || break
    rmdir -- "$root/$2" 2>/dev/null && break
    [ -n "$pause" ] && sleep "$pause" && continue
    echo "the group $root/$2 still has processes: $(cat "$root/$2/cgroup.procs"); end them, then clean up again" >&2
    exit 1
  done
  # what was handed down is taken back, unless another visit uses it by now
  if [ -e "$1.io" ] && [ -e "$root/cgroup.subtree_control" ] && ! ls -d "$root"/strata-* >/dev/null 2>&1; then
    echo -io > "$root/cgroup.subtree_control" 2>/dev/null
  fi
done
rm -f -- "$1" "$1.io\""""

# $1 device or directory, $2 link
_SHOW = (
    _DISK
    + """\
if [ -e "$2/io.max" ]; then
  sed -n "s/^$number //p" "$2/io.max" | tr ' ' '\\n' |
    sed 's/^riops/read_iops/; s/^wiops/write_iops/; s/^rbps/read_bps/; s/^wbps/write_bps/; /=max$/d'
else
  for name in read_iops write_iops read_bps write_bps; do
    sed -n "s/^$number /$name=/p" "$2/blkio.throttle.${name}_device"
  done
fi"""
)

# $1 link, the rest: a command that is to run in the group.
_ENTER = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'


_OF_POOLS = frozenset({"zfs"})  # whose files are on no block device that the kernel knows of


class LimitDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return [] if _limits.asked(spec) else ["limit limits nothing; write limit(write_iops=1000), or leave it out."]

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        if not facts.io_control:
            reasons.append(
                f"The kernel {facts.kernel_text} limits no I/O here (neither io of cgroup version 2 nor blkio.throttle "
                "of version 1); put the limit into vm or qsd, which QEMU holds."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        whose = below[0].filesystem
        if below[0].devices > 1 or whose in _OF_POOLS:
            raise BadInput(
                f"The kernel limits each block device, and what stands on {whose} has several or none of its own to "
                "limit; take the limit out, or give it to vm or qsd above, which QEMU holds."
            )
        return replace(below[0], inside=(*below[0].inside, "sh", "-c", _ENTER, "sh", _link(place)))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        limits = [f"{name}={value}" for name, value in _limits.asked(spec).items()]
        make = sh(_MAKE, below[0].path, _link(place), place.name, *limits)
        return [Step(make, sh(_REMOVE, _link(place), place.name), "make a group of processes with these limits")]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_SHOW, below[0].path, _link(place))]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        if output(seen, 0) is None:
            return [f"limit: the limits cannot be read: {said(seen, 0)}."]
        state = fields(seen, 0)
        return [
            f"limit: {name} is {now or 'not limited'} instead of {value}."
            for name, value in _limits.asked(spec).items()
            if (now := first(state, name)) != str(value)
        ]


def _link(place: Place) -> str:
    return f"{place.dir}/group"


DRIVER = LimitDriver()
