"""A file system as a layer: make it with a UUID of ours, mount it, read back device, type, UUID and mount options.

What differs from one file system to the next is passed in as data and functions; nothing is inherited.

mkfs discards the whole device first where that is its default, and we leave it so, for that is what users get. Disks
start every visit in the same state without it (strata/run/safety/claims.py): `zpool create`, md, LVM and bcache discard
nothing. `mkfs=` can turn it off, and it is off on what was written over on purpose (`Provides.in_use`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from strata.errors import BadInput, Problem
from strata.layers._driver import Driver
from strata.layers._mkfs import Options
from strata.layers._options import Option, option_differences, option_reasons, written
from strata.layers._steps import mount, output, run, said, sh, standard_reasons, wipe
from strata.model import (
    Ability,
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Snapshots,
    Step,
)
from strata.units import human_size

MKFS = Param("mkfs", ParamType.TEXT, "more options for mkfs, of those that name no file or device", group="mkfs")

TOOLS = {
    "mount": "mount",
    "umount": "mount",
    "findmnt": "util-linux",
    "blkid": "util-linux",
    "wipefs": "util-linux",
    "stat": "coreutils",
}

XFS_SMALLEST_BYTES = 300 << 20
"""mkfs.xfs refuses less since xfsprogs 5.19 ("Filesystem must be larger than 300MB")."""

MAKE_TIMEOUT_S = 7200.0
"""Tables of a large disk are written out at once, so that nothing writes them during a measurement."""

DAY_S = 86400.0
"""For what reads or writes everything on a disk of many terabytes."""


def _no_reasons(spec: Call, facts: Facts) -> list[str]:
    return []


def _any_number(spec: Call, inputs: int) -> list[str]:
    return []


def _no_joining(devices: Sequence[str]) -> list[Step]:
    return []


def _no_steps(spec: Call, mount_point: str) -> list[Step]:
    return []


def _no_questions(spec: Call, device: str, mount_point: str, place: Place) -> list[Command]:
    return []


def _no_answers(spec: Call, seen: Sequence[Completed], devices: Sequence[str]) -> list[str]:
    return []


def _no_abilities(spec: Call, devices: Sequence[str], place: Place) -> Mapping[str, Ability]:
    return {}


def _no_snapshots(mount_point: str, place: Place) -> Snapshots | None:
    return None


def _no_measures(mount_point: str, place: Place) -> list[Command]:
    return []


def _no_figures(seen: Sequence[Completed]) -> dict[str, float]:
    return {}


def _none(spec: Call, inputs: int) -> int:
    return 0


def _whole(spec: Call, sizes_bytes: Sequence[int]) -> int:
    return sum(sizes_bytes)


@dataclass(frozen=True, slots=True)
class FileSystem(Driver):
    """A LayerDriver for a file system of type `info.name`."""

    info: LayerInfo
    options: tuple[Option, ...]
    exclusive: tuple[tuple[str, ...], ...]  # of each group of mount options, one at most
    make: Callable[[Call, str], list[str]]  # (spec, UUID) -> mkfs and its arguments, without the devices
    keeping: str  # words of mkfs with which it discards nothing
    takes: Options  # what `mkfs=` may hold
    sets_uuid: str  # pattern of the words that `mkfs=` may not hold, because they would change the UUID
    check: Callable[[Call, Facts], list[str]] = _no_reasons
    quotas: str = ""  # the argument with which a directory of it can be kept to a size
    arity: Callable[[Call, int], list[str]] = _any_number
    usable: Callable[[Call, Sequence[int]], int] = _whole  # upper bound of what fits, in bytes
    smallest: Callable[[Call, int], int] = _none  # bytes that mkfs wants each device to have, of so many
    unmake: Callable[[str, Sequence[str]], Command] = wipe  # (UUID, devices) -> what undoes mkfs
    join: Callable[[Sequence[str]], list[Step]] = _no_joining  # before mounting
    finish: Callable[[Call, str], list[Step]] = _no_steps  # after mounting
    ask: Callable[[Call, str, str, Place], list[Command]] = _no_questions  # beyond what is asked of every one
    anonymous: bool = False  # its mounts have a device number of their own, and not that of a device
    # (spec, what `ask` said, the kernel's names of the devices below) -> differences
    answer: Callable[[Call, Sequence[Completed], Sequence[str]], list[str]] = _no_answers
    can: Callable[[Call, Sequence[str], Place], Mapping[str, Ability]] = _no_abilities  # of the devices below
    holding: Callable[[str, Place], Snapshots | None] = _no_snapshots  # of the mount point
    losable: Callable[[Call, int], int] = _none  # how many of its devices it can lose, whichever they are
    measure: Callable[[str, Place], list[Command]] = _no_measures  # of the mount point
    measured: Callable[[Sequence[Completed]], dict[str, float]] = _no_figures  # from what `measure` said

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return self.arity(spec, inputs)

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return [
            *standard_reasons(facts, self.info.tools, self.info.name),
            *option_reasons(self.options, self.exclusive, spec, facts, self.info.name),
            *_mkfs_reasons(spec, self.takes, self.sets_uuid),
            *self.check(spec, facts),
        ]

    def survives(self, spec: Call, inputs: int) -> int:
        return self.losable(spec, inputs)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        mount_point = mount_point_of(place)
        sizes = [each.size_bytes for each in below if each.size_bytes is not None]
        least = self.smallest(spec, len(below))
        if sizes and min(sizes) < least:
            raise BadInput(
                f"{self.info.name} is not made on less than {human_size(least)}, and a device below it has "
                f"{human_size(min(sizes))}; make the disk larger (--size), or what is on it (size=)."
            )
        fits = self.usable(spec, sizes) if len(sizes) == len(below) else None
        can = self.can(spec, [each.path for each in below], place)
        quotas = bool(spec[self.quotas]) if self.quotas else None
        return Provides(
            Kind.DIRECTORY,
            mount_point,
            fits,
            mount=mount_point,
            filesystem=self.info.name,
            devices=len(below),
            quotas=quotas,
            can=can,
            snapshots=self.holding(mount_point, place),
        )

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        devices, mount_point = [each.path for each in below], mount_point_of(place)
        # Recipes come here without asking what keeps a stack from running.
        wrong = _mkfs_reasons(spec, self.takes, self.sets_uuid)
        if wrong:
            raise BadInput([Problem(reason) for reason in wrong])
        if any(each.in_use for each in below):
            spec = replace(spec, values={**spec.values, "mkfs": f"{self.keeping} {spec['mkfs'] or ''}".strip()})
        make = Step(
            run(*self.make(spec, place.uuid), "--", *devices, timeout_s=MAKE_TIMEOUT_S),
            self.unmake(place.uuid, devices),
            f"make the {self.info.name} file system",
        )
        return [
            make,
            *self.join(devices),
            *mount(self.info.name, devices, mount_point, written(self.options, spec)),
            *self.finish(spec, mount_point),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        devices, mount_point = [each.path for each in below], mount_point_of(place)
        columns = "SOURCE,TARGET,FSTYPE,OPTIONS,MAJ:MIN"
        return [
            run("findmnt", "--json", "--nofsroot", "--output", columns, "--mountpoint", mount_point),
            sh('readlink -f -- "$(findmnt --noheadings --nofsroot --output SOURCE --mountpoint "$1")"', mount_point),
            sh('for device; do readlink -f -- "$device"; done', *devices),
            run("blkid", "--probe", "--output", "export", devices[0]),
            *([] if self.anonymous else [run("stat", "--dereference", "--format=%t:%T", "--", devices[0])]),
            *self.ask(spec, devices[0], mount_point, place),
        ]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        found = _mounted(seen)
        if isinstance(found, str):
            return [found]
        wrong = []
        if found["fstype"] != self.info.name:
            wrong.append(f"The file system mounted is {found['fstype']} instead of {self.info.name}.")
        wrong += _device_differences(seen)
        wrong += _identity_differences(self.info.name, place.uuid, seen)
        if not self.anonymous:
            wrong += _number_differences(found["maj:min"], seen)
        asked = seen[4 if self.anonymous else 5 :]
        wrong += option_differences(self.options, spec, found["options"].split(","))
        below_now = output(seen, 2)
        return wrong + self.answer(spec, asked, below_now.stdout.split() if below_now else [])

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return self.measure(mount_point_of(place), place)

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        return self.measured(seen)


# $1 mount point. That there is no file at all is no failure, and duperemove ends with 22 then. Freed room counts as
# such once the file system has written that down. Prints how many bytes of it there are.
_SHARE = """\
free() { sync --file-system -- "$1" && stat --file-system --format='%f %S' -- "$1"; }
before=$(free "$1") || exit 1
said=$(duperemove -d -r -q "$1" 2>&1) || {
  code=$?
  case $said in *"No dedupe candidates found"*) ;; *) echo "$said" >&2; exit "$code" ;; esac
}
after=$(free "$1") || exit 1
freed=$(((${after% *} - ${before% *}) * ${after#* }))
echo "freed=$((freed > 0 ? freed : 0))\""""


def share_extents(mount_point: str, count: int) -> list[Step]:
    """Equal extents of all files come to share their blocks, `count` times over. Goes with the file system.

    duperemove's default: whole extents are compared, not every block within them.
    """
    find = sh(_SHARE, mount_point, timeout_s=DAY_S)
    return [Step(find, None, "find equal extents and share them") for _ in range(count)]


def mkfs_words(spec: Call) -> list[str]:
    """The words of `mkfs=`, split as a shell would. Raises BadInput for a quote that is not closed."""
    try:
        return shlex.split(str(spec["mkfs"] or ""))
    except ValueError as error:
        raise BadInput(_quoting(spec, error)) from error


def _quoting(spec: Call, error: ValueError) -> str:
    return f"mkfs={spec['mkfs']!r} cannot be split into arguments ({error}); close the quotes."


def _mkfs_reasons(spec: Call, takes: Options, sets_uuid: str) -> list[str]:
    try:
        words = mkfs_words(spec)
    except BadInput as error:
        return [str(error)]
    # A file or device named here could be one that nobody gave us.
    reasons = [
        f"mkfs= may not name files or devices, and '{word}' looks like one; leave it out."
        for word in words
        if "/" in word
    ]
    reasons += [
        f"mkfs= may not set the UUID ({word}), by which Strata knows what it made; leave it out."
        for word in words
        if re.search(sets_uuid, word)
    ]
    return reasons or takes.reasons(words)


def mount_point_of(place: Place) -> str:
    return place.mount or f"{place.dir}/mnt"


def _mounted(seen: Sequence[Completed]) -> Mapping[str, str] | str:
    """What is mounted, or a sentence that says what is wrong."""
    listed = output(seen, 0)
    if listed is None:
        return f"The file system is not mounted: {said(seen, 0)}."
    try:
        mounts = json.loads(listed.stdout)["filesystems"]
        if len(mounts) > 1:
            return f"Something else is mounted over the file system: {mounts[-1]['source']}."
        return {name: str(mounts[0][name]) for name in ("source", "fstype", "options", "maj:min")}
    except (ValueError, LookupError, TypeError):
        return "findmnt does not say what is mounted in a way that Strata understands; report this as a bug."


def _device_differences(seen: Sequence[Completed]) -> list[str]:
    source, below = output(seen, 1), output(seen, 2)
    if source is None or below is None:
        return [f"The device of the mount cannot be read: {said(seen, 2 if source else 1)}."]
    if source.stdout.strip() not in below.stdout.split():
        asked = " or ".join(below.stdout.split())
        return [f"The mount is of {source.stdout.strip()} instead of the device below, {asked}."]
    return []


def _number_differences(mounted: str, seen: Sequence[Completed]) -> list[str]:
    """Names can be links to anything; what the kernel calls the device of the mount cannot."""
    below = output(seen, 4)
    if below is None:
        return [f"The number of the device below cannot be read: {said(seen, 4)}."]
    try:
        number = ":".join(str(int(part, 16)) for part in below.stdout.strip().split(":"))
    except ValueError:
        number = below.stdout.strip()
    return [] if number == mounted else [f"The mount is of device {mounted} instead of the one below, {number}."]


def _identity_differences(filesystem: str, uuid: str, seen: Sequence[Completed]) -> list[str]:
    probed = output(seen, 3)
    if probed is None:
        return [f"blkid finds no file system on the device: {said(seen, 3)}."]
    pairs = dict(line.split("=", 1) for line in probed.stdout.splitlines() if "=" in line)
    wrong = []
    if pairs.get("TYPE") != filesystem:
        wrong.append(f"The device holds {pairs.get('TYPE', 'nothing known')} instead of {filesystem}.")
    if pairs.get("UUID", "").lower() != uuid.lower():
        wrong.append(f"The file system has the UUID {pairs.get('UUID', 'none')} instead of {uuid}.")
    return wrong
