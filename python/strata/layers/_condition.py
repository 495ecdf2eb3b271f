"""Conditions: layers that pass on what is below them after something was done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.layers._driver import PassThrough
from strata.model import Call, Kind, LayerInfo, Place, Provides, Step

# Not a container: what a condition does to a directory would be done outside of it.
ANYTHING = frozenset(Kind) - {Kind.GRANT, Kind.CONTAINER}


def steps_of(layer: str, ability: str, below: Provides, times: int) -> list[Step]:
    """What the nearest layer below that has the ability does. Raises BadInput when there is none, or it cannot."""
    able = below.can.get(ability)
    if able is None:
        raise BadInput(f"{layer} needs something below it that offers '{ability}', and nothing does; take it out.")
    return able(times)


@dataclass(frozen=True, slots=True)
class Condition(PassThrough):
    """A LayerDriver that asks what is below for `info.needs`, as often as the argument `times` says, or once.

    What comes of it is part of the layer that does it, which also finds out if it is not as it should be, and goes
    with that layer.
    """

    info: LayerInfo
    times: str | None = None

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        self.plan_create(spec, below, place)  # what cannot be done is known before anything is built
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        times = 1 if self.times is None else int(spec[self.times] or 1)
        return steps_of(self.info.name, self.info.needs, below[0], times)
