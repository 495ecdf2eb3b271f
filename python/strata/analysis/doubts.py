"""What a careful reader should know of a verdict that rests on the additive model. Of the same form as `checks`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from strata.analysis.additive import Posterior
from strata.analysis.belief import INTERVAL_Z, Belief, unexplained
from strata.analysis.checks import DRIFT_RANGE, Caution
from strata.analysis.evidence import Evidence, belief_of, evidence
from strata.analysis.verdict import of_loads
from strata.model import View
from strata.text import some_of
from strata.units import percent

MANY_VISITS = 40  # of one stack: what a question may cost before it is called too fine


def warnings(view: View, weights: Sequence[float] | None = None) -> tuple[Caution, ...]:
    """Nothing where no model decided, or nothing is measured yet.

    `weights`: of the workloads; None: as the run's objective says.
    """
    if view.rule.design != "adaptive":
        return ()
    found = evidence(view, weights=weights)
    if not found.visited or not found.eligible.size:
        return ()
    posterior = found.posterior()
    belief = belief_of(found, posterior, view.rule.within, view.seed)
    # The model is of the score of a visit, so a doubt of it names a workload only where there is one.
    workload = view.workloads[0].text if len(view.workloads) == 1 else None
    where = of_loads(view)
    return (
        *_predicted(found, belief, posterior),
        *_unexplained(posterior, workload, where),
        *_drift(found, posterior, workload, where),
        *_noise(posterior, belief, workload, where, view.rule.within),
    )


def _predicted(found: Evidence, belief: Belief, posterior: Posterior) -> Iterator[Caution]:
    unseen = [found.stacks[k] for k in belief.tied if posterior.visits[k] == 0]
    vain = [stack for stack in unseen if stack in found.vain]
    if unseen:
        one = len(unseen) == 1
        never = f"{'was' if one else 'were'} never built"
        if vain:
            never = "failed in every visit" if len(vain) == len(unseen) else "were never built or failed in every visit"
        yield Caution(
            "predicted",
            unseen[0] if one else None,
            None,
            f"{some_of(unseen)} may be among the best and {never}: what is "
            "said of it is predicted from stacks that share its parts. Run more visits before you choose it.",
        )


def _unexplained(posterior: Posterior, workload: str | None, where: str) -> Iterator[Caution]:
    own = float(posterior.spreads[-1])
    if unexplained(posterior):
        yield Caution(
            "unexplained",
            None,
            workload,
            f"The factors do not explain these stacks {where}: what is a stack's own has a spread of "
            f"{percent(own)}. A stack that was never built may be far better than predicted. The probability counts "
            "with a few such stacks, and is less sure here than elsewhere. Measure all of them (--design rounds).",
        )


def _drift(found: Evidence, posterior: Posterior, workload: str | None, where: str) -> Iterator[Caution]:
    span = float(np.ptp(posterior.drift)) if posterior.drift.size > 1 else 0.0
    if span > DRIFT_RANGE:
        most = int(np.argmax(posterior.visits))
        yield Caution(
            "drift",
            None,
            workload,
            f"The machine changed by {percent(math.expm1(span))} over the run {where}, as stacks visited "
            f"again and again show (most often {found.stacks[most]}, {posterior.visits[most]} times). The model takes "
            "it out of the comparison; do not compare these figures with those of another day.",
        )


def _noise(posterior: Posterior, belief: Belief, workload: str | None, where: str, within: float) -> Iterator[Caution]:
    rivals = [int(k) for k in belief.tied if posterior.visits[k] >= 2]
    if len(rivals) < 2:
        return
    spread = float(np.median(posterior.noise[rivals]))
    visits = math.ceil(2 * (INTERVAL_Z * spread / -math.log1p(-within)) ** 2)
    if visits > MANY_VISITS:
        yield Caution(
            "noise",
            None,
            workload,
            f"One visit varies by {percent(spread)} {where}, and to tell two stacks {percent(within)} apart "
            f"each takes about {visits} visits: the noise is too high for the question. Run longer trials, stop other "
            "work on the machine, or call more stacks equal (--within).",
        )
