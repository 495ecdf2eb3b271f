"""strata compare"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from strata import layers, published, workloads
from strata.analysis import between, studies
from strata.analysis.studies import Printed, StudyClaim
from strata.cli import output
from strata.model import View
from strata.report import comparison
from strata.store import reader

_PUBLISHED = "published:"


def compare(directory: Path, other: str, everything: bool, as_json: bool) -> None:
    view = reader.view(directory)
    if other == _PUBLISHED:
        _list_studies(as_json)
        return
    if other.startswith(_PUBLISHED):
        _with_study(view, other.removeprefix(_PUBLISHED), as_json)
        return
    later = reader.view(Path(other))
    found = between.runs(view, later)
    if as_json:
        _print_json(asdict(found))
        return
    _machines((view, later), (str(directory), other))
    output.out(comparison.of_runs(found, str(directory), other, everything=everything), end="")


def _list_studies(as_json: bool) -> None:
    studies = [published.study(name, layers.catalogue(), workloads.catalogue()) for name in published.names()]
    if as_json:
        _print_json({"studies": [{"name": each.name, "title": each.title, "year": each.year} for each in studies]})
        return
    output.out("\n".join(f"{_PUBLISHED}{each.name}  {each.title} ({each.year})" for each in studies))


def _with_study(view: View, name: str, as_json: bool) -> None:
    study = published.study(name, layers.catalogue(), workloads.catalogue())
    title = f"{study.title} ({study.year}), {study.testbed}; {study.repeats}"
    about: dict[str, object] = {"study": name, "year": study.year, "source": study.source}
    if study.pairs:
        claims = [
            StudyClaim(
                each.workload, each.metric, each.better, each.worse, each.better_like, each.worse_like, each.ratio
            )
            for each in study.pairs
        ]
        tried = studies.claim_results(view, claims)
        if as_json:
            _print_json({**about, "retried": [asdict(each) for each in tried]})
        else:
            output.out(comparison.of_findings(tried, title, study.source, study.left_out), end="")
        return
    printed = [Printed(each.stack.text, each.workload, each.metric, each.goodness) for each in study.figures]
    found = studies.held(view, printed, study.resolution)
    if as_json:
        _print_json({**about, "held": [asdict(each) for each in found]})
    else:
        output.out(comparison.of_study(found, title, study.source, study.left_out), end="")


def _machines(views: Sequence[View], names: Sequence[str]) -> None:
    for view, name in zip(views, names, strict=True):
        facts = view.facts
        machine = "an unknown machine" if facts is None else facts.described
        output.out(f"{name}: {view.campaign} on {machine}")
        for caveat in facts.caveats if facts is not None else ():
            output.out(f"  {caveat}")


def _print_json(content: dict[str, object]) -> None:
    output.json({"version": 1, **content})
