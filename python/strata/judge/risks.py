"""The documented risks of a stack as it is written. Pure.

Verdict, report, advice, the feature matrix, the `unsafe` mark of a run and every recipe show these, and no others.
"""

from __future__ import annotations

from strata.layers import drivers, survivable
from strata.model import Node, Stack
from strata.published.documented import Documents, Risk, documents


def documented_risks(stack: Stack, known: Documents | None = None) -> tuple[Risk, ...]:
    """The gravest first, of equal ones the lowest layer's; each once. `known`: the packaged documents by default.

    Every risk has its sentence (`text`), its `source`, a `remedy`, and `loses`: whether acknowledged data can be lost.
    """
    found = (
        risk
        for node in stack.top.walk()
        for risk in (known or documents()).risks
        if risk.layer == node.call.name and risk.terms.met(node.call) and risk.last in ("", _last(node))
    )
    return tuple(sorted(dict.fromkeys(found), key=lambda risk: -risk.severity))


def loses_acknowledged(stack: Stack) -> tuple[Risk, ...]:
    """Those by which it can lose data that were acknowledged; empty: none is documented."""
    return tuple(risk for risk in documented_risks(stack) if risk.loses)


def sentence(risk: Risk) -> str:
    """The risk in words, with its layer, source and remedy."""
    return f"{risk.layer}: {risk.text} ({risk.source}). To lessen it: {risk.remedy}."


def _last(node: Node) -> str:
    """Of the last input, which is the cache of a layer that caches."""
    if not node.inputs:
        return ""
    return "redundant" if survivable(node.inputs[-1], drivers()) else "single"
