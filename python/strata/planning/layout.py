"""Where everything of a visit will lie, decided before anything is built. Pure."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import cast

from strata.errors import BadInput
from strata.model import (
    Beside,
    Call,
    Command,
    Disk,
    Forking,
    Guest,
    GuestImage,
    Kind,
    LayerDriver,
    Node,
    Place,
    Provides,
    Stack,
    Step,
)


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """A layer with all that its driver needs to be asked anything."""

    node: Node
    driver: LayerDriver
    place: Place
    below: tuple[Provides, ...]
    provides: Provides
    tenant: int | None = None  # whose it is, from 1 on; None: everybody's

    @property
    def guest(self) -> Guest | None:
        """The machine in which it is built; None: the measured machine itself."""
        return next((lower.guest for lower in self.below if lower.guest), None)

    def steps(self) -> list[Step]:
        steps = self.driver.plan_create(self.node.call, self.below, self.place)
        mend = dict.fromkeys(command for lower in self.below for command in lower.mend)
        return [replace(step, undo=_mended(step.undo, mend)) for step in steps] if mend else steps

    def inspection(self) -> list[Command]:
        return self.driver.plan_inspect(self.node.call, self.below, self.place)


@dataclass(frozen=True, slots=True)
class Layout:
    """A stack laid out for one attempt: its layers in the order of building, and its directories."""

    layers: tuple[PlacedLayer, ...]
    directory: str  # holds everything below; the visit makes and removes it
    scratch: str  # for job files and logs, never on the stack
    tops: tuple[Provides, ...]  # of each tenant, in their order; of a stack without tenants the only one
    shares: tuple[Provides, ...] = ()  # what the fork gives to each tenant; of a stack without one nothing

    @property
    def top(self) -> Provides:
        """The first tenant's; the others' are alike."""
        return self.tops[0]

    def levels(self) -> list[list[tuple[PlacedLayer, Step]]]:
        """The steps in the order of building. Those of one layer of several tenants take turns: what is only waited
        for, such as guests that boot, goes on at the same time."""
        levels: list[list[PlacedLayer]] = []
        for placed in self.layers:
            if placed.tenant is not None and levels[-1][0].tenant is not None and levels[-1][0].node is placed.node:
                levels[-1].append(placed)
            else:
                levels.append([placed])
        return [_by_turns(level) for level in levels]

    @property
    def guests(self) -> tuple[Guest, ...]:
        """Those that its layers start, in the order in which they do."""
        return tuple(dict.fromkeys(placed.provides.guest for placed in self.layers if placed.provides.guest))

    def block_devices(self, guest: Guest | None = None, tenant: int | None = None) -> list[tuple[str, str]]:
        """(layer name, device path) of every layer that is a block device on one machine, bottom to top.

        `tenant`: only those that are this one's alone.
        """
        found = [
            (placed.node.call.name, placed.provides.path, placed.tenant)
            for placed in self.layers
            # a condition gives on what is below it: count each device once, under the layer that made it
            if placed.provides.kind is Kind.BLOCK
            and placed.provides.guest == guest
            and placed.provides.path not in {below.path for below in placed.below if below.guest == guest}
        ]
        volumes = [share.path for share in self.shares if share.kind is Kind.BLOCK and share.guest == guest]
        if volumes:
            # The volumes of the tenants instead of the one that they share.
            shared = next(placed.below[0].path for placed in self.layers if placed.driver.info.forks)
            at = [path for _, path, _ in found].index(shared)
            found[at : at + 1] = [(found[at][0], path, number) for number, path in enumerate(volumes, start=1)]
        return [(layer, path) for layer, path, whose in found if tenant is None or whose == tenant]

    def holders(self, guest: Guest | None = None) -> tuple[str, ...]:
        """The paths of everything on one machine that may hold data back, top to bottom: file systems, images and
        block devices. Of a directory of the user's, the file system and not the disks: they are not ours to flush."""
        every = [placed.provides for placed in reversed(self.layers)]
        return tuple(dict.fromkeys(own.path for own in every if own.kind in _HOLDERS and own.guest == guest))


# Of a visit that is only planned.
_NO_RUN = "0" * 32
_PORT = 10809  # a guest of a lab is told the ports that are free then

_HOLDERS = frozenset({Kind.BLOCK, Kind.DIRECTORY, Kind.IMAGE})


def _by_turns(level: Sequence[PlacedLayer]) -> list[tuple[PlacedLayer, Step]]:
    turns = zip_longest(*([(placed, step) for step in placed.steps()] for placed in level))
    return [each for turn in turns for each in turn if each is not None]


def turns(level: Sequence[tuple[PlacedLayer, Step]]) -> list[list[tuple[PlacedLayer, Step]]]:
    """The steps of a level in parts of what can be done at the same time: steps that follow each other in guests of
    which each has its own."""
    found: list[list[tuple[PlacedLayer, Step]]] = []
    for placed, step in level:
        last = {other.guest for other, _ in found[-1]} if found else {None}
        if placed.guest is None or None in last or placed.guest in last:
            found.append([(placed, step)])
        else:
            found[-1].append((placed, step))
    return found


def place_layer(
    node: Node, driver: LayerDriver, place: Place, below: tuple[Provides, ...], tenant: int | None = None
) -> PlacedLayer:
    """Return `node` on what is below it, with all that it inherits from there.

    Raises BadInput: nothing is built in a guest of another system; and as the driver does.
    """
    if any(lower.kind is Kind.GUEST for lower in below):
        raise BadInput(
            f"nothing is built in a guest from an image of your own; take {node.call.text} out, or image= of vm."
        )
    provides = _inherited(driver.provides(node.call, below, place), below)
    return PlacedLayer(node, driver, place, below, provides, tenant)


def planned(
    stack: Stack,
    drivers: Mapping[str, LayerDriver],
    disks: Sequence[Disk],
    work_dir: str = "/",
    guest_image: GuestImage | None = None,
    *,
    ports: bool = False,
    filesystem: str | None = None,
) -> Layout:
    """Return the layout of a visit that is only planned. `ports`: guests are reached through ports of the measured
    machine, as in the lab. Raises as `lay_out`."""
    count = guest_count(stack, drivers) if ports else 0
    return lay_out(
        stack,
        drivers,
        disks,
        work_dir=work_dir,
        run_uuid=_NO_RUN,
        attempt=1,
        guest_image=guest_image,
        beside=[Beside(f"{work_dir}/guest{number}", _PORT, _PORT) for number in range(1, count + 1)],
        filesystem=filesystem,
    )


def lay_out(
    stack: Stack,
    drivers: Mapping[str, LayerDriver],
    disks: Sequence[Disk],
    *,
    work_dir: str,
    run_uuid: str,
    attempt: int,
    guest_image: GuestImage | None = None,
    beside: Sequence[Beside] = (),
    filesystem: str | None = None,
) -> Layout:
    """`disks` holds at least as many of each role as the stack takes; `work_dir` is absolute. `beside`: one for each
    guest of the stack, where the measured machine is a lab machine. `filesystem`: what a directory of the
    user's that it stands on is of, where that is known.

    What stands above a layer that starts a guest is in that guest.
    """
    directory = f"{work_dir}/{run_uuid[:8]}-{attempt}"
    free: dict[str, list[Disk]] = {}
    for disk in disks:
        free.setdefault(disk.role, []).append(disk)
    placed: list[PlacedLayer] = []
    reaches = iter(beside)

    def build(node: Node) -> Provides:
        return put(node, tuple(build(lower) for lower in node.inputs), None)

    def put(node: Node, below: tuple[Provides, ...], tenant: int | None) -> Provides:
        number = len(placed)
        place = Place(
            name=f"strata-{run_uuid[:6]}-{attempt}-{number}",
            dir=f"{directory}/{number}",
            uuid=_uuid(run_uuid, attempt, number),
            guest_image=guest_image,
            scratch=f"{directory}/scratch",
            beside=next(reaches, None) if drivers[node.call.name].info.starts_guest else None,
        )
        if node.call.name == "disk":
            disk = free[str(node.call["role"])].pop(0)
            grant = disk.device or f"{directory}/{number}.img"
            below = (Provides(Kind.GRANT, grant, disk.size_bytes, ours=disk.device is None),)
        layer = place_layer(node, drivers[node.call.name], place, below, tenant)
        if node.call.name == "existing":
            layer = replace(layer, provides=replace(layer.provides, filesystem=filesystem))
        placed.append(layer)
        return layer.provides

    fork, above = _forked(stack.top, drivers)
    if fork is None:
        top = build(stack.top)
        return Layout(tuple(placed), directory, f"{directory}/scratch", (top,))
    build(fork)
    forking = placed[-1]
    driver = cast("Forking", forking.driver)
    shares = tuple(driver.shares(fork.call, forking.below, forking.place))
    (whole,) = forking.below
    tops = [
        replace(
            share,
            rehearsals=whole.rehearsals,
            in_use=whole.in_use,
            meanwhile=whole.meanwhile,
            data_steps=whole.data_steps,
            mend=whole.mend,
            on_existing=whole.on_existing,
        )
        for share in shares
    ]
    for node in above:
        tops = [put(node, (below,), tenant) for tenant, below in enumerate(tops, start=1)]
    return Layout(tuple(placed), directory, f"{directory}/scratch", tuple(tops), shares)


def guest_count(stack: Stack, drivers: Mapping[str, LayerDriver]) -> int:
    """How many guests run at once. Raises BadInput as `lay_out` does for a stack with several forks."""
    return len(guest_calls(stack, drivers))


def guest_calls(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[Call]:
    """The layer of every guest that runs at once. Raises as `guest_count`."""
    starting = [each for each in copies(stack, drivers) if drivers[each[0].call.name].info.starts_guest]
    return [node.call for node, count in starting for _ in range(count)]


def copies(stack: Stack, drivers: Mapping[str, LayerDriver]) -> list[tuple[Node, int]]:
    """Every layer, and how often it is there: above a fork once for each tenant. Raises as `guest_count`."""
    fork, above = _forked(stack.top, drivers)
    count = int(fork.call["count"] or 1) if fork is not None else 1
    return [(node, count if any(node is each for each in above) else 1) for node in stack.top.walk()]


def _forked(top: Node, drivers: Mapping[str, LayerDriver]) -> tuple[Node | None, list[Node]]:
    """The fork of a stack, and what stands above it, bottom to top. Raises BadInput for one that has several."""
    forks = [node for node in top.walk() if drivers[node.call.name].info.forks]
    if not forks:
        return None, []
    above: list[Node] = []
    node = top
    while node is not forks[0] and len(node.inputs) == 1:
        above.insert(0, node)
        (node,) = node.inputs
    if node is not forks[0] or len(forks) > 1:
        raise BadInput(
            f"{forks[0].call.text} has to be the only fork of its stack, with one chain of layers above it; take the "
            "others out, or join the inputs below it."
        )
    return node, above


def _inherited(own: Provides, below: Sequence[Provides]) -> Provides:
    """With what can be done to the layers below it; of the same ability the nearest holds."""
    can = {name: ability for lower in below for name, ability in lower.can.items()}
    rehearsals = max((lower.rehearsals for lower in below), default=0)
    in_use = own.in_use or any(lower.in_use for lower in below)
    on_existing = own.on_existing or any(lower.on_existing for lower in below)
    mend = dict.fromkeys(command for each in (*below, own) for command in each.mend)
    meanwhile = tuple(dict.fromkeys(each for lower in (*below, own) for each in lower.meanwhile))
    data_steps = tuple(dict.fromkeys(each for lower in (*below, own) for each in lower.data_steps))
    if own.guest is not None and all(lower.guest is None for lower in below):
        # What is below is done by commands of the machine outside, and a condition above runs its own inside.
        return replace(
            own,
            rehearsals=max(own.rehearsals, rehearsals),
            in_use=in_use,
            on_existing=on_existing,
            meanwhile=meanwhile,
            data_steps=data_steps,
        )
    return replace(
        own,
        can={**can, **own.can},
        snapshots=own.snapshots or next((lower.snapshots for lower in reversed(below) if lower.snapshots), None),
        rehearsals=max(own.rehearsals, rehearsals),
        in_use=in_use,
        on_existing=on_existing,
        meanwhile=meanwhile,
        data_steps=data_steps,
        mend=tuple(mend),
        guest=own.guest or next((lower.guest for lower in below if lower.guest), None),
    )


def _mended(undo: Command | None, mend: Iterable[Command]) -> Command | None:
    """`undo`, after what is below it was made to work again; whether that succeeded shows in the undo."""
    if undo is None:
        return None
    script = "".join(f"{shlex.join(command.argv)}\n" for command in mend) + 'exec "$@"'
    return replace(undo, argv=("sh", "-c", script, "sh", *undo.argv))


@lru_cache(maxsize=256)  # a plan lays out thousands of stacks as the same attempt
def _uuid(run_uuid: str, attempt: int, number: int) -> str:
    return str(uuid.uuid5(uuid.UUID(run_uuid), f"{attempt}/{number}"))


# $1 the directory. What is mounted below it is not ours to remove: a bind mount is on the same file system, and rm
# would walk into it.
_REMOVE = """\
real=$(readlink -e -- "$1") || exit 0
mounted=$(findmnt --noheadings --list --output TARGET | grep -F -- "$real/")
if [ -n "$mounted" ]; then echo "still mounted below $1, unmount it: $mounted" >&2; exit 1; fi
exec rm --recursive --force --one-file-system -- "$1\""""


def directory_step(layout: Layout) -> Step:
    """The first step of a visit and, undone, its last: every directory that it uses on the measured machine."""
    # Without --parents: the directory must be new, for removing the visit removes it with all that is in it.
    directories = [layout.directory, layout.scratch, *_places(layout, None)]
    return Step(
        do=Command(("mkdir", "--", *directories)),
        undo=Command(("sh", "-c", _REMOVE, "sh", layout.directory)),
        why="make the directories of the visit",
    )


def guest_directory_step(layout: Layout, guest: Guest) -> Step:
    """The same in a guest that has just started, which goes with all that is in it."""
    do = Command(("mkdir", "--parents", "--", layout.scratch, *_places(layout, guest)))
    return Step(do, None, "make the directories of the visit in the guest")


def _places(layout: Layout, guest: Guest | None) -> list[str]:
    return [placed.place.dir for placed in layout.layers if placed.guest == guest]
