"""The answers that most drivers give alike: a driver inherits them and states only what differs."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._steps import standard_reasons
from strata.model import Call, Command, Completed, Facts, LayerDriver, Place, Provides, Step


class Driver(LayerDriver):
    """A layer that takes any number of inputs and needs root and the programs in `info.tools`."""

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools)


class PassThrough(Driver):
    """A layer that builds nothing and gives what is below it to the layer above."""

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        return []

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return []

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        return []
