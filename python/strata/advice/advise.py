"""The advice: what is ruled out and why, the ranking of the rest, what each costs, and what conflicts. Pure.

Features are known from documents, so a choice says which of its reasons nobody here has tried. Speed is known from
runs only: of a stack that no run has a figure of, what published studies found is told beside, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

from strata.advice.elsewhere import Elsewhere, elsewhere
from strata.advice.judge import Answer, Basis, Judged, ends_in, features, judge
from strata.advice.requirements import Requirements
from strata.advice.tried import tried
from strata.analysis import modelled
from strata.analysis.cells import usable
from strata.analysis.estimate import Estimate
from strata.analysis.instruments import instrument_in, only
from strata.analysis.rank import Ranking, Row
from strata.errors import BadInput
from strata.model import Kind, LayerDriver, Metric, Stack, View
from strata.probes import PREFIX
from strata.published import Study
from strata.published.documented import Documents
from strata.text import some_of

_CAN_BE_BUILT = "can be built here"
_CAN_BE_DEPLOYED = "can be deployed"
_LARGEST = 4  # requirements in a conflict that is looked for beside others: there are many sets of more
_SHOWN = 4  # trade-offs of each side, the largest first


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """One figure in which a stack and the choice differ by more than the margin, and by more than chance where several
    visits of each tell what chance does.
    """

    workload: str
    metric: str
    ratio: float  # how many times as good as the choice
    figure: Estimate  # in the metric's unit
    of_choice: Estimate


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stack that has all that is required, measured in the run that decides."""

    judged: Judged
    ratio: Estimate | None  # of its score to that of the choice
    shown: bool  # worse or better than the choice, by the data
    better: tuple[Tradeoff, ...]
    worse: tuple[Tradeoff, ...]
    beyond: Mapping[str, Basis]  # features that it has and the choice has not, and how that is known


@dataclass(frozen=True, slots=True)
class Advice:
    run: str | None  # the run that decides; None: none has a figure of a stack that may be chosen
    choice: Candidate | None
    others: tuple[Candidate, ...]  # best first
    tied: tuple[str, ...]  # stacks that the data do not show to be worse than the choice, it included
    unmeasured: tuple[Judged, ...]  # may be chosen, and nothing is known of their speed
    ruled_out: tuple[Judged, ...]
    conflicts: tuple[tuple[str, ...], ...]  # requirements that no candidate has together, none of them idle
    nearest: tuple[Judged, ...]  # with the fewest that they lack
    sentences: tuple[str, ...]  # what the ranking says of itself
    machines: Mapping[str, tuple[str, ...]]  # of every run that anything here comes from: what it was, and its caveats
    published: tuple[Elsewhere, ...] = ()  # what studies found of the unmeasured, on machines of their own


def advise(
    stacks: Sequence[Stack],
    runs: Mapping[str, View],
    wanted: Requirements,
    drivers: Mapping[str, LayerDriver],
    known: Documents,
    studies: Sequence[Study] = (),
    misplaced: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Advice:
    """`stacks`: all candidates. `runs`: by name; the first that has figures of a stack that may be chosen decides.
    `misplaced`: stacks that no machine can build, and why.

    Raises BadInput when there are no candidates, or weights name no workload.
    """
    if not stacks:
        raise BadInput("there is nothing to choose from: give the directory of a run with --from, or candidates.")
    engines = {stack.text for stack in stacks if ends_in(stack, drivers) is Kind.ENGINE}
    done = tried(runs, stacks, engines)
    machines = {name: _machine(view) for name, view in runs.items()}
    judged = {stack.text: judge(stack, wanted, drivers, known, done.get(stack.text)) for stack in stacks}
    judged = _no_instruments(_built(judged, runs, misplaced))
    fit = [text for text, each in judged.items() if not each.unmet]
    out = tuple(each for each in judged.values() if each.unmet)
    if not fit:
        fewest = min(len(each.unmet) for each in out)
        nearest = tuple(each for each in out if len(each.unmet) == fewest)
        return Advice(None, None, (), (), (), out, _conflicts(list(judged.values())), nearest, (), machines)
    of = {stack.text: features(stack, known, done.get(stack.text)) for stack in stacks}

    def with_published(found: Advice) -> Advice:
        best = [] if found.choice is None else [found.choice, *found.others]
        texts = [*(each.judged.stack for each in best), *(each.stack for each in found.unmeasured)]
        by_text = {stack.text: stack for stack in stacks}
        unmeasured = {each.stack for each in found.unmeasured}
        return replace(found, published=elsewhere([by_text[text] for text in texts], unmeasured, studies, drivers))

    for name, view in runs.items():
        ranking = _ranking(view, fit, wanted.weights)
        if ranking is not None and ranking.rows:
            return with_published(_advice(name, view, ranking, judged, fit, out, of, machines))
    return with_published(Advice(None, None, (), (), tuple(judged[text] for text in fit), out, (), (), (), machines))


def _built(
    judged: Mapping[str, Judged], runs: Mapping[str, View], misplaced: Mapping[str, Sequence[str]]
) -> dict[str, Judged]:
    """With one answer more where a stack cannot be built, or a run left it out and none built it."""
    built = {trial.stack: name for name, view in runs.items() for trial in view.trials}
    why_not = {text: " ".join(reasons) for text, reasons in misplaced.items()}
    for name, view in runs.items():
        why_not |= {skip.stack: f"left out of {name}: {' '.join(skip.reasons)}" for skip in view.skipped}
    if not any(text in why_not and text not in built for text in judged):
        return dict(judged)

    def answer(text: str) -> Answer:
        if text in built:
            return Answer(_CAN_BE_BUILT, True, f"{built[text]} built it", "tried")
        if text in why_not:
            return Answer(_CAN_BE_BUILT, False, why_not[text], "plan")
        return Answer(_CAN_BE_BUILT, True, "nothing is known against it, and no run built it", "not known")

    return {text: replace(each, answers=(*each.answers, answer(text))) for text, each in judged.items()}


def _no_instruments(judged: Mapping[str, Judged]) -> dict[str, Judged]:
    """With one answer more where a stack holds an instrument of measurements, which is never the choice."""
    held = {text: name for text in judged if (name := instrument_in(text))}
    if not held:
        return dict(judged)

    def answer(text: str) -> Answer:
        if text in held:
            return Answer(_CAN_BE_DEPLOYED, False, f"{held[text]} is an instrument of measurements", "plan")
        return Answer(_CAN_BE_DEPLOYED, True, "no layer of it is an instrument of measurements", "plan")

    return {text: replace(each, answers=(*each.answers, answer(text))) for text, each in judged.items()}


def _machine(view: View) -> tuple[str, ...]:
    if view.facts is None:
        return ("an unknown machine",)
    return (view.facts.described, *view.facts.caveats)


def _ranking(view: View, fit: Sequence[str], weights: Mapping[str, float] | None) -> Ranking | None:
    """Of the stacks that may be chosen only, as if no other had run."""
    some = only(view, set(fit))
    some = replace(
        some,
        # what was tried of features is no load
        workloads=tuple(load for load in some.workloads if not load.name.startswith(PREFIX)),
        trials=tuple(trial for trial in some.trials if not trial.workload.startswith(PREFIX)),
    )
    if not usable(some):
        return None
    if weights is None:
        return modelled.ranking(some)
    each = _weighed(some, weights)
    found = modelled.ranking(some, each)
    return replace(found, sentences=(*found.sentences, _shares(some, each)))


def _shares(view: View, weights: Sequence[float]) -> str:
    known = list(zip((load.text for load in view.workloads), weights, strict=True))
    counted = [f"{text} weighs {weight:g}" for text, weight in known if weight]
    left = [text for text, weight in known if not weight]
    nothing = f"; {some_of(left)} {'weighs' if len(left) == 1 else 'weigh'} nothing" if left else ""
    return f"In the score {some_of(counted)}{nothing}."


def _weighed(view: View, weights: Mapping[str, float]) -> list[float]:
    """In the order of the view; a workload goes by any part of its text that no other has."""
    found = dict.fromkeys((load.text for load in view.workloads), 0.0)
    for name, weight in weights.items():
        match = [name] if name in found else [text for text in found if name in text]
        if len(match) != 1:
            raise BadInput(
                f"weights: '{name}' is {'several workloads' if match else 'no workload'} of {view.campaign}; "
                f"they are {', '.join(found)}."
            )
        found[match[0]] = weight
    if not any(found.values()):
        raise BadInput("weights: all of them are 0; give one workload more.")
    return list(found.values())


def _advice(
    name: str,
    view: View,
    ranking: Ranking,
    judged: Mapping[str, Judged],
    fit: Sequence[str],
    out: tuple[Judged, ...],
    of: Mapping[str, Mapping[str, Basis]],
    machines: Mapping[str, tuple[str, ...]],
) -> Advice:
    first, *rest = ranking.rows
    metrics = {workload.text: {**workload.metrics, **view.machine_metrics} for workload in view.workloads}

    def candidate(row: Row) -> Candidate:
        trades = _tradeoffs(row, first, metrics, view.rule.within)
        return Candidate(
            judged[row.stack],
            row.ratio,
            row.decision in ("better", "worse"),
            tuple(trade for trade in trades if trade.ratio > 1)[:_SHOWN],
            tuple(trade for trade in trades if trade.ratio < 1)[:_SHOWN],
            {name: basis for name, basis in of[row.stack].items() if name not in of[first.stack]},
        )

    ranked = {row.stack for row in ranking.rows}
    return Advice(
        run=name,
        choice=candidate(first),
        others=tuple(candidate(row) for row in rest),
        tied=ranking.tied,
        unmeasured=tuple(judged[text] for text in fit if text not in ranked),
        ruled_out=out,
        conflicts=(),
        nearest=(),
        sentences=ranking.sentences,
        machines=machines,
    )


def _tradeoffs(row: Row, choice: Row, metrics: Mapping[str, Mapping[str, Metric]], within: float) -> list[Tradeoff]:
    """The largest first. Only where the intervals of both do not meet; one visit has none."""
    found = []
    for workload, figures in row.metrics.items():
        for name, figure in figures.items():
            metric, other = metrics.get(workload, {}).get(name), choice.metrics.get(workload, {}).get(name)
            if metric is None or other is None or metric.better == "neither" or figure.point <= 0 or other.point <= 0:
                continue
            ratio = figure.point / other.point if metric.better == "higher" else other.point / figure.point
            if not _meet(figure, other) and not 1 - within <= ratio <= 1 / (1 - within):
                found.append(Tradeoff(workload, name, ratio, figure, other))
    return sorted(found, key=lambda trade: -max(trade.ratio, 1 / trade.ratio))


def _meet(one: Estimate, other: Estimate) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.high >= other.low and other.high >= one.low


def _conflicts(judged: Sequence[Judged]) -> tuple[tuple[str, ...], ...]:
    """Each set of requirements that no candidate meets together, though one meets all but any one of them; the smallest
    first. Of sets of more than `_LARGEST` only where there is no smaller one.
    """
    names = [answer.requirement for answer in judged[0].answers]
    met = [{number for number, answer in enumerate(each.answers) if answer.met} for each in judged]
    found: list[set[int]] = []
    for size in range(1, len(names) + 1):
        if size > _LARGEST and found:
            break
        for chosen in combinations(range(len(names)), size):
            wanted = set(chosen)
            if not any(less <= wanted for less in found) and not any(wanted <= each for each in met):
                found.append(wanted)
    return tuple(tuple(names[number] for number in sorted(wanted)) for wanted in found)
