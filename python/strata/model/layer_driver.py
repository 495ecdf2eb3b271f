"""The interface of layer drivers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from strata.model.hardware import Facts
from strata.model.layer_info import LayerInfo
from strata.model.params import Value
from strata.model.place import Place
from strata.model.provides import Provides
from strata.model.stack import Call
from strata.model.step import Command, Completed, Step


class LayerDriver(Protocol):
    """One file per layer. Everything here is pure: drivers plan and read, `run` executes."""

    info: LayerInfo

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        """What is wrong with this number of inputs (a RAID level wants more devices); [] = nothing."""

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        """Every reason at once, as sentences with the next thing to do; [] = can run. Never raises."""

    @abstractmethod
    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        """What the layer above will find. Known before anything is built: paths are chosen, not discovered."""

    @abstractmethod
    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        """The steps that build it. Tear-down is their undos, newest first."""

    @abstractmethod
    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        """Read-only commands whose output says what is there."""

    @abstractmethod
    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        """What was asked for but is not so, from the outputs of `plan_inspect`; [] = as requested."""


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
