"""The report model of a run: takes the analysis as it is and adds order, words and rounding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from strata.model import Event, Metric, Outcome, View
from strata.model.flags import FLAGS
from strata.report import graphs, machine, tables
from strata.report.model import (
    VERSION,
    Cell,
    Column,
    DiskUsed,
    Estimate,
    Fact,
    Failure,
    Flag,
    IntervalChart,
    IntervalMark,
    LeftOut,
    ReportModel,
    Risk,
    Row,
    Said,
    StackCommands,
    StackRisks,
    Standing,
    Table,
    TrialNote,
    Verdict,
    Warned,
)
from strata.report.numbers import MISSING, Scale, scale_of
from strata.report.sections import workload_sections
from strata.text import cleaned
from strata.units import count, format_percent, human_time

if TYPE_CHECKING:  # the analysis is heavy to import, and only its results are needed here
    from strata.analysis.checks import Caution
    from strata.analysis.estimate import Estimate as Figure
    from strata.analysis.rank import Ranking
    from strata.analysis.rank import Row as Ranked
    from strata.published.documented import Risk as Documented

MOST_WORKLOADS = 4  # with a column in the ranking
RATIO = Metric("ratio", "ratio", "higher")

_FLAGS = {flag.name: flag for flag in FLAGS}
_MODEL_CONFIDENCE = (
    "P is what the model and the figures say together, widened until simulated campaigns kept the error that is "
    "stated. It speaks of this machine, these workloads and this day, not of other hardware; and of stacks never built "
    "only as far as parts act alone and in pairs."
)
_DECISIONS = {
    "leader": "leads",
    "better": "may be better",
    "worse": "worse",
    "equivalent": "as good",
    "undecided": "may be the best",
}


def build(
    view: View,
    ranking: Ranking,
    warnings: Sequence[Caution],
    weights: Sequence[float] | None = None,
    risks: Mapping[str, Sequence[Documented]] = MappingProxyType({}),
) -> ReportModel:
    """`ranking` (made with `weights`) and `warnings` are of this very `view`. Never raises for missing figures.

    `risks`: stack -> its documented risks, the gravest first.

    No text in the model holds a character that acts or hides: renderers may lay out what they find.
    """
    standings = _standings(view, ranking)
    keys = {standing.stack: standing.key for standing in standings}
    model = ReportModel(
        version=VERSION,
        campaign=view.campaign if view.profile is None else f"{view.campaign}, profile {view.profile}",
        about=view.about,
        verdict=Verdict(
            sentence=ranking.sentences[0],
            more=(
                *ranking.sentences[1:],
                *_unsafe(view, ranking, risks),
                *_weighed(view, weights),
                *_exact(view),
                *_in_short(view, warnings),
            ),
            best=ranking.best,
            tied=ranking.tied,
            undecided=ranking.undecided,
            sure=ranking.sure,
        ),
        weights={
            workload.text: weight
            for workload, weight in zip(view.workloads, weights or [1.0] * len(view.workloads), strict=True)
        },
        caveats=() if view.facts is None else view.facts.caveats,
        testbed=machine.testbed(view),
        progress=f"{view.visits_done:,} of {count(view.visits_planned, 'visit')} done.",
        standings=standings,
        ranking=_ranking(view, standings, ranking.best),
        ranking_chart=_ranking_chart(view, standings),
        leading=_leading(len(standings)),
        unranked=tuple(LeftOut(left.stack, (left.reason,)) for left in ranking.unranked),
        risks=_risks(view, keys, risks),
        workloads=workload_sections(view, standings) if standings else (),
        provisioning=tables.provisioning(view, standings),
        steps=tables.steps(view, standings),
        warnings=tuple(Warned(f.kind, f.stack, f.workload, f.text) for f in warnings),
        flags=_flags(view),
        failed=_failed(view),
        lost=machine.lost(view),
        skipped=tuple(LeftOut(skipped.stack, skipped.reasons) for skipped in view.skipped),
        notes=tuple(
            TrialNote(trial.visit, trial.stack, trial.workload, note) for trial in view.trials for note in trial.notes
        ),
        method=_method(view, ranking, keys, weights),
        events=tuple(_event(event, view) for event in view.events),
        machine=machine.facts(view),
        disks=tuple(
            DiskUsed(d.role, d.size_bytes, d.device, d.model, d.write_cache, machine.disk(d, view.testbed))
            for d in view.disks
        ),
        versions=tuple(Fact(name, text) for name, text in sorted(view.versions.items())),
        seed=view.seed,
        commands=tuple(
            StackCommands(keys.get(stack, ""), stack, view.commands[stack])
            for stack in [*keys, *(stack for stack in view.stacks if stack not in keys)]
            if view.commands.get(stack)
        ),
        glossary=_glossary(view),
        machine_figures=tuple(Fact(m.name, m.about) for m in view.machine_metrics.values() if m.about and standings),
        footer=f"Made by Strata {view.versions.get('strata', '')} from stored results alone.".replace("  ", " "),
    )
    return cleaned(model)


# ---------------------------------------------------------------- ranking


def _standings(view: View, ranking: Ranking) -> tuple[Standing, ...]:
    units = _units(view)
    return tuple(
        Standing(
            key=str(place),
            stack=row.stack,
            visits=row.visits,
            tied=row.tied,
            decision=row.decision,
            score=row.score,
            ratio=None if row.ratio is None else _estimate(row.ratio, RATIO),
            against_leader={workload: _estimate(ratio, RATIO) for workload, ratio in _against(row).items()},
            metrics={
                workload: {
                    name: _estimate(figure, units.get((workload, name), Metric(name, "", "neither")))
                    for name, figure in figures.items()
                }
                for workload, figures in row.metrics.items()
            },
            best=row.best,
        )
        for place, row in enumerate(ranking.rows, start=1)
    )


def _against(row: Ranked) -> dict[str, Figure]:
    return {workload: pair.ratio for workload, pair in row.against_leader.items() if pair.ratio is not None}


def _estimate(figure: Figure, metric: Metric) -> Estimate:
    return Estimate(figure.point, figure.low, figure.high, metric.unit, metric.better, figure.n)


def _units(view: View) -> dict[tuple[str, str], Metric]:
    found = {}
    for workload in view.workloads:
        for metric in (*view.machine_metrics.values(), *workload.metrics.values(), workload.primary):
            found[workload.text, metric.name] = metric
    return found


def _ranking(view: View, standings: Sequence[Standing], best: str | None) -> Table:
    shown = view.workloads if len(view.workloads) <= MOST_WORKLOADS else ()
    columns = [
        Column("Score", "× leader", f"1 is the leader; the intervals hold at {_held(view)}", better="higher"),
        Column("Verdict", about="against the leader", numeric=False),
        Column("Visits", about="with a figure under every workload"),
    ]
    cells = [
        _scores(standings),
        [Cell(_DECISIONS.get(standing.decision, standing.decision)) for standing in standings],
        [Cell(f"{standing.visits:,}", standing.visits) for standing in standings],
    ]
    if any(standing.best is not None for standing in standings):
        columns.append(Column("P(best)", about="the chance that this stack is the best", better="higher"))
        cells.append([_chance(standing.best) for standing in standings])
    for workload in shown:
        primary = workload.primary
        known = [tables.estimate_of(standing, workload, primary) for standing in standings]
        scale = scale_of(primary.name, primary.unit, (estimate.point for estimate in known if estimate))
        columns.append(Column(f"{workload.text} {primary.name}", scale.unit, primary.about, better=primary.better))
        cells.append(tables.estimate_cells(known, scale))
    marks = {"leader": "best" if best is not None else "leads"}
    rows = tuple(
        Row(
            standing.stack,
            tuple(column[place] for column in cells),
            standing.key,
            marks.get(standing.decision, ""),
            standing.tied,
        )
        for place, standing in enumerate(standings)
    )
    more = "" if shown else "The figures of each workload are in its own section."
    return Table("ranking-table", "Best score first.", "Stack", tuple(columns), rows, more)


def _held(view: View) -> str:
    return "95 % one by one" if view.rule.design == "adaptive" else f"{_sure(view)} together"


def _chance(best: float | None) -> Cell:
    if best is None:
        return Cell(MISSING)
    return Cell(f"{best:.2f}" if best >= 0.005 else "< 0.01", best)


def _scores(standings: Sequence[Standing]) -> list[Cell]:
    """The leader against itself is 1 and has no interval."""
    cells = tables.estimate_cells([standing.ratio for standing in standings], Scale("×"))
    return [
        replace(cell, low=None, high=None, span="") if standing.decision == "leader" else cell
        for standing, cell in zip(standings, cells, strict=True)
    ]


def _ranking_chart(view: View, standings: Sequence[Standing]) -> IntervalChart | None:
    if len(standings) < 2:
        return None
    marks = [
        IntervalMark(
            standing.key,
            standing.stack,
            cell.value,
            cell.low,
            cell.high,
            f"{cell.text} ({cell.span})" if cell.span else cell.text,
            standing.tied,
        )
        for standing, cell in zip(standings, _scores(standings), strict=True)
        if cell.value is not None
    ][: graphs.LEADING_ROWS]
    return IntervalChart(
        id="ranking-chart",
        title=f"Score against the leader, with {'95 %' if view.rule.design == 'adaptive' else _sure(view)} intervals",
        unit="× the leader's score (more is better)",
        alt="; ".join(f"{mark.key} {mark.label}: {mark.text}" for mark in marks),
        marks=tuple(marks),
        reference=1.0,
        note="Filled: may be the best. Hollow: shown to be worse.",
    )


def _leading(stacks: int) -> str:
    if stacks <= graphs.LEADING_LINES:
        return ""
    rows = (
        f"{min(stacks, graphs.LEADING_ROWS)} for rows of dots and intervals, " if stacks > graphs.LEADING_ROWS else ""
    )
    return (
        f"Charts show the leading stacks only ({rows}{graphs.LEADING_LINES} for lines and panels); "
        f"the tables hold all {stacks}."
    )


# ---------------------------------------------------------------- what went wrong


def _weighed(view: View, weights: Sequence[float] | None) -> Iterable[str]:
    if weights is not None:
        said = ", ".join(f"{w.text} {weight:g}" for w, weight in zip(view.workloads, weights, strict=True))
        yield (
            f"Weighed: {said}. Weights are powers: with 2 and 1, being 10 % faster under the first counts as much as "
            "21 % under the second."
        )


def _exact(view: View) -> Iterable[str]:
    if view.testbed.clock == "virtual" and view.testbed.cpus == 1 and view.trials:
        yield (
            "Exact: on the virtual clock a trial repeats bit for bit, and no noise is in these figures. What "
            "intervals there are come from the spread of the seeds."
        )


def _in_short(view: View, warnings: Sequence[Caution]) -> Iterable[str]:
    spoilt = sum(trial.outcome is not Outcome.OK for trial in view.trials)
    parts = [
        count(amount, noun)
        for amount, noun in (
            (len(warnings), "warning"),
            (len(view.failed), "failed visit"),
            (spoilt, "failed or invalid trial"),
            (len(view.losses), "lost attempt"),
            (len(view.skipped), "skipped stack"),
        )
        if amount
    ]
    return (f"Also: {', '.join(parts)}; see below.",) if parts else ()


def _risks(view: View, keys: Mapping[str, str], risks: Mapping[str, Sequence[Documented]]) -> tuple[StackRisks, ...]:
    order = [*keys, *(stack for stack in view.stacks if stack not in keys)]
    return tuple(
        StackRisks(
            keys.get(stack, ""),
            stack,
            tuple(Risk(r.layer, r.text, r.source, r.remedy, r.severity, r.loses) for r in risks[stack]),
        )
        for stack in order
        if risks.get(stack)
    )


def _unsafe(view: View, ranking: Ranking, risks: Mapping[str, Sequence[Documented]]) -> Iterator[str]:
    """Speed that was bought with data must not pass for speed. Runs made before the mark covered a stack have none."""
    unsafe = {trial.stack for trial in view.trials if "unsafe" in trial.flags}
    unsafe |= {stack for stack, noted in risks.items() if any(risk.loses for risk in noted)}
    named = [stack for stack in ranking.tied if stack in unsafe]
    if named:
        yield (
            f"Able to lose writes that were acknowledged, and so no choice for data that matter: {'; '.join(named)}."
        )


def _flags(view: View) -> tuple[Flag, ...]:
    """Return the flags of the run's trials, the gravest first; those without an entry in the table last."""
    stacks: dict[str, list[str]] = {name: [] for name in _FLAGS}
    for trial in view.trials:
        for flag in trial.flags:
            stacks.setdefault(flag, []).append(trial.stack)
    return tuple(
        Flag(
            name,
            f"{_FLAGS[name].sentence} {_FLAGS[name].advice}"
            if name in _FLAGS
            else "This version of Strata has no explanation for this flag.",
            len(flagged),
            f"{len(flagged):,} of {count(len(view.trials), 'trial')}",
            tuple(dict.fromkeys(flagged)),
        )
        for name, flagged in stacks.items()
        if flagged
    )


def _failed(view: View) -> tuple[Failure, ...]:
    visits = [
        Failure(failed.visit, failed.stack, None, "failed", f"visit {failed.visit} failed", failed.reason)
        for failed in view.failed
    ]
    # Once each, under the first of the trials that it may be of.
    said: dict[tuple[int, str], list[Said]] = {}
    for kept in view.evidence:
        text = "\n".join(filter(None, [kept.stdout.strip(), kept.stderr.strip()]))
        said.setdefault((kept.visit, kept.workload), []).append(Said(kept.command, kept.exit_code, text))
    trials = [
        Failure(
            trial.visit,
            trial.stack,
            trial.workload,
            str(trial.outcome),
            f"visit {trial.visit}, {trial.workload}: "
            + ("no figure" if trial.outcome is Outcome.FAILED else "a figure not to be trusted, and not ranked"),
            trial.reason or "No reason was stored.",
            tuple(said.pop((trial.visit, trial.workload), ())) if trial.outcome is Outcome.FAILED else (),
        )
        for trial in view.trials
        if trial.outcome is not Outcome.OK
    ]
    return tuple(sorted((*visits, *trials), key=lambda failure: failure.visit))


# ---------------------------------------------------------------- how, where and with what


def _sure(view: View) -> str:
    return format_percent(view.rule.confidence, " %")


def _method(view: View, ranking: Ranking, keys: Mapping[str, str], weights: Sequence[float] | None) -> tuple[Fact, ...]:
    exact = view.testbed.clock == "virtual"
    facts = [
        Fact(
            "Replicates",
            f"A visit builds the stack afresh, runs every workload on it and removes it. {_visiting(view)}",
        ),
        *_when(view),
        Fact("Seeds", _seeds(view)) if exact else Fact("Seed of the order", str(view.seed)),
        *_order(view, keys),
        Fact("What decides", _objective(view, weights)),
        Fact("How stacks are compared", ranking.method),
        Fact(
            "As good as each other",
            f"Stacks whose scores are shown to be within {format_percent(view.rule.within, ' %')} "
            "(`within` in the campaign).",
        ),
        Fact("What confidence means", _MODEL_CONFIDENCE)
        if view.rule.design == "adaptive"
        else Fact(
            "What confidence means",
            f"Were the campaign repeated many times, the group that may be the best would hold the best stack at least "
            f"{_sure(view)} of the times"
            + (
                ", each time with other seeds. This speaks of this model of a machine and of these workloads; "
                "whether a real machine agrees has to be measured on it."
                if exact
                else ". This speaks of this machine, these workloads and this day, not of other hardware."
            ),
        ),
        Fact(
            "Intervals of single figures",
            f"{_sure(view)} each, from one {'seed' if exact else 'visit'} to the next.",
        ),
    ]
    if view.rule.budget_s is not None:
        facts.append(Fact("Time budget", human_time(view.rule.budget_s)))
    return tuple(facts)


def _visiting(view: View) -> str:
    if view.rule.design == "race":
        return "Rounds of visits in random order; a stack that is shown to be worse than the leader drops out."
    if view.rule.design == "adaptive":
        return (
            "What to visit next was chosen by what was seen: mostly stacks that may be the best, never twice in a row."
        )
    return f"{count(view.rule.rounds, 'round')} of visits, every stack once in a round, in random order."


def _seeds(view: View) -> str:
    first, last = view.seed, view.seed + view.rule.rounds - 1
    which = str(first) if first == last else f"{first} to {last}"
    return (
        f"{which}; round 1 has the seed {first}, and each further round the next. A seed sets where data land, what "
        "the workload asks for and when interrupts come; with the same seed every figure is the same."
    )


def _when(view: View) -> Iterable[Fact]:
    if not view.trials:
        return
    first = min(trial.started_at for trial in view.trials)
    last = max(trial.started_at + (trial.wall_s or 0.0) for trial in view.trials)
    start, end = (datetime.fromtimestamp(at, UTC) for at in (first, last))
    yield Fact("Measured", f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC")


def _objective(view: View, weights: Sequence[float] | None) -> str:
    names = [f"{workload.primary.name} of {workload.text}" for workload in view.workloads]
    if len(names) < 2:
        return "".join(names) or MISSING
    known = set(weights or ())
    how = (
        "with equal weights"
        if len(known) < 2
        else f"with weights {', '.join(f'{weight:g}' for weight in weights or ())}"
    )
    return f"{', '.join(names)}, {how}: the geometric mean of a stack's ratios to each workload's mean."


def _order(view: View, keys: Mapping[str, str]) -> Iterable[Fact]:
    """The order of the visits by the stacks' numbers, while that is short enough to be read."""
    visits = {trial.visit: (trial.round, trial.order, trial.stack) for trial in view.trials}
    if not visits or len(visits) > 60 or not all(stack in keys for _, _, stack in visits.values()):
        return
    rounds: dict[int, list[tuple[int, str]]] = {}
    for turn, order, stack in visits.values():
        rounds.setdefault(turn, []).append((order, keys[stack]))
    lines = [
        f"round {turn + 1}: {', '.join(key for _, key in sorted(visited))}" for turn, visited in sorted(rounds.items())
    ]
    yield Fact("Order of the measured visits", "; ".join(lines))


def _event(event: Event, view: View) -> Fact:
    start = min((e.at for e in view.events), default=event.at)
    return Fact(f"{event.kind}, after {human_time(event.at - start)}", event.text)


def _glossary(view: View) -> tuple[Fact, ...]:
    return (
        Fact("visit", "one fresh build of a stack, the trials run on it, and its removal"),
        Fact("trial", "one measured run of one workload during a visit"),
        Fact("↑ ↓", "more is better, less is better; no arrow: neither"),
        Fact(MISSING, "not measured; it never stands for zero"),
        Fact("a to b", f"the {_sure(view)} interval of the figure above it, or the least and the most where so said"),
    )
