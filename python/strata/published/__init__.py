"""The published studies as data sets: their figures as printed, and how their words read today.

A figure of another machine and year is never shown as such: what is used of it are its ratios to another stack of the
same study. The files are in `data`; nothing here knows a run.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from ruamel.yaml import YAML

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.model import Catalogue, Stack, WorkloadCatalogue

_DATA = files(__name__) / "data"


@dataclass(frozen=True, slots=True)
class Figure:
    """One printed figure."""

    printed: str  # its stack, as the study writes it
    stack: Stack  # the same stack today
    workload: str  # name of the same workload today
    metric: str  # that metric today of which this is the same ratio
    goodness: float  # natural logarithm, with the sign that makes larger better


@dataclass(frozen=True, slots=True)
class Pair:
    """A finding without figures: stacks of one kind were better than those of another under a workload."""

    workload: str  # current name
    metric: str | None  # current name; None: the one that decides
    better: str  # as the study calls them
    worse: str
    better_like: str  # pattern of the texts of Strata's stacks
    worse_like: str
    ratio: str  # as printed: "10", "slightly", ""
    layers: frozenset[str]  # that the study's stacks were made of, as they are called today


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    title: str
    year: int
    source: str
    testbed: str
    repeats: str
    resolution: float  # published figures no further apart than this fraction are a tie; 0: not stated
    figures: tuple[Figure, ...]
    pairs: tuple[Pair, ...]  # of a study that printed only charts
    left_out: tuple[str, ...]  # sentences: figures that no current stack or metric corresponds to


@dataclass(frozen=True, slots=True)
class Finding:
    """What a study says without a figure to compare, or beside them."""

    study: str
    workload: str
    better: str
    worse: str
    ratio: str  # as printed: "10", "1.13-1.34", "slightly", ""


_BETTER: Mapping[str, Literal["higher", "lower"]] = MappingProxyType(
    {"throughput": "higher", "iops": "higher", "runtime": "lower", "duration": "lower"}
)
"""The direction of the metrics, as printed."""


def names() -> tuple[str, ...]:
    return tuple(_described())


def study(name: str, layers: Catalogue, workloads: WorkloadCatalogue) -> Study:
    """Raises BadInput when there is no such study."""
    if name not in _described():
        raise BadInput(f"published:{name}: no such study; they are {', '.join(names())}.")
    about = _described()[name]
    figures, left_out = [], {}
    for row in _rows(f"{name}.csv") if "metrics" in about else ():
        stack, workload = _today(row["stack"], about), about["workloads"][row["workload"]]
        metric = about["metrics"][row["metric"]]
        missing = next((why for word, why in about.get("missing", {}).items() if word in row["stack"]), None)
        value = float(row["value"])
        if missing is not None:
            left_out[missing] = f"{missing}."
        elif metric and value > 0:  # a share of a processor that is printed as 0 has no ratio to another
            sign = 1.0 if _BETTER[row["metric"]] == "higher" else -1.0
            (parsed,) = parse_stacks(stack, layers, where=row["stack"])
            assert workload in workloads, workload
            figures.append(Figure(row["stack"], parsed, workload, metric, sign * math.log(value)))
    return Study(
        name=name,
        title=about["title"],
        year=int(about["year"]),
        source=about["source"],
        testbed=about["testbed"],
        repeats=about["repeats"],
        resolution=float(about.get("resolution", 0.0)),
        figures=tuple(figures),
        pairs=tuple(_pairs(name, about, left_out)) if "stacks" in about else (),
        left_out=tuple(left_out.values()),
    )


def _pairs(name: str, about: Mapping[str, Any], left_out: dict[str, str]) -> Iterator[Pair]:
    like, layers = about["stacks"], frozenset(about["layers"])
    for finding in findings():
        if finding.study != name:
            continue
        for workload in finding.workload.split("; "):
            for better in finding.better.split("; "):
                for worse in finding.worse.split("; "):
                    if workload in about["workloads"] and better in like and worse in like:
                        today = about["workloads"][workload]
                        load, metric = (today, None) if isinstance(today, str) else today
                        yield Pair(load, metric, better, worse, like[better], like[worse], finding.ratio, layers)
                    else:
                        key = f"{workload}: {better} before {worse}"
                        why = about.get("elsewhere", {}).get(better, "no single current figure or stack")
                        left_out[key] = f"{key} ({why})."


def findings() -> tuple[Finding, ...]:
    """Of all studies, those that printed only charts too."""
    return tuple(
        Finding(row["study"], row["workload"], row["better"], row["worse"], row["ratio"] or "")
        for row in _rows("findings.csv")
    )


def _today(printed: str, about: Mapping[str, Any]) -> str:
    text = printed
    for old, new in about["words"]:
        text = text.replace(old, new)
    return text


@cache
def _described() -> Mapping[str, Any]:
    return MappingProxyType(YAML(typ="safe").load((_DATA / "studies.yaml").read_text()))


def _rows(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader((_DATA / file).read_text().splitlines()))
