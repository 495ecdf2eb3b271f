"""The words of Strata as plain frozen data. No behaviour beyond looking things up, no imports of ours.

Units are in names (`_s` seconds, `_bytes` bytes); a missing value is None, never 0.
"""

from strata.model.hardware import Disk, Facts, Testbed, WriteCache
from strata.model.kinds import Kind
from strata.model.layer_driver import Caching, Forking, Instead, LayerDriver, Metered, Redundant, Staying
from strata.model.layer_info import BlockBehaviour, Brought, BuildNeeds, Catalogue, EngineSupport, Flaw, LayerInfo, Work
from strata.model.metric import Merge, Metric
from strata.model.params import Param, ParamType, Value
from strata.model.place import BOOT_TIME, Beside, Guest, GuestImage, Place
from strata.model.provides import Ability, DataStep, Meanwhile, Provides, Snapshots, Split
from strata.model.results import (
    Design,
    Event,
    Evidence,
    FailedVisit,
    Loss,
    Outcome,
    Rule,
    Skipped,
    StepTime,
    TrialResult,
    View,
    WorkloadView,
)
from strata.model.stack import Call, Node, Stack
from strata.model.step import Command, Completed, Step
from strata.model.workload_driver import (
    LARGEST_FIGURE,
    AccessPattern,
    Hungry,
    Measured,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
)
from strata.model.workload_info import WorkloadCatalogue, WorkloadInfo

__all__ = [
    "BOOT_TIME",
    "LARGEST_FIGURE",
    "Ability",
    "AccessPattern",
    "Beside",
    "BlockBehaviour",
    "Brought",
    "BuildNeeds",
    "Caching",
    "Call",
    "Catalogue",
    "Command",
    "Completed",
    "DataStep",
    "Design",
    "Disk",
    "EngineSupport",
    "Event",
    "Evidence",
    "Facts",
    "FailedVisit",
    "Flaw",
    "Forking",
    "Guest",
    "GuestImage",
    "Hungry",
    "Instead",
    "Kind",
    "LayerDriver",
    "LayerInfo",
    "Loss",
    "Meanwhile",
    "Measured",
    "Merge",
    "Metered",
    "Metric",
    "Node",
    "Outcome",
    "Param",
    "ParamType",
    "Place",
    "Provides",
    "Redundant",
    "Rule",
    "Skipped",
    "Snapshots",
    "Split",
    "Stack",
    "Staying",
    "Step",
    "StepTime",
    "Target",
    "Testbed",
    "TrialOutput",
    "TrialPlan",
    "TrialResult",
    "Value",
    "View",
    "Work",
    "Workload",
    "WorkloadCatalogue",
    "WorkloadInfo",
    "WorkloadView",
    "WriteCache",
]
