"""What a careful reader should know before believing the figures. Nothing here removes or changes a figure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from strata.analysis.cells import Array, usable
from strata.analysis.engines import unlike_work
from strata.analysis.scale import primary_table
from strata.analysis.student import f_tail, t_two_sided
from strata.analysis.verdict import FEWEST_VISITS
from strata.model import Outcome, TrialResult, View, WorkloadView
from strata.model.flags import FLAGS, WARNINGS
from strata.text import some_of
from strata.units import format_percent, percent

LARGE_SPREAD = 0.10  # coefficient of variation over visits
OUTLIER_Z = 3.5  # modified z score (Iglewicz and Hoaglin, "How to detect and handle outliers", ASQC, 1993)
OUTLIER_GAP = 0.05  # and at least this far from the median: the spread of few visits may be tiny by chance
FEWEST_FOR_OUTLIER = 5
BIMODAL_GAIN = 6.0  # of the Bayesian information criterion: "strong" (Kass and Raftery, JASA 90:430, 1995)
FEWEST_FOR_MODES = 8
DRIFT_SLOPE, DRIFT_RANGE = 0.02, 0.05  # over the run
SIGNIFICANT = 0.05
_LARGEST_VARIANCE = 700.0  # of logarithms: beyond it the coefficient of variation is no float
CPU_PRESSURE = "psi.cpu_some_pct"
LARGE_PRESSURE_PCT = 10.0
_REBUILDING = re.compile(r"\brebuilding\b")  # the condition, in the text of a stack

_SHOWN_AT = {kind.name: place for place, kind in enumerate(WARNINGS)}


@dataclass(frozen=True, slots=True)
class Caution:
    """One warning of a run."""

    kind: str  # a name of `model.flags.WARNINGS`
    stack: str | None  # None: it concerns all of them
    workload: str | None
    text: str  # sentences: what was seen, the likely cause, what to do


def warnings(view: View) -> tuple[Caution, ...]:
    """Return the warnings of a run, the gravest first, then in the order of the campaign."""
    found = [
        *_few(view),
        *_failed(view),
        *_halted(view),
        *(warning for workload in view.workloads for warning in _over_visits(view, workload)),
        *_flagged(view),
        *_pressure(view),
        *_unlike(view),
        *_caching(view),
        *_rebuilt(view),
        *_peeked(view),
        *_changed(view),
    ]
    return gravest_first(found)


def gravest_first(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """Return `cautions` in the order of the table of warnings; those of one kind stay as they are."""
    return tuple(sorted(cautions, key=lambda caution: _SHOWN_AT[caution.kind]))


def _peeked(view: View) -> Iterator[Caution]:
    ways = [event.text for event in view.events if event.kind == "extended"]
    # The promises of the other designs hold however often one looks.
    if ways and view.rule.design == "rounds":
        seen = "; ".join(ways)
        yield Caution(
            "peeked",
            None,
            None,
            f"Figures had been seen before the number of rounds was fixed: {seen}. The stated confidence of "
            f"{format_percent(view.rule.confidence, ' %')} is that of a number fixed beforehand, the same for every "
            "stack; adding, or ending, when something shows finds differences too often. For a claim that must hold, "
            "start a new run with that many rounds from the start.",
        )


def _changed(view: View) -> Iterator[Caution]:
    changes = [event.text for event in view.events if event.kind == "changed"]
    if changes:
        yield Caution(
            "changed",
            None,
            None,
            f"Between visits {'; '.join(changes)}. Figures from before and after are of different machines: "
            "start a new run with another --out.",
        )


def _caching(view: View) -> Iterator[Caution]:
    for text in dict.fromkeys(event.text for event in view.events if event.kind == "caching"):
        yield Caution(
            "caching",
            None,
            None,
            f"{text}, so figures on it are of memory too. Attach it with `losetup --direct-io=on` and start a new run.",
        )


def _rebuilt(view: View) -> Iterator[Caution]:
    """Of stacks that are to be measured while they rebuild: trials after which nothing was left to rebuild."""
    for workload in view.workloads:
        trials = [t for t in usable(view) if t.workload == workload.text and _REBUILDING.search(t.stack)]
        over = [trial for trial in trials if _least_in_sync(trial) >= 100]
        if over:
            stacks = [stack for stack in view.stacks if any(trial.stack == stack for trial in over)]
            yield Caution(
                "rebuilt",
                stacks[0] if len(stacks) == 1 else None,
                workload.text,
                f"In {len(over)} of {len(trials)} trials under {workload.text} ({some_of(stacks)}) the rebuild was "
                "over before the trial was: their figures are of a rebuilding stack in part only. Give the rebuild "
                "more to do (larger disks, fill), or make the trial shorter.",
            )


def _least_in_sync(trial: TrialResult) -> float:
    """In percent; 0 when no layer says."""
    return min((value for name, value in trial.metrics.items() if name.endswith(".sync_pct")), default=0.0)


def _few(view: View) -> Iterator[Caution]:
    if view.rule.design == "adaptive":
        return  # visits go where they matter, and the model states what is not known of the others
    visits = {trial.stack: set[int]() for trial in usable(view)}
    for trial in usable(view):
        visits[trial.stack].add(trial.visit)
    few = [stack for stack in view.stacks if 0 < len(visits.get(stack, ())) < FEWEST_VISITS]
    if few:
        yield Caution(
            "few",
            few[0] if len(few) == 1 else None,
            None,
            f"Fewer than {FEWEST_VISITS} visits of {some_of(few)} have figures: intervals are very wide or missing. "
            f"Run again with --{view.testbed.repeats} 5.",
        )


def _failed(view: View) -> Iterator[Caution]:
    for stack in view.stacks:
        trials = [trial for trial in view.trials if trial.stack == stack]
        bad = {t.visit: t.reason for t in trials if t.outcome is Outcome.FAILED}
        bad.update({visit.visit: visit.reason for visit in view.failed if visit.stack == stack})
        total = len({trial.visit for trial in trials} | set(bad))
        if bad:
            first = str(next(iter(bad.values())) or "no reason was recorded").rstrip(".")
            figures = any(t.outcome is not Outcome.FAILED for t in trials)
            yield Caution(
                "failed",
                stack,
                None,
                f"{len(bad)} of {total} visits of {stack} failed in whole or in part ({first}). Its figures are from "
                "what worked, which may flatter it: find the cause before you choose it."
                if figures
                else f"{_all(total)} of {stack} failed ({first}). It has no figures, good or bad: find the cause, or "
                "leave it out.",
            )
        invalid = [t for t in trials if t.outcome is Outcome.INVALID]
        if invalid:
            yield Caution(
                "invalid",
                stack,
                invalid[0].workload,
                f"{len(invalid)} of {len(trials)} trials of {stack} were rejected by a check of the instrument "
                f"({str(invalid[0].reason or 'no reason was recorded').rstrip('.')}). They are kept and not ranked.",
            )


def _all(visits: int) -> str:
    return f"All {visits} visits" if visits > 1 else "The only visit"


def _halted(view: View) -> Iterator[Caution]:
    for halted in view.halted:
        yield Caution(
            "halted",
            halted.stack,
            None,
            f"{halted.stack} was visited before and cannot be visited any more: {' '.join(halted.reasons)} "
            "Its figures are those of the visits that it had.",
        )


def _over_visits(view: View, workload: WorkloadView) -> Iterator[Caution]:
    """What the spread over visits shows, from the logarithms of the primary metric."""
    everything = primary_table(view, workload, view.stacks)
    rows = [row for row in range(len(view.stacks)) if not np.isnan(everything[row]).all()]
    if not rows:
        return
    table, names = everything[rows], [view.stacks[row] for row in rows]
    exact = view.testbed.clock == "virtual"
    # A rule that learns numbers the visits of each stack by themselves: a round of them is no stretch of time.
    rounds = view.rule.design != "adaptive"
    if rounds and not exact:  # there, rounds are seeds: no time passes from one to the next
        yield from _drift(table, workload)
    level = _without_rounds(table) if rounds else table
    away = level - np.nanmedian(level, axis=1, keepdims=True)
    usual = float(np.median(np.nanmedian(np.abs(away), axis=1)))
    for name, raw, flat in zip(names, table, level, strict=True):
        values = flat[~np.isnan(flat)]
        if values.size >= FEWEST_VISITS:
            variation = math.sqrt(math.expm1(min(float(np.var(raw[~np.isnan(raw)], ddof=1)), _LARGEST_VARIANCE)))
            if variation > LARGE_SPREAD:
                yield Caution(
                    "spread",
                    name,
                    workload.text,
                    f"Visits of {name} under {workload.text} vary by {percent(variation)} (standard deviation over "
                    + (
                        "mean). There is no noise in them: this stack depends that much on its seed. Run more seeds."
                        if exact
                        else "mean). Likely causes: other work on the machine, a device that throttles or cleans up, "
                        "or a stack that is erratic. Stop other work, or run more rounds."
                    ),
                )
        if values.size >= FEWEST_FOR_OUTLIER:
            yield from _outliers(flat - np.median(values), usual, name, workload, exact)
        if values.size >= FEWEST_FOR_MODES:
            modes = two_modes(values)
            if modes is not None:
                yield Caution(
                    "bimodal",
                    name,
                    workload.text,
                    f"Visits of {name} under {workload.text} fall into two groups, the worse one {percent(modes.gap)} "
                    f"below the other and with {percent(modes.slow_share)} of the visits. A single figure hides that: "
                    "look at the visits one by one, and for what differs between them (where data landed, a background "
                    "task, a cache).",
                )


def _outliers(away: Array, usual: float, name: str, workload: WorkloadView, exact: bool) -> Iterator[Caution]:
    """`away` is each round's distance from the stack's median, `usual` the typical median distance of all stacks."""
    # The median distance of 5 visits is often small by chance; what is usual for all stacks steadies it.
    scale = max(float(np.nanmedian(np.abs(away))), usual)
    limit = max(OUTLIER_Z * scale / 0.6745, math.log1p(OUTLIER_GAP))
    far = [number for number in range(away.size) if abs(away[number]) > limit]
    if far:
        which = some_of([str(number + 1) for number in far])
        worst = max(far, key=lambda number: abs(float(away[number])))
        size = percent(abs(math.expm1(float(away[worst]))))
        side = "better" if away[worst] > 0 else "worse"
        yield Caution(
            "outlier",
            name,
            workload.text,
            f"{name} under {workload.text} was far from its other visits in round{'s' if len(far) > 1 else ''} {which} "
            f"({size} {side}). "
            + ("That is what this seed gives." if exact else "Likely cause: something else used the machine.")
            + " It is kept in the figures; more rounds make it matter less.",
        )


def _drift(table: Array, workload: WorkloadView) -> Iterator[Caution]:
    """Whether the machine changed over the run: from the rounds that every stack has."""
    whole = table[:, ~np.isnan(table).any(axis=0)]
    stacks, rounds = whole.shape
    if rounds < 4:
        return
    level = whole.mean(axis=0)
    place = np.arange(rounds) - (rounds - 1) / 2
    slope = float(place @ level / (place @ place))
    residual = level - level.mean() - slope * place
    error = math.sqrt(float(residual @ residual) / (rounds - 2) / float(place @ place))
    change = slope * (rounds - 1)
    sloping = abs(change) > DRIFT_SLOPE and (error == 0 or t_two_sided(slope / error, rounds - 2) < SIGNIFICANT)
    span = float(level.max() - level.min())
    uneven = span > DRIFT_RANGE and stacks > 1 and _rounds_differ(whole)
    if not (sloping or uneven):
        return
    if sloping:
        way = "better" if change > 0 else "worse"
        seen = f"Results under {workload.text} became {percent(abs(math.expm1(change)))} {way} over the run"
    else:
        seen = f"Rounds under {workload.text} differ by up to {percent(math.expm1(span))} for all stacks together"
    yield Caution(
        "drift",
        None,
        workload.text,
        f"{seen}. Likely causes: heat, a device that fills or cleans up, other work on the machine. Comparisons are "
        "made within rounds, so the ranking stands; do not compare these figures with those of another day.",
    )


def _rounds_differ(whole: Array) -> bool:
    """F test of the rounds in the two-way layout stack + round."""
    stacks, rounds = whole.shape
    level = whole.mean(axis=0)
    rest = whole - whole.mean(axis=1, keepdims=True) - level + whole.mean()
    below = (stacks - 1) * (rounds - 1)
    noise = float((rest**2).sum()) / below
    signal = stacks * float(((level - level.mean()) ** 2).sum()) / (rounds - 1)
    return noise == 0 or f_tail(signal / noise, rounds - 1, below) < SIGNIFICANT


def _without_rounds(table: Array) -> Array:
    """The table less what a round did to all stacks (median, so one bad visit does not spread to the others)."""
    if table.shape[0] < 3:
        return table
    away = table - np.nanmedian(table, axis=1, keepdims=True)
    common = np.array([np.nanmedian(column) if (~np.isnan(column)).any() else 0.0 for column in away.T])
    return np.asarray(table - common)


@dataclass(frozen=True, slots=True)
class Modes:
    gap: float  # how far the slower mode lies below the faster, a fraction
    slow_share: float  # of the values


def two_modes(values: Array) -> Modes | None:
    """Two normal components of one spread, if they beat one by `BIMODAL_GAIN` of the BIC; else None.

    `values` are logarithms. Each group must hold two values and the groups be three spreads apart: one odd value is an
    outlier, and a lopsided single group is not two.
    """
    # About their own level: where logarithms are large, differences of their squares lose digits.
    ordered = np.sort(values) - values.mean()
    n = ordered.size
    floor = 1e-4**2  # readings repeat no better than this; and a spread of 0 would win any contest
    single = n * math.log(max(float(np.var(ordered)), floor)) + 2 * math.log(n)
    share, low, high, variance = _fit(ordered, floor)
    if not (2 <= n * share <= n - 2 and high - low > 3 * math.sqrt(variance)):
        return None
    far = (ordered[:, None] - np.array([low, high])) ** 2 / (2 * variance)
    nearest = far.min(axis=1)
    density = np.exp(nearest[:, None] - far) @ np.array([share, 1 - share])
    likelihood = float((np.log(density) - nearest).sum()) - n / 2 * math.log(variance)
    double = -2 * likelihood - n + 4 * math.log(n)  # the single normal's sum of squares over its variance is n
    return Modes(-math.expm1(low - high), share) if single - double > BIMODAL_GAIN else None


def _fit(ordered: Array, floor: float) -> tuple[float, float, float, float]:
    """Expectation maximisation from the best cut of the sorted values: share of the lower, both means, variance."""
    n = ordered.size
    below = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    between = sums**2 / below + (ordered.sum() - sums) ** 2 / (n - below)
    belongs = (np.arange(n) <= int(np.argmax(between))).astype(float)
    share, low, high, variance = 0.5, 0.0, 0.0, 1.0
    for _ in range(200):
        before, share = share, float(np.clip(belongs.mean(), 1e-6, 1 - 1e-6))
        low = float(belongs @ ordered / max(belongs.sum(), 1e-9))
        high = float((1 - belongs) @ ordered / max((1 - belongs).sum(), 1e-9))
        squares = belongs @ (ordered - low) ** 2 + (1 - belongs) @ (ordered - high) ** 2
        variance = max(float(squares) / n, floor)
        odds = ((ordered - low) ** 2 - (ordered - high) ** 2) / (2 * variance) + math.log((1 - share) / share)
        belongs = 1 / (1 + np.exp(np.clip(odds, -500, 500)))
        if abs(share - before) < 1e-9:
            break
    return share, low, high, variance


def _flagged(view: View) -> Iterator[Caution]:
    for flag in FLAGS:
        if flag.name not in _SHOWN_AT:
            continue
        for workload in view.workloads:
            trials = [trial for trial in view.trials if trial.workload == workload.text]
            marked = [trial for trial in trials if flag.name in trial.flags]
            if marked:
                stacks = [stack for stack in view.stacks if any(trial.stack == stack for trial in marked)]
                yield Caution(
                    flag.name,
                    stacks[0] if len(stacks) == 1 else None,
                    workload.text,
                    f"{len(marked)} of {len(trials)} trials under {workload.text} ({some_of(stacks)}) are flagged "
                    f"`{flag.name}`. {flag.sentence} {flag.advice}",
                )


def _pressure(view: View) -> Iterator[Caution]:
    for workload in view.workloads:
        trials = [trial for trial in usable(view) if trial.workload == workload.text and CPU_PRESSURE in trial.metrics]
        pressed = [trial for trial in trials if trial.metrics[CPU_PRESSURE] > LARGE_PRESSURE_PCT]
        if pressed:
            stacks = [stack for stack in view.stacks if any(trial.stack == stack for trial in pressed)]
            yield Caution(
                "pressure",
                stacks[0] if len(stacks) == 1 else None,
                workload.text,
                f"In {len(pressed)} of {len(trials)} trials under {workload.text} ({some_of(stacks)}) tasks waited for "
                f"a processor more than {LARGE_PRESSURE_PCT:.0f} % of the time, up to {_most(pressed):.0f} %. The "
                "processor, not the storage, may be what was measured: stop other work, or give it more processors.",
            )


def _unlike(view: View) -> Iterator[Caution]:
    for workload in view.workloads:
        stacks = [
            stack for stack in view.stacks if any(t.stack == stack for t in usable(view) if t.workload == workload.text)
        ]
        clauses = unlike_work(workload.text, stacks)
        if clauses:
            yield Caution(
                "unlike",
                None,
                workload.text,
                f"Under {workload.text} these engines do not do the same work: {'; '.join(clauses)}. A difference "
                "between engines is of that too; compare the storage of one engine with that of the same engine.",
            )


def _most(trials: list[TrialResult]) -> float:
    return max(trial.metrics[CPU_PRESSURE] for trial in trials)
