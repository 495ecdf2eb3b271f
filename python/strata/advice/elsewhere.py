"""What published studies say of stacks that nobody has measured here. Pure.

A study had another machine, and seldom the very same stacks. So only its ratios are used, and only of two stacks that
are made as two candidates are; what the study had built is said beside each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from strata.analysis.studies import apart
from strata.model import Call, LayerDriver, Node, Stack
from strata.published import Figure, Pair, Study

_SAME_EITHER_WAY = "partition"  # a study writes it, a candidate seldom does


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as good one stack of a study was as another."""

    workload: str
    metric: str
    stack: str  # candidates
    other: str
    ratio: float
    built: tuple[str, str]  # what the study had built, as it writes it


@dataclass(frozen=True, slots=True)
class Order:
    """Stacks of one kind were better than those of another, in a study that printed no figures."""

    workload: str
    metric: str | None  # None: the one that decides
    better: tuple[str, ...]  # candidates
    worse: tuple[str, ...]
    built: tuple[str, str]  # as the study calls the kinds
    by: str  # as printed: "10", "slightly", ""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    study: str
    title: str
    year: int
    testbed: str
    ratios: tuple[Ratio, ...]
    orders: tuple[Order, ...]


def elsewhere(
    stacks: Sequence[Stack], unmeasured: Collection[str], studies: Sequence[Study], drivers: Mapping[str, LayerDriver]
) -> tuple[Elsewhere, ...]:
    """Of every study that says anything. `stacks`: candidates; others are held against the first that a study has.

    Nothing is said of stacks that were all measured here.
    """
    found = []
    for study in studies:
        ratios = [each for each in _ratios(stacks, study.figures, drivers) if {each.stack, each.other} & {*unmeasured}]
        orders = [each for each in _orders(stacks, study.pairs) if {*each.better, *each.worse} & {*unmeasured}]
        if ratios or orders:
            found.append(Elsewhere(study.name, study.title, study.year, study.testbed, tuple(ratios), tuple(orders)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Match:
    """A candidate in a stack of a study."""

    figure: Figure
    above: tuple[str, ...]  # what the study had put on it
    partitioned: bool
    differences: int  # arguments


def _ratios(stacks: Sequence[Stack], figures: Sequence[Figure], drivers: Mapping[str, LayerDriver]) -> Iterator[Ratio]:
    for workload, metric in dict.fromkeys((each.workload, each.metric) for each in figures):
        of = [each for each in figures if (each.workload, each.metric) == (workload, metric)]
        matches = {
            stack.text: [match for each in of if (match := _match(stack.top, each, drivers)) is not None]
            for stack in stacks
        }
        matched = [text for text, each in matches.items() if each]
        for text in matched[1:]:
            pairs = [
                (one, other)
                for one in matches[text]
                for other in matches[matched[0]]
                if (one.above, one.partitioned) == (other.above, other.partitioned)
                and one.figure.printed != other.figure.printed
            ]
            if pairs:
                one, other = min(
                    pairs, key=lambda pair: (pair[0].differences + pair[1].differences, len(pair[0].above))
                )
                ratio = math.exp(one.figure.goodness - other.figure.goodness)
                yield Ratio(workload, metric, text, matched[0], ratio, (one.figure.printed, other.figure.printed))


def _orders(stacks: Sequence[Stack], pairs: Sequence[Pair]) -> Iterator[Order]:
    made_of = {each.text: {node.call.name for node in each.top.walk()} for each in stacks}
    for pair in pairs:
        of_these = [text for text, layers in made_of.items() if layers <= pair.layers]
        kinds = [{text for text in of_these if re.search(like, text)} for like in (pair.better_like, pair.worse_like)]
        better, worse = (tuple(each.text for each in stacks if each.text in kind) for kind in apart(*kinds))
        if better and worse:
            yield Order(pair.workload, pair.metric, better, worse, (pair.better, pair.worse), pair.ratio)


def _match(candidate: Node, figure: Figure, drivers: Mapping[str, LayerDriver]) -> _Match | None:
    """The candidate is the whole of the study's stack, or all of it below some layer."""
    wanted = _plain(candidate)
    node, above = _plain(figure.stack.top), list[str]()
    while (differences := _differences(wanted, node, drivers)) is None:
        if len(node.inputs) != 1:
            return None
        above.append(node.call.text)
        node = node.inputs[0]
    partitioned = any(each.call.name == _SAME_EITHER_WAY for each in figure.stack.top.walk())
    return _Match(figure, tuple(above), partitioned, differences)


def _plain(node: Node) -> Node:
    inputs = tuple(map(_plain, node.inputs))
    return inputs[0] if node.call.name == _SAME_EITHER_WAY else Node(node.call, inputs)


def _differences(one: Node, other: Node, drivers: Mapping[str, LayerDriver]) -> int | None:
    """How many arguments differ; None: they are not made of the same layers, or one of these is of another kind."""
    if one.call.name != other.call.name or len(one.inputs) != len(other.inputs):
        return None
    here = 0 if one.call.name == "disk" else _arguments(one.call, other.call, drivers[one.call.name])
    below = [_differences(*pair, drivers) for pair in zip(one.inputs, other.inputs, strict=True)]
    known = [each for each in (here, *below) if each is not None]
    return sum(known) if len(known) == len(below) + 1 else None


def _arguments(one: Call, other: Call, driver: LayerDriver) -> int | None:
    differ = [param for param in driver.info.params if one[param.name] != other[param.name]]
    # What may be written without its name says what kind of thing it is: md(raid1), lvmcache(writeback), lxd(zfs).
    return None if any(param.positional for param in differ) else len(differ)
