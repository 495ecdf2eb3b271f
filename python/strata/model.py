"""The words of Strata as plain frozen data. No behaviour beyond looking things up, no imports of ours but errors.

Units are in names (`_s` seconds, `_bytes` bytes); a missing value is None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

Value = bool | int | float | str

# What a disk does with a write that it has acknowledged: lost without power unless flushed, safe in a cache, or none.
WriteCache = Literal["volatile", "protected", "none"]


class Kind(StrEnum):
    """What a layer gives to the layer above it."""

    BLOCK = "block"  # a block device
    DIRECTORY = "directory"  # a directory on a mounted file system
    IMAGE = "image"  # a disk image file
    GUEST = "guest"  # a running virtual machine
    ENGINE = "engine"  # a container engine
    CONTAINER = "container"  # a directory in a running container, where what runs on a directory can run
    GRANT = "grant"  # what the operator gave: a loop file of ours or a claimed device; only `disk` sits on it


# ---------------------------------------------------------------- what can be written


class ParamType(StrEnum):
    FLAG = "flag"  # bare name, or name=on|off; a bool
    CHOICE = "choice"  # one of `choices`
    SIZE = "size"  # bytes, int
    TIME = "time"  # seconds, float
    PERCENT = "percent"  # fraction, float
    INT = "int"
    FLOAT = "float"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a layer or workload."""

    name: str
    type: ParamType
    about: str
    default: Value | None = None  # None: not passed on, the tool's own default holds
    choices: tuple[str, ...] = ()  # CHOICE only
    positional: bool = False  # may be written without its name: md(raid10), fill(80%)
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False
    # what it is an argument of, for the reference ("mkfs", "mount", ""), and for drivers that pass a group on
    group: str = ""
    file: bool = False  # the absolute path of a file on the machine it is built on, which has to be there beforehand


@dataclass(frozen=True, slots=True)
class Work:
    """How long a processor that has nothing else to do takes for something; for the plan's estimate of the time only.

    Of what was measured (docs/test-full.md). Several at once share the processors.
    """

    native_s: float = 0.0  # on the machine itself, or with KVM
    emulated_s: float = 0.0  # where QEMU emulates the processor


@dataclass(frozen=True, slots=True)
class Brought:
    """A way to write a layer for which the user has to bring something that no machine can be asked for."""

    text: str  # "vm(image=/PATH)"
    values: Mapping[str, Value]  # the arguments, for asking whether all else is there
    tools: tuple[str, ...]  # programs that this way calls
    what: str  # a sentence


@dataclass(frozen=True, slots=True)
class Flaw:
    """What versions of a program from `since` on, and before `mended`, do not do although they are asked to."""

    asks: str  # as in `LayerInfo.lacks`
    program: str  # of `LayerInfo.tools`
    since: tuple[int, ...]
    mended: tuple[int, ...]
    why: str  # and what to do instead


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """What the expression language, the planner and the reference need to know of a layer."""

    name: str
    about: str  # one sentence
    params: tuple[Param, ...]
    accepts: frozenset[Kind]  # kinds it sits on; empty: a source, at the start of a chain
    provides: Kind | None  # None: passes through what is below (a condition)
    many: bool = False  # True: joins all inputs into one; False: applied to each input
    tools: Mapping[str, str] = field(default_factory=dict)  # program that it calls -> its Debian package
    metrics: tuple[Metric, ...] = ()  # figures that it reports after every trial; the driver is then `Metered`
    offers: frozenset[str] = frozenset()  # abilities that conditions above may ask for: "snapshot", "degrade" ...
    needs: str = ""  # the ability that something below must offer
    forks: bool = False  # what stands above it is there once for each tenant; the driver is then `Forking`
    queue: bool | None = True  # BLOCK: it queues requests, so has an I/O scheduler. False: bio-based. None: as below it
    on_queue: bool = False  # it can only stand on a block device that queues requests
    starts_guest: bool = False  # what stands above it is in a machine of its own, which it starts
    forgets: Mapping[str, Value] = field(default_factory=dict)  # arguments by which it keeps nothing that is written
    last: bool = False  # only layers that build nothing may stand on it: it holds for the workload's own processes
    deployed: bool = True  # False: a state or an instrument of measurements, which no recipe builds to stay
    # what a workload may ask of an engine (`WorkloadInfo.asks`) and this one has not -> why, and what to do instead
    lacks: Mapping[str, str] = field(default_factory=dict)
    lacks_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # the same, once that argument is given
    flaws: tuple[Flaw, ...] = ()  # the same of versions
    only_for: Mapping[str, str] = field(default_factory=dict)  # program of `tools` -> what it is needed for alone
    asks_by: Mapping[str, str] = field(default_factory=dict)  # argument -> what it asks of the engine below
    work: Work = Work()  # what building one takes, where that is seconds
    brought: tuple[Brought, ...] = ()  # what `strata doctor` lists by itself


Merge = Literal["sum", "mean", "largest", "smallest", "worst", "none"]
"""How the figures of several tenants become one. "worst" takes that of the tenant for which it is worst, under a name
of its own, since it is not that of all: percentiles have no sum and no mean. "none": there is no figure of all."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A named figure, declared once. `unit` is UCUM-like text: "IOPS", "MiB/s", "ms", "s", "%", "bytes"."""

    name: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    about: str = ""
    merge: Merge = field(default="worst", compare=False)  # not stored, and so no part of what is compared


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    name: str  # "fio/randrw-75-25"; a family that takes a path ends in a colon: "fio:", "command:"
    about: str
    params: tuple[Param, ...]
    metrics: tuple[Metric, ...]
    primary: str  # name of the metric that decides
    accepts: frozenset[Kind]
    variants: tuple[str, ...] = ()  # "study": run to its end as published
    tools: Mapping[str, str] = field(default_factory=dict)
    in_guest: bool = False  # only where the target is in a guest
    on: str = ""  # the layer that its stack must have
    asks: str = ""  # what the engine has to be able to, beside the life of containers: "build", "copy" ...
    asks_by: Mapping[str, str] = field(default_factory=dict)  # the same, once that argument is given
    memory: str = ""  # the argument that says how much memory the machine has that it starts itself
    reaches_below: bool = False  # the devices or volumes under its directory too: not in a directory of the user's


Catalogue = Mapping[str, LayerInfo]
WorkloadCatalogue = Mapping[str, WorkloadInfo]


# ---------------------------------------------------------------- what was written, resolved


@dataclass(frozen=True, slots=True)
class Call:
    """A layer or workload with its arguments resolved. Two calls are equal when their canonical texts are."""

    name: str
    text: str  # canonical: arguments in the driver's order, defaults left out, units normalised
    # every param, defaults in; for a path family also "content", the text of the file, and "file", where it lies
    values: Mapping[str, Value | None] = field(compare=False, hash=False, repr=False)
    variant: str | None = None  # workloads: what follows "@"
    path: str | None = None  # workloads of a path family: what follows ":"
    tenant: int | None = None  # workloads: the tenant that they are for, from 1 on; None: all that there are

    def __getitem__(self, param: str) -> Value | None:
        return self.values[param]


@dataclass(frozen=True, slots=True)
class Node:
    """A layer on its inputs. A disk is a node whose call is named "disk" and whose values hold its "role"."""

    call: Call
    inputs: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Every node, inputs before what sits on them, left to right: the order of building.

        Equal nodes are different things (four disks): the walk yields one per place in the tree.
        """
        for below in self.inputs:
            yield from below.walk()
        yield self


@dataclass(frozen=True, slots=True)
class Stack:
    text: str  # canonical; the identity of the stack everywhere
    top: Node = field(compare=False, hash=False, repr=False)
    # the level of every factor of the matrix this stack came from, for models of factor effects
    factors: Mapping[str, str] = field(compare=False, hash=False, repr=False, default_factory=dict)

    def disks(self) -> dict[str, int]:
        """How many disks of each role it takes."""
        count: dict[str, int] = {}
        for node in self.top.walk():
            if node.call.name == "disk":
                role = str(node.call["role"])
                count[role] = count.get(role, 0) + 1
        return count


# ---------------------------------------------------------------- the plan of a visit


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start on a host. Never a shell line: where a shell is needed, argv names it."""

    argv: tuple[str, ...]
    timeout_s: float = 600.0
    stdin: str | None = None
    beside: bool = False  # on the controller's machine, beside the lab machine that is measured


@dataclass(frozen=True, slots=True)
class Step:
    """One change to a host. `undo` must succeed even if `do` never ran or stopped half way."""

    do: Command
    undo: Command | None
    why: str  # "make the ext4 file system"; ends up in the journal, progress and the report
    # brings it back after the machine has started anew, and changes nothing where it is there; None: it lasts by itself
    again: Command | None = None


@dataclass(frozen=True, slots=True)
class GuestImage:
    """What guests start from, on the machine that starts them: a kernel and a system in read-only memory."""

    directory: str  # absolute; holds its files, of which `key` and `known_hosts` are for ssh into the guest
    accel: Literal["kvm", "tcg"] = "tcg"
    boot: tuple[str, ...] = ()  # arguments of QEMU, beside those of a machine with NVDIMMs
    ssh: tuple[str, ...] = ("ssh",)  # the client's command but for `-p PORT -- root@127.0.0.1`


BOOT_TIME = "/run/strata-boot-s"
"""In a guest: how long it took from its start to its first command, in seconds; where it was measured."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A virtual machine that a layer starts. Ending it is the undo of all that was done inside."""

    name: str
    # on the machine that started it; holds `port` (of 127.0.0.1, leads to its ssh), `pid`, `console` and `boot_s`
    dir: str
    image: GuestImage
    memory_bytes: int = 0
    beside: bool = False  # started on the controller's machine, beside the lab machine that its disk is in
    port: int | None = None  # of 127.0.0.1 on the controller's machine, leads to its ssh; None: that in `dir` does


@dataclass(frozen=True, slots=True)
class Beside:
    """How a guest of a lab machine and what is on the controller's machine reach each other: one beside the lab machine
    its disk, the controller one within. And where the former may put things on the controller's machine."""

    dir: str  # absolute, on the controller's machine; removed with the lab machine
    port: int  # of 127.0.0.1 there
    lab_port: int  # of the lab machine, where `port` leads


@dataclass(frozen=True, slots=True)
class Place:
    """Where one layer of one visit may put things. Both are unique on the machine while the visit lives."""

    name: str  # [a-z0-9-]{1,24}: for arrays, volume groups, pools, guests
    dir: str  # absolute; exists, empty, removed with the visit
    uuid: str  # deterministic; a file system or table made with it can be told from anybody else's
    guest_image: GuestImage | None = None  # for layers that start a guest; None: this machine has none
    scratch: str = ""  # where job files and logs of trials will lie, never on the stack
    beside: Beside | None = None  # for layers that start a guest; None: it is started where its disk is
    mount: str | None = None  # where its file system is mounted, for one that is to stay; None: inside `dir`
    stays: bool = False  # of a recipe: it is built to be used, without what isolates a measurement


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


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command left behind."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float  # by the host's monotonic clock


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that the operator gave, or a file that we make."""

    role: str
    size_bytes: int
    device: str | None = None  # stable by-id path of a claimed device; None: a sparse file of ours
    model: str | None = None  # the model that sets its speed; None: as fast as what carries it
    write_cache: WriteCache | None = None  # None: what the device or the model says
    # Of a claimed device that this run holds: which one it is, whatever its stable id leads to later.
    identity: str | None = field(default=None, compare=False)
    keep_blocks: bool = field(default=False, compare=False)  # Of such a device: it is not discarded before visits.


@dataclass(frozen=True, slots=True)
class Testbed:
    """Where a campaign builds and measures. All but `kind` and `host` are of the lab, and mean nothing elsewhere."""

    kind: Literal["local", "lab", "ssh"] = "local"
    host: str | None = None  # ssh: the machine, as the ssh client knows it
    debian: int = 13  # the release that the lab machine is made of
    clock: Literal["real", "virtual"] = "real"  # virtual: instructions are counted, and every figure is exact
    memory_bytes: int = 2 << 30  # of the lab machine, the modelled disks of the virtual clock included
    cpus: int = 2
    mips: int = 1000  # millions of instructions that its processor carries out in a second of the virtual clock
    kernel: str | None = None  # "6.1", "6.12" ...; None: the release's own
    features: frozenset[str] = frozenset()  # package groups beyond the base: "zfs", "containers", "postgres", "qemu"

    @property
    def repeats(self) -> Literal["rounds", "seeds"]:
        """What further visits of a stack are called, and the option that asks for them."""
        return "seeds" if self.clock == "virtual" else "rounds"


# ---------------------------------------------------------------- what a machine is


@dataclass(frozen=True, slots=True)
class Facts:
    """Read once per run. Pure functions decide from it what can run."""

    hostname: str
    kernel: tuple[int, int, int]
    kernel_text: str
    os: str
    cpu_model: str
    cpus: int
    memory_bytes: int
    root: bool
    filesystems: frozenset[str]  # what the kernel can mount now or by a module it has
    tools: Mapping[str, str]  # program -> version text, for every program found
    schedulers: frozenset[str]  # offered for the disks given (loop devices when none were)
    free_bytes: int  # where sparse files would lie
    machine_id: str = ""
    # kernel modules that matter to storage, loadable or built in, with `_` for `-`: "dm_thin_pool", "raid10", "zfs"
    modules: frozenset[str] = frozenset()
    caveats: tuple[str, ...] = ()  # sentences that must stand beside every figure measured here
    cgroups: frozenset[str] = frozenset()  # controllers by the version that has them: "1:memory", "2:hugetlb"
    # of "newuidmap", "newgidmap", "subuid" and "subgid": what there is for this user's own containers; and
    # "subuid:NAME", "subgid:NAME" for every user who has ids for theirs
    id_maps: frozenset[str] = frozenset()
    io_control: str = ""  # the version of cgroups by which I/O can be limited: "1", "2"; "": by none
    without: frozenset[str] = frozenset()  # known to be no part of the running kernel: "xfs quotas", "ext4 quotas"
    emulated: bool = False  # its processor is emulated by QEMU
    io_uring_disabled: str = ""  # kernel.io_uring_disabled, where that keeps this user from io_uring: "1", "2"
    ticks_per_s: int | None = None  # CONFIG_HZ of the running kernel; None: not known

    @property
    def described(self) -> str:
        """The machine in a few words, for people."""
        return f"{self.cpu_model}, kernel {self.kernel_text}, {self.os}"

    @property
    def io_uring_lacking(self) -> str:
        """Why there is no io_uring here, and what to do, but for what to take instead; "": there is one.

        Sources: io_uring_setup(2), since Linux 5.1; the kernel's admin-guide/sysctl/kernel, since 6.6.
        """
        if self.kernel < (5, 1):
            return f"The kernel {self.kernel_text} has no io_uring; boot Linux 5.1 or newer"
        if self.io_uring_disabled:
            return (
                f"io_uring is switched off here (kernel.io_uring_disabled is {self.io_uring_disabled}); switch it on "
                "with `sysctl kernel.io_uring_disabled=0`"
            )
        return ""


# ---------------------------------------------------------------- drivers


class LayerDriver(Protocol):
    """One file per layer. Everything here is pure: drivers plan and read, `run` executes."""

    info: LayerInfo

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        """What is wrong with this number of inputs (a RAID level wants more devices); [] = nothing."""

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        """Every reason at once, as sentences with the next thing to do; [] = can run. Never raises."""

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        """What the layer above will find. Known before anything is built: paths are chosen, not discovered."""

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        """The steps that build it. Tear-down is their undos, newest first."""

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        """Read-only commands whose output says what is there."""

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        """What was asked for but is not so, from the outputs of `plan_inspect`; [] = as asked."""


class Metered(LayerDriver, Protocol):
    """A driver with `info.metrics`: what it reports of itself after every trial."""

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        """Read-only commands."""

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        """Figures by the names in `info.metrics`; what could not be read is left out."""


class Forking(LayerDriver, Protocol):
    """A driver with `info.forks`."""

    def shares(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Provides]:
        """What each tenant gets, in their order."""


@runtime_checkable
class Redundant(Protocol):
    """A driver that keeps more than one copy of what it is given."""

    def survives(self, spec: Call, inputs: int) -> int:
        """How many of its inputs it can lose, whichever they are, with all data still there."""


@runtime_checkable
class Caching(Protocol):
    """A driver whose last input is a cache of the others."""

    def holds_copies(self, spec: Call) -> bool:
        """Whether the cache holds nothing that is not below it too, so that its loss costs no data."""


@dataclass(frozen=True, slots=True)
class Instead:
    """What a recipe writes instead of an argument that was measured, and why."""

    value: Value
    why: str  # a clause, without a full stop


@runtime_checkable
class Staying(Protocol):
    """A driver some of whose arguments suit measurements only: fresh disks that hold nothing but zeros, small pools."""

    def to_stay(self, spec: Call) -> Mapping[str, Instead]:
        """What a recipe puts in their place, by the names of the arguments."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a trial runs. `path` is a fresh directory, or a block device whose content may be overwritten."""

    kind: Kind
    path: str
    size_bytes: int | None
    on_existing: bool = False  # what lies below belongs to the user: nothing but `path` may be touched


@dataclass(frozen=True, slots=True)
class TrialOutput:
    """What a workload left behind, for its `read`."""

    exit_code: int
    wall_s: float  # of the measured command, by the host's monotonic clock
    stdout: str
    stderr: str
    files: Mapping[str, str]  # name in `collect` -> content; absent when the file was not written


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """What a workload did to its target in a trial, where that is one plain pattern."""

    random: bool  # at even random places; else in order
    block_bytes: int
    span_bytes: int  # of the target that it reaches; less than that where it is not known exactly
    depth: int  # requests at a time, of all jobs together
    direct: bool  # past the page cache
    durable: bool  # each write is acknowledged when it is on stable storage (O_DSYNC, or an fsync after it)
    seconds: float
    reads_per_s: float
    writes_per_s: float


LARGEST_FIGURE = 1e30
"""What is stored of a figure at most: products and quotients of a few stay finite."""


@dataclass(frozen=True, slots=True)
class Measured:
    metrics: Mapping[str, float]  # names that the workload declared, or that are in `extra`
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)  # metric -> (s, value) at 1 s
    groups: tuple[int, ...] = ()  # places in the series where a further group of jobs begins, after the one before
    bytes_read: int | None = None  # by the application
    bytes_written: int | None = None
    extra: tuple[Metric, ...] = ()  # figures a user's script named itself
    notes: tuple[str, ...] = ()  # shown beside the trial
    pattern: AccessPattern | None = None
    raw: Mapping[str, Any] | None = None  # what it was read from, by strata/run/trials/records.py


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A trial as data: nothing in it depends on talking to the machine while it runs."""

    prepare: tuple[Command, ...]  # off the clock; caches are dropped after it
    measure: Command  # on the clock
    collect: Mapping[str, str]  # name -> path of a file to bring back
    put: Mapping[str, str] = field(default_factory=dict)  # path on the host -> content, before `prepare`
    expect_s: float | None = None  # how long `measure` should take, when that is known and the same on every machine
    work: Work = Work()  # what it takes beyond that, by the machine
    buffered: bool = False  # goes through the page cache: marked as cached unless the data set is large enough
    unsynced: bool = False  # the figure that decides ends before the sync: it is that of the page cache
    uses_up: bool = False  # `measure` needs what was prepared as it was, and changes it: prepared again before another
    earlier: bool = False  # the figure is of what was done before: what machines did meanwhile says nothing of it
    cleanup: Step | None = (
        None  # of what `measure` changes beside its directories: `do` goes before it, `undo` after it
    )
    gated: Command | None = None  # `measure` has a start of its own, and so passes the gate of strata/gate.py after it


class Workload(Protocol):
    info: WorkloadInfo

    def primary_of(self, spec: Call) -> Metric:
        """The metric that decides: `info.primary`, but for `@study`, which its run time decides."""

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        """As for layers."""

    def checks(self, spec: Call) -> list[Command]:
        """Commands that touch nothing and must succeed before a campaign starts (a job file that fio accepts)."""

    def data_bytes(self, spec: Call) -> int:
        """How much room it needs in the target; 0 if little."""

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        """`scratch` is an empty directory outside the target for job files and logs."""

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        """Raises WorkloadFailed with the reason when there is no figure to trust."""


@runtime_checkable
class Hungry(Protocol):
    """A workload whose program takes so much memory for itself that a guest may not have it, or a layer that keeps its
    data in memory."""

    def memory_bytes(self, spec: Call) -> int:
        """All of its threads together, the page cache left out; of a layer, what it keeps when it is full."""


# ---------------------------------------------------------------- results


class VisitState(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"  # ended and removed, whatever the verdicts


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"  # no figure
    INVALID = "invalid"  # a figure that an instrument check rejects; kept, never ranked


@dataclass(frozen=True, slots=True)
class TrialResult:
    visit: int
    stack: str
    round: int  # 0-based; every stack is visited once in a round
    order: int  # position in the whole run, 0-based
    workload: str  # canonical text of the workload's call
    outcome: Outcome
    reason: str | None  # why it failed or is invalid
    started_at: float  # Unix time by the host, seconds
    wall_s: float | None
    metrics: Mapping[str, float]
    series: Mapping[str, tuple[tuple[float, float], ...]]  # 1 s series of workload and machine figures
    flags: tuple[str, ...]  # "unsteady", "cached", "memory" ... each explained in the report
    notes: tuple[str, ...]
    number: int = 0  # of its files in samples/


@dataclass(frozen=True, slots=True)
class StepTime:
    visit: int
    stack: str
    layer: str  # canonical text of the layer's call
    why: str
    create_s: float | None
    remove_s: float | None


@dataclass(frozen=True, slots=True)
class WorkloadView:
    text: str
    name: str
    primary: Metric
    metrics: Mapping[str, Metric]


@dataclass(frozen=True, slots=True)
class Skipped:
    stack: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedVisit:
    visit: int
    stack: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Loss:
    """An attempt at a visit that ended with its machine. It says nothing of the stack, and does not count."""

    visit: int
    stack: str
    round: int
    reason: str
    console: str  # the last lines that the machine wrote; "" when there are none


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a program of a failed trial said, or a file that it left (as if typed out). Long texts by their end."""

    visit: int
    stack: str
    workload: str
    command: str  # as typed
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Event:
    at: float  # Unix time, seconds
    kind: str  # "decision", "quarantine", "warning", "interrupted", "resumed", "budget" ...
    text: str


Design = Literal["auto", "rounds", "race", "adaptive"]
"""How visits are chosen; "auto": by the number of stacks and what they have in common (`design.choice`)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How the campaign decides."""

    rounds: int = 5
    within: float = 0.03  # stacks closer than this fraction are as good as each other
    confidence: float = 0.95
    budget_s: float | None = None
    design: Design = "rounds"
    certify: bool = False  # after the design is sure: fresh rounds of the shortlist, judged without the model
    objective: str = ""  # as written (`analysis.objective`); "": all workloads weigh the same


@dataclass(frozen=True, slots=True)
class View:
    """Everything stored about one run, frozen: what analysis and reports get, and all they get."""

    campaign: str
    about: str
    seed: int
    rule: Rule
    stacks: tuple[str, ...]  # canonical, in the order of the campaign; skipped ones too
    workloads: tuple[WorkloadView, ...]
    trials: tuple[TrialResult, ...]  # of visits that are done
    steps: tuple[StepTime, ...]
    skipped: tuple[Skipped, ...]
    failed: tuple[FailedVisit, ...]
    events: tuple[Event, ...]
    visits_planned: int
    visits_done: int
    facts: Facts | None
    versions: Mapping[str, str]  # strata, engine, and every tool used
    commands: Mapping[str, tuple[str, ...]]  # stack -> the commands of its first visit, as typed
    disks: tuple[Disk, ...]
    machine_metrics: Mapping[str, Metric] = field(default_factory=dict)  # recorded beside every trial
    halted: tuple[Skipped, ...] = ()  # visited before, but cannot run any more; these are not in `skipped`
    testbed: Testbed = Testbed()
    losses: tuple[Loss, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # only where it was asked for: it can be long
    factors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # stack -> factor -> level
    open_visits: tuple[tuple[int, str], ...] = ()  # (round, stack), planned and not done, in order
    profile: str | None = None  # of the campaign file
