"""Advice as text for a terminal. No statistics and no judgement here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby

from strata.advice.advise import Advice, Candidate, Tradeoff
from strata.advice.elsewhere import Elsewhere
from strata.advice.judge import Judged
from strata.analysis.estimate import Estimate
from strata.judge.risks import sentence
from strata.report.numbers import number, with_interval

_FEW = 6  # stacks that are ruled out, of which every reason is printed


def render(found: Advice, wanted: Sequence[str]) -> str:
    """`wanted`: the requirements in words."""
    lines = ["Required: " + ("; ".join(wanted) if wanted else "nothing but speed") + ".", ""]
    if found.conflicts:
        lines += _nobody(found)
    elif found.choice is None:
        lines += ["No measured stack meets all requirements, so none is ranked by speed. These could be measured:"]
        lines += _fitting(found.unmeasured)
        lines += _published(found.published)
    else:
        lines += _choice(found, found.choice)
    if found.ruled_out and not found.conflicts:
        lines += ["", f"Ruled out ({len(found.ruled_out)}):"]
        lines += _briefly(found.ruled_out) if len(found.ruled_out) > _FEW else _each(found.ruled_out)
    lines += _machines(found.machines)
    return "\n".join(lines) + "\n"


def headline(found: Advice) -> str:
    """Return one sentence: the best stack that meets all requirements, or that there is none."""
    if found.choice is None:
        measured = "measured " if found.unmeasured else ""
        return f"No {measured}stack meets all requirements."
    choice = found.choice.judged.stack
    if others := [text for text in found.tied if text != choice]:
        named = ", ".join(others[:_FEW]) + (f" and {len(others) - _FEW} more" if len(others) > _FEW else "")
        return f"Of the stacks that meet all requirements, {choice} leads; the data do not show it to beat {named}."
    return f"Best of the stacks that meet all requirements: {choice}."


def _choice(found: Advice, choice: Candidate) -> list[str]:
    alone = len(found.tied) <= 1
    lines = [
        f"{'Choose' if alone else 'Choose one of these, which the data do not distinguish'}: {choice.judged.stack}"
    ]
    lines += [f"  or {text}" for text in found.tied if text != choice.judged.stack]
    lines += [f"  {sentence}" for sentence in found.sentences]
    if choice.judged.answers:
        lines += ["", "Why it fits:"]
        lines += [f"  {answer.requirement}: {answer.why} [{answer.basis}]" for answer in choice.judged.answers]
    lines += _risks(choice.judged)
    if found.others:
        lines += ["", "The other stacks that meet all requirements, against it:"]
        for place, other in enumerate(found.others, start=2):
            lines += _other(place, other)
        lines += ["", _price(found.others[0])]
    if found.unmeasured:
        lines += ["", "These meet all requirements too, and were not measured:"]
        lines += _fitting(found.unmeasured)
    lines += _published(found.published)
    what = f"{shlex.quote(str(found.run))} {shlex.quote(choice.judged.stack)}"
    lines += [
        "",
        "What is marked [documented] was not tried here.",
        f"Build it: strata recipe {what} --as shell --map ROLE=/dev/disk/by-id/...",
    ]
    return lines


def _fitting(judged: Sequence[Judged]) -> list[str]:
    """Of a few also why, and what is to be known against them."""
    if len(judged) > _FEW:
        return [*(f"  {each.stack}" for each in judged), "  Why, and their risks, are in --json."]
    lines = []
    for each in judged:
        lines.append(f"  {each.stack}")
        lines += [f"    {answer.requirement}: {answer.why} [{answer.basis}]" for answer in each.answers]
        lines += [f"    {line.strip()}" for line in _risks(each)[1:]]
    return lines


def _machines(machines: Mapping[str, Sequence[str]]) -> list[str]:
    """Runs of the same machine together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for run, lines in machines.items():
        alike.setdefault(tuple(lines), []).append(run)
    return [
        line
        for lines, runs in alike.items()
        for line in ("", f"{', '.join(runs)}: on {lines[0]}", *(f"  {caveat}" for caveat in lines[1:]))
    ]


def _published(found: Sequence[Elsewhere]) -> list[str]:
    lines = []
    for each in found:
        lines += [
            "",
            f"Published of stacks like these, and not measured here: {each.title} ({each.year}), {each.testbed}",
        ]
        for (workload, metric, other), ratios in groupby(each.ratios, lambda r: (r.workload, r.metric, r.other)):
            lines.append(f"  {metric} under {workload}, how many times that of {other}:")
            for ratio in ratios:
                lines.append(f"    {number(ratio.ratio):>6}  {ratio.stack}")
                lines.append(f"            built as {ratio.built[0]}, against {ratio.built[1]}")
        for order in each.orders:
            by = f" ({order.by}{' times' if order.by[-1].isdigit() else ''})" if order.by else ""
            figure = order.workload if order.metric is None else f"{order.workload}, {order.metric}"
            lines.append(f"  {figure}: {order.built[0]} before {order.built[1]}{by}, that is")
            lines += [f"    {', '.join(order.better)}", "      before", f"    {', '.join(order.worse)}"]
    return lines


def _other(place: int, other: Candidate) -> list[str]:
    shown = "" if other.shown else "; the data do not show a difference"
    lines = [f"  {place}. {other.judged.stack}: {_score(other.ratio)}{shown}"]
    lines += [f"       + {_trade(trade)}" for trade in other.better]
    lines += [f"       - {_trade(trade)}" for trade in other.worse]
    beyond = ", ".join(f"{name} [{basis}]" for name, basis in other.beyond.items())
    lines += [f"       + {beyond}"] if beyond else []
    return lines + [f"     {line.strip()}" for line in _risks(other.judged)[1:]]


def _price(runner_up: Candidate) -> str:
    ratio, stack = runner_up.ratio, runner_up.judged.stack
    if ratio is None:
        return f"What the runner-up, {stack}, costs is not known: no round has both."
    loss = f"{number(100 * (1 - ratio.point), 2)} %"
    if ratio.low is None or ratio.high is None:
        sure = ", by one visit of each, which shows no spread"
    else:
        sure = f" ({number(100 * (1 - ratio.high), 2)} % to {number(100 * (1 - ratio.low), 2)} %)"
    shown = "" if runner_up.shown else "; the data do not show it to be a difference"
    return f"The runner-up, {stack}, scores {loss} less than the choice{sure}{shown}."


def _nobody(found: Advice) -> list[str]:
    may_be = any(all(answer.basis == "not known" for answer in each.unmet) for each in found.nearest)
    lines = []
    for names in found.conflicts:
        quoted = " and ".join(f"'{name}'" for name in names)
        if may_be:
            lines.append(f"Of no candidate it is known that it has {quoted}; what is [not known] below may be had.")
        else:
            lines.append(f"No candidate has {quoted}{' together' if len(names) > 1 else ''}.")
    if not may_be:
        one = len(found.conflicts) == 1
        what = ("this requirement" if len(found.conflicts[0]) == 1 else "one of them") if one else "one of each"
        lines.append(f"Give up {what}, or add a candidate that has {'it' if what.startswith('this') else 'all'}.")
    lines += ["", "What comes nearest:"]
    return lines + _each(found.nearest)


def _each(judged: Sequence[Judged]) -> list[str]:
    return [
        line
        for each in judged
        for line in (f"  {each.stack}", *(f"    {a.requirement}: {a.why} [{a.basis}]" for a in each.unmet))
    ]


def _briefly(judged: Sequence[Judged]) -> list[str]:
    """What they lack, those that lack the same together."""
    alike: dict[str, list[str]] = {}
    for each in judged:
        alike.setdefault("; ".join(f"{a.requirement} [{a.basis}]" for a in each.unmet), []).append(each.stack)
    lines = [line for lacks, stacks in alike.items() for line in (f"  lack {lacks}:", *(f"    {s}" for s in stacks))]
    return [*lines, "  What showed it of each stack is in --json and in the report."]


def _risks(judged: Judged) -> list[str]:
    return ["Risks:", *(f"  ! {sentence(risk)}" for risk in judged.risks)] if judged.risks else []


def _trade(trade: Tradeoff) -> str:
    once = ", one visit" if trade.figure.low is None or trade.of_choice.low is None else ""
    how = "better" if trade.ratio > 1 else "worse"
    return (
        f"{trade.metric} under {trade.workload} is {how}: {number(trade.figure.point)}, of the choice "
        f"{number(trade.of_choice.point)} (ratio {number(max(trade.ratio, 1 / trade.ratio))}{once})"
    )


def _score(ratio: Estimate | None) -> str:
    if ratio is None:
        return "how its score compares is not known"
    if ratio.low is None or ratio.high is None:
        return f"scores {number(ratio.point)} times what the choice does"
    point, span = with_interval(ratio.point, ratio.low, ratio.high)
    return f"scores {point} times what the choice does ({span})"
