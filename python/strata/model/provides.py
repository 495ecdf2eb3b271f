"""What a built layer gives to the layer above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from strata.model.kinds import Kind
from strata.model.place import Guest
from strata.model.step import Command, Step


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What a layer does while a workload is measured: `begin` leaves it in the background, and `end` waits for its end.
    Both on the machine `guest`; None: the measured one."""

    begin: Command
    end: Command
    guest: Guest | None = None


@dataclass(frozen=True, slots=True)
class DataStep:
    """What a layer does once the data of a workload exist: after they were prepared and written out, and before they
    are measured. Both commands run on the machine `guest`; None: the measured one."""

    do: Command
    reset: Command | None = None  # removes what an earlier trial left of it, before the next one's data are prepared
    guest: Guest | None = None


Ability = Callable[[int], "list[Step]"]
"""The steps that do something N times to a layer that was built: hold three snapshots, lose one disk.

Raises BadInput with a sentence where these arguments of the layer cannot (a raid0 that is to lose a disk).
"""


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots that a layer can hold of what it stores, while workloads are measured."""

    # So many of them; the undo of a step removes one when the visit ends, None where it goes with the layer. Raises
    # BadInput as an `Ability` does.
    take: Ability
    drop: Command  # removes all of them, and waits until their room is free; succeeds where there are none
    # Prints NAME=VALUE lines: `held`, how many there are; `shared`, bytes of data that one of them refers to; `room`,
    # bytes that the data and all snapshots take together.
    look: Command


Split = Callable[[int], "tuple[list[Step], list[Provides]]"]
"""The steps that make so many volumes of a block device, one for each tenant, and what these are.

Raises BadInput with a sentence where its arguments do not allow it.
"""


@dataclass(frozen=True, slots=True)
class Provides:
    kind: Kind
    path: str  # absolute: device node (may be a symlink), directory, image file, socket
    size_bytes: int | None = None
    ours: bool = True  # False: an operator's device or directory, where nothing may be left behind or overwritten
    on_existing: bool = False  # it, or something below it, is a directory of the user's
    mount: str | None = None  # DIRECTORY: the mount point it lies on, when we mounted it
    name: str | None = None  # what the layer's own tools call it: a pool, a volume group and volume
    filesystem: str | None = None  # DIRECTORY: its type, where that is known: "btrfs"
    devices: int = 1  # DIRECTORY: so many block devices are joined by the file system itself
    quotas: bool | None = None  # DIRECTORY: whether a part of it can be kept to a size; None: not known
    thin_pool: str | None = None  # BLOCK: the pool that it is a thin volume of, by the name of device mapper
    rehearsals: int = 0  # unmeasured runs of every workload before the measured one
    meanwhile: tuple[Meanwhile, ...] = ()  # what goes on while workloads above it are measured
    data_steps: tuple[DataStep, ...] = ()  # what is done to the data of workloads above it before they are measured
    held: bool = False  # snapshots are held of it: none of them has what a layer above keeps in a volume of its own
    in_use: bool = False  # written over on purpose: what is put on it must not discard all of it
    inside: tuple[str, ...] = ()  # CONTAINER: what precedes a command so that it runs where `path` is
    # GUEST: on the machine outside, the file with the number of the process that is the guest
    pid_file: str | None = None
    # CONTAINER: ends what a trial left running in there, which its end outside does not reach, and prints the names
    sweep: Command | None = None
    # commands that end a failure on purpose of it or of what is below; they precede every undo of what is above
    mend: tuple[Command, ...] = ()
    split: Split | None = field(compare=False, hash=False, repr=False, default=None)  # BLOCK: how tenants share it
    guest: Guest | None = None  # the machine that `path` is in; None: the measured machine itself
    snapshots: Snapshots | None = field(
        compare=False, hash=False, repr=False, default=None
    )  # of it, or of what is below
    # what can be done to it or to what is below it, by the name of the ability
    can: Mapping[str, Ability] = field(compare=False, hash=False, repr=False, default_factory=dict)
