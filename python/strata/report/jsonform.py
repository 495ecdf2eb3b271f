"""The report and the verdict as JSON. Missing figures are null."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from strata.report.model import Estimate, ReportModel
from strata.text import as_json


def render(model: ReportModel) -> str:
    """The whole model. Numbers are in the unit named beside them, in texts as shown."""
    return as_json(asdict(model), indent=1) + "\n"


def verdict_json(model: ReportModel) -> dict[str, Any]:
    """What a script asks: who is best, how sure, and what is missing. Figures are in their declared units."""
    measured = {standing.stack for standing in model.standings}
    return {
        "version": model.version,
        "campaign": model.campaign,
        "sentence": model.verdict.sentence,
        "best": model.verdict.best,
        "tied": list(model.verdict.tied),
        "predicted": [stack for stack in model.verdict.tied if stack not in measured],  # of the tied: never built
        "undecided": model.verdict.undecided,
        "sure": model.verdict.sure,
        "weights": model.weights,
        "caveats": list(model.caveats),
        "testbed": model.testbed,
        "seed": model.seed,
        "versions": {fact.name: fact.text for fact in model.versions},  # lab, machine and disk models among them
        "disks": [
            {
                "role": disk.role,
                "size_bytes": disk.size_bytes,
                "device": disk.device,
                "model": disk.model,
                "write_cache": disk.write_cache,
            }
            for disk in model.disks
        ],
        "ranking": [
            {
                "stack": standing.stack,
                "visits": standing.visits,
                "decision": standing.decision,
                "score": standing.score,
                "best": standing.best,
                "ratio_to_best": _estimate(standing.ratio) if standing.ratio is not None else None,
                "against_leader": {
                    workload: _estimate(ratio) for workload, ratio in standing.against_leader.items()
                },  # by the deciding metric of that workload alone; above 1: better than the leader
                "metrics": {
                    workload: {metric: _estimate(estimate) for metric, estimate in metrics.items()}
                    for workload, metrics in standing.metrics.items()
                },
            }
            for standing in model.standings
        ],
        "risks": {
            each.stack: [
                {
                    "layer": risk.layer,
                    "text": risk.text,
                    "source": risk.source,
                    "remedy": risk.remedy,
                    "severity": risk.severity,
                    "loses": risk.loses,
                }
                for risk in each.risks
            ]
            for each in model.risks
        },
        "unranked": [{"stack": left.stack, "reasons": list(left.reasons)} for left in model.unranked],
        "skipped": [{"stack": left.stack, "reasons": list(left.reasons)} for left in model.skipped],
        "failed": [
            {
                "visit": failure.visit,
                "stack": failure.stack,
                "workload": failure.workload,
                "outcome": failure.outcome,
                "reason": failure.reason,
            }
            for failure in model.failed
        ],
        "lost": [{"visit": lost.visit, "stack": lost.stack, "reason": lost.reason} for lost in model.lost],
        "warnings": [
            {"kind": warned.kind, "stack": warned.stack, "workload": warned.workload, "text": warned.text}
            for warned in model.warnings
        ],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "point": estimate.point,
        "low": estimate.low,
        "high": estimate.high,
        "unit": estimate.unit,
        "better": estimate.better,
        "n": estimate.n,
    }
