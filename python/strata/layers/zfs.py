"""A ZFS pool on one device or many, with its root dataset mounted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers._device import SETTLE
from strata.layers._driver import Driver
from strata.layers._members import LOST, REBUILT, choose, note, noted, read_notes
from strata.layers._steps import make_mount_point, output, remove_link, run, said, sh
from strata.layers._zfs import (
    COMMON,
    TOOLS,
    Property,
    ask_properties,
    choice,
    chosen,
    holding,
    load_module,
    power_of_two,
    properties_of,
    property_differences,
    snapshots,
    word_reasons,
    words,
    zfs_reasons,
)
from strata.layers._zpool import PARITY, Layout, Leaf, member_of, read, shape_differences
from strata.model import (
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
    Value,
)
from strata.units import human_size

PROPERTIES = (
    *COMMON,
    Property(
        Param(
            "recordsize",
            ParamType.SIZE,
            "the largest block of a file; ZFS chooses 128K",
            minimum=512,
            maximum=16 << 20,
            group="set",
        ),
        power_of_two("recordsize"),
    ),
    choice("xattr", "where extended attributes are: with the file (sa) or in a directory", "sa", "dir", "on", "off"),
    Property(Param("atime", ParamType.FLAG, "record when a file was last read (ZFS's default)", group="set")),
    Property(Param("relatime", ParamType.FLAG, "record a read only once a day or after a change", group="set")),
)

INFO = LayerInfo(
    name="zfs",
    about="A ZFS pool and its file system; the last inputs can be log and cache devices.",
    params=(
        Param(
            "layout",
            ParamType.CHOICE,
            "how data are spread over the devices",
            default="stripe",
            choices=tuple(PARITY),
            positional=True,
            group="pool",
        ),
        Param("mirror", ParamType.INT, "stripe over mirrors of so many devices each", minimum=2, group="pool"),
        Param("slog", ParamType.INT, "so many of the inputs are the log of synchronous writes; of several, a mirror",
              default=0, minimum=0, group="pool"),
        Param("l2arc", ParamType.INT, "so many of the inputs, the last, cache reads",
              default=0, minimum=0, group="pool"),
        Param("ashift", ParamType.INT, "sector size as a power of two; ZFS asks the devices: 9 for loop devices, which "
              "say 512 bytes, 12 for disks that say 4 KiB; give it to compare the two", minimum=9, maximum=16,
              group="pool"),
        *(each.param for each in PROPERTIES),
        Param("prefetch", ParamType.FLAG, "read ahead; off is set for the whole machine (zfs_prefetch_disable)",
              group="module"),
        Param("arc_max", ParamType.SIZE, "most memory for ZFS's cache, set for the whole machine (zfs_arc_max)",
              minimum=64 << 20, group="module"),
        Param("pool", ParamType.TEXT, 'more properties of the pool, as in pool="autotrim=on"', group="pool"),
        Param("set", ParamType.TEXT, 'more properties of the file system, as in set="checksum=blake3"', group="set"),
    ),
    accepts=frozenset({Kind.BLOCK}),
    provides=Kind.DIRECTORY,
    many=True,
    tools={
        **TOOLS,
        "modprobe": "kmod",
        "findmnt": "util-linux",
        "blkid": "util-linux",
        "wipefs": "util-linux",
        "partx": "util-linux",
        "sfdisk": "fdisk",
    },
    metrics=(
        Metric("zfs.logical_bytes", "bytes", "neither", "what files and volumes hold, before compression"),
        Metric("zfs.physical_bytes", "bytes", "lower",
               "what the pool gave out: a mirror counts once, raidz with its parity"),
        Metric("zfs.compress_ratio", "ratio", "higher", "bytes before compression by bytes after it"),
        Metric("zfs.dedup_ratio", "ratio", "higher", "bytes referred to by bytes stored"),
        Metric("zfs.ddt_bytes", "bytes", "lower", "memory of the table that finds equal blocks"),
        Metric("zfs.arc_bytes", "bytes", "neither", "memory of ZFS's cache after the trial"),
        Metric("zfs.sync_pct", "%", "neither", "how much of a rebuild was done after the trial; 100: it was over"),
    ),
    offers=frozenset({"snapshot", "degrade", "rebuild", "volume"}),
)  # fmt: skip

_OURS = "Strata sets it itself, so leave it out"
_NOT_IN_POOL = dict.fromkeys(("cachefile", "altroot", "readonly"), _OURS) | {"ashift": "write zfs(ashift=...)"}
_NOT_IN_SET = (
    dict.fromkeys(("mountpoint", "canmount", "readonly"), _OURS)
    | dict.fromkeys(("sharenfs", "sharesmb"), "it would share the file system with other machines, so leave it out")
    | {each.name: f"write zfs({each.name}=...)" for each in PROPERTIES}
)

# $1 file to make, the rest: devices. zpool writes a partition table on a whole disk, not on a loop device or a volume,
# and does not ask what table was there. The file says that there was none, so one that is there later is ours.
_CHECK = """\
record=$1; shift
for device; do
  table=$(blkid --probe --match-tag PTTYPE --output value -- "$device")
  if [ -n "$table" ]; then
    echo "$device holds a $table partition table, which zpool would overwrite: name the device in --wipe" >&2; exit 1
  fi
done
: > "$record\""""

# The arguments of zpool create, with links to devices followed: it would look for partitions beside the link. udev may
# still hold a disk whose partition table was just written, and then the kernel cannot read it again: try again.
_CREATE = (
    SETTLE
    + """\
for word; do
  shift
  if [ -b "$word" ]; then word=$(readlink -f -- "$word"); fi
  set -- "$@" "$word"
done
for try in 1 2 3; do
  settle
  if zpool create "$@"; then exit 0; fi
done
exit 1"""
)

_PART = """\
part_of() {
  case $1 in *[0-9]) part=${1}p1 ;; *) part=${1}1 ;; esac
}
"""
"""A function of the shell: the first partition of a disk, as `part`."""

# $1 pool, $2 what _CHECK made, the rest: devices. A pool of this name is only destroyed when every device in it is one
# of these. Labels go by the pool's name, and a partition table only if zpool made it.
_DESTROY = (
    SETTLE
    + _PART
    + """\
pool=$1 record=$2; shift 2
if zpool list -H -o name "$pool" >/dev/null 2>&1; then
  for held in $(zpool status -P "$pool" | sed -n 's|^[[:space:]]*\\(/[^[:space:]]*\\).*|\\1|p'); do
    ours=
    for device; do
      disk=$(readlink -f -- "$device"); part_of "$disk"
      case ${held%/old} in "$disk" | "$part") ours=yes ;; esac
    done
    if [ -z "$ours" ]; then
      echo "the pool $pool holds $held, which this visit did not give it: export it, then clean up again" >&2; exit 1
    fi
  done
  zpool destroy "$pool" || exit 1
fi
settle
for device; do
  disk=$(readlink -f -- "$device"); part_of "$disk"
  for node in "$disk" "$part"; do
    [ -b "$node" ] || continue
    # wipefs finds nothing on a disk that cannot be read, and says that all is well
    if ! dd if="$node" of=/dev/null bs=4096 count=1 status=none; then
      echo "$node cannot be read, so the labels of $pool on it stay: wipe it when it works again" >&2; exit 1
    fi
    found=$(wipefs --noheadings --output TYPE,LABEL -- "$node") || exit 1
    if echo "$found" | grep -q "^zfs_member  *$pool\\$"; then zpool labelclear -f "$node" || exit 1; fi
  done
  if [ -e "$record" ] && [ -b "$disk" ] &&
    [ "$(sfdisk --part-type "$disk" 1 2>/dev/null)" = 6A898CC3-1DD2-11B2-99A6-080020736631 ]; then
    settle
    if [ -b "$part" ]; then partx --delete -- "$disk" || exit 1; fi
    wipefs --quiet --all --types gpt,PMBR -- "$disk" || exit 1
  fi
done"""
)

# $1 parameter, $2 file. A limit of 0 means ZFS's own choice, but setting it to 0 changes nothing once another is in
# force: what is in force goes first.
_RECORD = """\
{
  if [ "$1" = zfs_arc_max ]; then sed -n 's/^c_max  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats; fi
  cat "/sys/module/zfs/parameters/$1"
} > "$2.new" && mv -- "$2.new" "$2\""""

_SET = 'echo "$2" > "/sys/module/zfs/parameters/$1"'

# $1 pool, the rest: its devices. Not through the cache file: the pool is in none.
_IMPORT = """\
pool=$1; shift
if zpool list -H -o name "$pool" >/dev/null 2>&1; then exit 0; fi
for device; do
  shift
  disk=$(readlink -f -- "$device")
  case $disk in *[0-9]) part=${disk}p1 ;; *) part=${disk}1 ;; esac
  if [ -b "$part" ]; then disk=$part; fi
  set -- "$@" -d "$disk"
done
exec zpool import -o cachefile=none "$@" "$pool\""""

_RESTORE = """\
if [ ! -s "$2" ] || [ ! -e "/sys/module/zfs/parameters/$1" ]; then exit 0; fi
while read -r value; do echo "$value" > "/sys/module/zfs/parameters/$1" || exit 1; done < "$2\""""

_SHOW_PARAMETERS = """\
echo "zfs_prefetch_disable=$(cat /sys/module/zfs/parameters/zfs_prefetch_disable)"
sed -n 's/^c_max  *[0-9]*  */zfs_arc_max=/p' /proc/spl/kstat/zfs/arcstats"""

# $1 pool, the rest: devices to remove.
_OFFLINE = """\
pool=$1; shift
for device; do zpool offline "$pool" "$(readlink -f -- "$device")" || exit 1; done"""

# A device without its labels is a new one to ZFS, so that all data are written to it again and not only what changed.
_REPLACE = (
    SETTLE
    + _PART
    + """\
pool=$1; shift
for device; do
  disk=$(readlink -f -- "$device"); part_of "$disk"
  if [ -b "$part" ]; then zpool labelclear -f "$part" || exit 1; else zpool labelclear -f "$disk" || exit 1; fi
  settle
  zpool replace "$pool" "$disk" || exit 1
done
# One that has little to write is over in a moment, during which it is in progress too.
sleep 2
if ! zpool status "$pool" | grep -q 'resilver in progress'; then
  echo "the rebuild of $pool was over before anything could be measured: fill it first, as in fill(30%)" >&2
  exit 1
fi"""
)

# What was written lately is only counted once it is on the disks.
_SPACE = 'zpool sync "$1" && zpool list -H -p -o allocated,dedupratio "$1"'
_TABLE = 'zpool status -D -p "$1" && { zpool get -H -p -o value dedup_table_size "$1" 2>/dev/null || true; }'
_ARC = "sed -n 's/^size  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats"

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ZfsDriver(Driver):
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        if spec["mirror"] is not None and spec["layout"] != "stripe":
            return [f"zfs cannot be both {spec['layout']} and mirror={spec['mirror']}; keep one of them."]
        try:
            Layout.of(spec, inputs)
        except BadInput as error:
            return [str(error)]
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = zfs_reasons(spec, facts, self.info.tools, PROPERTIES)
        arc = spec["arc_max"]
        if arc is not None and int(arc) >= facts.memory_bytes:
            reasons.append(
                f"zfs(arc_max={human_size(int(arc))}) is no less than the machine's memory, "
                f"{human_size(facts.memory_bytes)}; make it smaller."
            )
        return [*reasons, *word_reasons("pool", spec, _NOT_IN_POOL), *word_reasons("set", spec, _NOT_IN_SET)]

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        layout = Layout.of(spec, len(below))
        sizes = [each.size_bytes for each in below if each.size_bytes is not None]
        mount_point = _mount_point(place)

        def degrade(count: int) -> list[Step]:
            members = choose(_called(spec), layout.losable(), count)
            return [
                note(place, LOST, members),
                Step(
                    sh(_OFFLINE, place.name, *(below[member].path for member in members)),
                    None,  # the pool is destroyed in any state
                    "take disks away from the pool" if count > 1 else "take a disk away from the pool",
                ),
            ]

        def rebuild(count: int) -> list[Step]:
            members = choose(_called(spec), layout.losable(), count)
            devices = [below[member].path for member in members]
            return [
                note(place, REBUILT, members),
                Step(sh(_OFFLINE, place.name, *devices), None, "remove what is to be rebuilt"),
                Step(sh(_REPLACE, place.name, *devices), None, "put it back empty and start the rebuild"),
            ]

        return Provides(
            Kind.DIRECTORY,
            mount_point,
            layout.usable(sizes) if len(sizes) == len(below) else None,
            mount=mount_point,
            name=place.name,
            filesystem="zfs",
            can={"degrade": degrade, "rebuild": rebuild, "snapshot": lambda count: snapshots(place.name, count)},
            snapshots=holding(place.name),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        layout, devices, record = Layout.of(spec, len(below)), [each.path for each in below], f"{place.dir}/bare"
        # A visit must end whatever its disks do. One that is to stay waits for them, as ZFS does by itself.
        failing = {} if place.stays else {"failmode": "continue"}
        pool = {"cachefile": "none", **failing, **words("pool", spec)}
        if spec["ashift"] is not None:
            pool["ashift"] = str(spec["ashift"])
        dataset = {each.name: each.text(value) for each, value in chosen(PROPERTIES, spec)} | words("set", spec)
        # -f: devices may differ in size. What is in use or in a pool that is imported is refused all the same.
        argv = ["-f"]
        argv += [word for name, value in pool.items() for word in ("-o", f"{name}={value}")]
        argv += [word for name, value in dataset.items() for word in ("-O", f"{name}={value}")]
        argv += ["-m", _mount_point(place), place.name, *layout.words(devices)]
        return [
            load_module(),
            *(step for name, value in _parameters(spec) for step in _set_parameter(name, value, place)),
            make_mount_point(_mount_point(place)),
            Step(sh(_CHECK, record, *devices), remove_link(record), "see that no partition table is overwritten"),
            Step(
                sh(_CREATE, *argv, timeout_s=600.0),
                sh(_DESTROY, place.name, record, *devices),
                "make the ZFS pool",
                again=sh(_IMPORT, place.name, *devices),
            ),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        pool = [*words("pool", spec), *(["ashift"] if spec["ashift"] is not None else [])]
        dataset = [each.name for each, _ in chosen(PROPERTIES, spec)] + list(words("set", spec))
        return [
            run("zpool", "status", "-P", "-p", place.name),
            sh('for device; do readlink -f -- "$device"; done', *(each.path for each in below)),
            read_notes(place),
            run("findmnt", "--noheadings", "--output", "FSTYPE,SOURCE", "--mountpoint", _mount_point(place)),
            ask_properties("zpool", ["cachefile", *pool], place.name),
            ask_properties("zfs", ["mounted", *dataset], place.name),
            *([sh(_SHOW_PARAMETERS)] if _parameters(spec) else []),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        status, resolved = output(seen, 0), output(seen, 1)
        if status is None:
            return [f"The pool {place.name} is not there: {said(seen, 0)}."]
        if resolved is None or output(seen, 2) is None:
            return [f"Cannot determine the devices of the pool: {said(seen, 1 if resolved is None else 2)}."]
        pool = read(status.stdout)
        if pool is None:
            return ["zpool does not say what is in the pool in a way that Strata understands; report this as a bug."]
        lost, rebuilt = noted(seen, 2, LOST), noted(seen, 2, REBUILT)
        devices = resolved.stdout.splitlines()
        wrong = shape_differences(Layout.of(spec, len(below)), pool, devices)
        wrong += [
            sentence
            for vdev in pool.vdevs
            for leaf in vdev.leaves
            for sentence in _leaf_differences(place.name, leaf, member_of(leaf.device, devices), lost, rebuilt)
        ]
        if pool.state not in {"ONLINE", "DEGRADED"}:
            wrong.append(f"zfs: the pool {place.name} is {pool.state}.")
        if pool.errors != "No known data errors":
            wrong.append(f"zfs: the pool {place.name} has lost data: {pool.errors}.")
        mounted = output(seen, 3)
        if mounted is None or mounted.stdout.split() != ["zfs", place.name]:
            now = " ".join(mounted.stdout.split()) if mounted else said(seen, 3)
            wrong.append(f"The mount is not that of the pool {place.name}: {now}.")
        return wrong + self._properties(spec, place, seen)

    def _properties(self, spec: Call, place: Place, seen: Sequence[Completed]) -> list[str]:
        of_pool, of_dataset = properties_of(seen, 4), properties_of(seen, 5)
        if not of_pool or not of_dataset:
            return [f"The properties of {place.name} cannot be read: {said(seen, 5 if of_pool else 4)}."]
        wrong = property_differences(place.name, chosen(PROPERTIES, spec), of_dataset)
        if spec["ashift"] is not None and of_pool.get("ashift") != str(spec["ashift"]):
            wrong.append(f"{place.name} has ashift={of_pool.get('ashift')} instead of {spec['ashift']}.")
        # ZFS refuses what it does not know; a size or an alias is shown otherwise than it was written.
        for param, now in (("pool", of_pool), ("set", of_dataset)):
            wrong += [f"{place.name} does not know {name}." for name in words(param, spec) if name not in now]
        parameters = dict(line.partition("=")[::2] for line in _lines(seen, 6))
        for name, value in _parameters(spec):
            if parameters.get(name) != str(value):
                wrong.append(f"The parameter {name} of ZFS is {parameters.get(name) or 'unknown'} instead of {value}.")
        return wrong

    def survives(self, spec: Call, inputs: int) -> int:
        # A log device that is lost costs what it alone held, a cache device nothing: any disk of a vdev may go.
        return Layout.of(spec, inputs).parity

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [
            sh(_SPACE, place.name),
            ask_properties("zfs", ["logicalused", "compressratio"], place.name),
            sh(_TABLE, place.name),
            sh(_ARC),
        ]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        space = (output(seen, 0) or _NOTHING).stdout.split()
        properties = properties_of(seen, 1)
        table, arc = output(seen, 2), output(seen, 3)
        texts = {
            "zfs.logical_bytes": properties.get("logicalused"),
            "zfs.physical_bytes": space[0] if space else None,
            "zfs.compress_ratio": properties.get("compressratio", "").removesuffix("x"),
            "zfs.dedup_ratio": space[1].removesuffix("x") if len(space) > 1 else None,
            "zfs.arc_bytes": arc.stdout.strip() if arc else None,
        }
        found = {name: float(text) for name, text in texts.items() if text and _NUMBER.fullmatch(text)}
        more = {
            "zfs.ddt_bytes": _table_bytes(table.stdout) if table else None,
            "zfs.sync_pct": _rebuilt_pct(table.stdout) if table else None,
        }
        return found | {name: value for name, value in more.items() if value is not None}


_NUMBER = re.compile(r"\d{1,18}(\.\d{1,6})?")
_NOTHING = Completed((), 1, "", "", 0.0)


def _lines(seen: Sequence[Completed], index: int) -> list[str]:
    answer = output(seen, index)
    return answer.stdout.splitlines() if answer else []


def _mount_point(place: Place) -> str:
    return place.mount or f"{place.dir}/mnt"


def _called(spec: Call) -> str:
    return f"zfs(mirror={spec['mirror']})" if spec["mirror"] is not None else f"zfs({spec['layout']})"


def _parameters(spec: Call) -> list[tuple[str, int]]:
    """Parameters of the module, and their values."""
    found = []
    if spec["prefetch"] is not None:
        found.append(("zfs_prefetch_disable", int(not spec["prefetch"])))
    if spec["arc_max"] is not None:
        found.append(("zfs_arc_max", int(spec["arc_max"])))
    return found


def _set_parameter(name: str, value: Value, place: Place) -> list[Step]:
    record = f"{place.dir}/{name}"
    return [
        Step(sh(_RECORD, name, record), sh('rm -f -- "$1" "$1.new"', record), f"note {name} to put back"),
        Step(
            sh(_SET, name, str(value)),
            sh(_RESTORE, name, record),
            f"set {name} to {value}",
            again=sh(_SET, name, str(value)),
        ),
    ]


def _leaf_differences(
    pool: str, leaf: Leaf, member: int | None, lost: frozenset[int], rebuilt: frozenset[int]
) -> list[str]:
    if leaf.replaced and member in rebuilt:
        return []  # what the rebuild takes the place of
    if member in lost:
        return [] if leaf.state == "OFFLINE" else [f"zfs: {leaf.device} of {pool} should be lost and is {leaf.state}."]
    name = leaf.device or "a device"
    why = f" ({leaf.note})" if leaf.note and not leaf.note.startswith("was ") else ""
    if leaf.state != "ONLINE":
        return [f"zfs: the pool {pool} is degraded, it lost {name}, which is {leaf.state or 'unknown'}{why}."]
    if any(leaf.errors):
        reads, writes, sums = leaf.errors
        return [f"zfs: {name} of the pool {pool} had {reads} read, {writes} write and {sums} checksum errors."]
    return []


def _rebuilt_pct(status: str) -> float | None:
    """None when nothing was rebuilt."""
    if re.search(r"^ *scan: resilvered ", status, re.MULTILINE):
        return 100.0
    done = re.search(
        r"^ *scan: resilver in progress.*\n(?:\t.*\n)*?\t.*?\b(\d{1,3}(?:\.\d{1,6})?)% done", status, re.MULTILINE
    )
    return float(done[1]) if done else None


def _table_bytes(text: str) -> float | None:
    """Memory of the deduplication table; before 2.3, where the pool cannot tell the table's size, it is per entry."""
    if re.search(r"^ dedup: no DDT entries", text, re.MULTILINE):
        return 0.0
    found = re.search(r"^ dedup: DDT entries (\d{1,15}), size .*?, ([\d.]{1,20})([BKMGT]?) in core", text, re.MULTILINE)
    if found is None:
        return None
    try:
        size = float(found[2]) * _UNITS[found[3]]
    except ValueError:
        return None
    total = re.search(r"^\d+\s*\Z", text, re.MULTILINE)
    return size if total else size * int(found[1])


DRIVER = ZfsDriver()
