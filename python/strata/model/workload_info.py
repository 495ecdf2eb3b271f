"""What a workload declares of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strata.model.kinds import Kind
from strata.model.metric import Metric
from strata.model.params import Param


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


WorkloadCatalogue = Mapping[str, WorkloadInfo]
