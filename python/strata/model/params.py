"""The arguments of layers and workloads: their types, bounds and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Value = bool | int | float | str


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
