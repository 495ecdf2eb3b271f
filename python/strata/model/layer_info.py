"""What a layer declares of itself: how it is written, what it sits on, what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strata.model.kinds import Kind
from strata.model.metric import Metric
from strata.model.params import Param, Value


@dataclass(frozen=True, slots=True)
class Work:
    """How long a processor that has nothing else to do takes for something; for the plan's estimate of the time only.

    Of what was measured (benchmarks/results). Several at once share the processors.
    """

    native_s: float = 0.0  # on the machine itself, or with KVM
    emulated_s: float = 0.0  # where QEMU emulates the processor


@dataclass(frozen=True, slots=True)
class Brought:
    """A way to write a layer that needs files supplied by the user."""

    text: str  # "vm(image=/PATH)"
    values: Mapping[str, Value]  # the arguments, for asking whether all else is there
    tools: tuple[str, ...]  # programs that this way calls
    what: str  # a sentence


@dataclass(frozen=True, slots=True)
class Flaw:
    """What versions of a program from `since` on, and before `mended`, do not do although they are asked to."""

    asks: str  # as in `EngineSupport.lacks`
    program: str  # of `LayerInfo.tools`
    since: tuple[int, ...]
    mended: tuple[int, ...]
    why: str  # and what to do instead


@dataclass(frozen=True, slots=True)
class BuildNeeds:
    """What building one takes: time of a processor, and files supplied by the user."""

    work: Work = field(default_factory=Work)  # where it takes seconds
    brought: tuple[Brought, ...] = ()  # what `strata doctor` lists by itself


@dataclass(frozen=True, slots=True)
class BlockBehaviour:
    """How the block device that a layer gives treats requests, and what the layer asks of the device below it."""

    queue: bool | None = True  # it queues requests, so has an I/O scheduler. False: bio-based. None: as below it
    on_queue: bool = False  # the layer can only stand on a block device that queues requests
    forgets: Mapping[str, Value] = field(default_factory=dict)  # arguments by which it keeps nothing that is written


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """What an engine does not support of what is asked of it, and what a layer asks of the engine below it.

    The abilities are those of `WorkloadInfo.asks`. A reason says why, and what to do instead.
    """

    lacks: Mapping[str, str] = field(default_factory=dict)  # ability -> reason
    lacks_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # the same, once that argument is given
    flaws: tuple[Flaw, ...] = ()  # the same of versions
    only_for: Mapping[str, str] = field(default_factory=dict)  # program of `tools` -> the one ability that needs it
    asks_by: Mapping[str, str] = field(default_factory=dict)  # argument -> what it asks of the engine below


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
    starts_guest: bool = False  # what stands above it is in a machine of its own, which it starts
    last: bool = False  # only layers that build nothing may stand on it: it holds for the workload's own processes
    deployed: bool = True  # False: a state or an instrument of measurements, which no recipe builds to stay
    block: BlockBehaviour = field(default_factory=BlockBehaviour)
    engine: EngineSupport = field(default_factory=EngineSupport)
    build: BuildNeeds = field(default_factory=BuildNeeds)


Catalogue = Mapping[str, LayerInfo]
