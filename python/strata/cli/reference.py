"""The reference of layers, workloads and metrics, from the code alone.

`python -m strata.cli.reference DIR` writes the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strata import layers, workloads
from strata.cli import page_file
from strata.errors import BadInput
from strata.model import LayerInfo, Metric, Param, ParamType, Value, WorkloadInfo
from strata.planning import machine_metrics
from strata.units import format_percent, format_size, format_time

Entry = LayerInfo | WorkloadInfo | Metric

_KINDS = ("layers", "workloads", "metrics")


def entries(what: str, name: str | None = None) -> list[Entry]:
    """All of a kind, or the one called `name`. Raises BadInput naming what there is."""
    found: dict[str, Entry]
    match what:
        case "layers":
            found = {**layers.catalogue()}
        case "workloads":
            found = {**workloads.catalogue()}
        case "metrics":
            found = {
                metric.name: metric
                for metric in (
                    *machine_metrics.HOST_METRICS,
                    *machine_metrics.GUEST_METRICS,
                    *machine_metrics.device_metrics("disk"),
                )
            }
            declared = [info.metrics for info in layers.catalogue().values()]
            declared += [info.metrics for info in workloads.catalogue().values()]
            found.update((metric.name, metric) for metrics in declared for metric in metrics)
        case _:
            raise BadInput(f"there is nothing called '{what}' to show; write one of: {', '.join(_KINDS)}, campaign.")
    if name is None:
        return list(found.values())
    if name not in found:
        raise BadInput(f"there is no '{name}' among the {what}; there are: {', '.join(found)}.")
    return [found[name]]


def text(entry: Entry) -> str:
    """One entry for a terminal."""
    lines = [entry.name, f"  {entry.about}"]
    match entry:
        case LayerInfo():
            lines += [f"  {fact}" for fact in _layer_facts(entry)]
            lines += _param_lines(entry.params)
        case WorkloadInfo():
            lines += [f"  {fact}" for fact in _workload_facts(entry)]
            lines += _param_lines(entry.params)
            lines += ["  metrics", *(f"    {_metric(metric)}" for metric in entry.metrics)]
        case Metric():
            lines = [_metric(entry)]
    return "\n".join(lines)


def page(what: str) -> str:
    """All entries of a kind as a Markdown page."""
    parts = [f"# {what.capitalize()}\n\nGenerated from the code by `make docs`; do not edit.\n"]
    listed = entries(what)
    if what == "metrics":
        parts.append("| metric | unit | better | what |\n|---|---|---|---|")
        parts += [f"| `{m.name}` | {m.unit} | {m.better} | {m.about} |" for m in listed if isinstance(m, Metric)]
        return "\n".join(parts) + "\n"
    for entry in listed:
        assert not isinstance(entry, Metric)
        facts = _layer_facts(entry) if isinstance(entry, LayerInfo) else _workload_facts(entry)
        parts.append(f"## {entry.name}\n\n{entry.about}\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n")
        if entry.params:
            parts.append("| argument | value | default | what |\n|---|---|---|---|")
            parts += [f"| `{p.name}` | {_value_of(p)} | {_default(p)} | {p.about} |" for p in entry.params]
            parts.append("")
    return "\n".join(parts)


def _layer_facts(info: LayerInfo) -> list[str]:
    sits = ", ".join(sorted(info.accepts)) or "nothing: it stands at the start"
    facts = [f"sits on: {sits}", f"gives: {info.provides or 'what is below it'}"]
    if info.many:
        facts.append("joins several inputs into one")
    if info.needs:
        facts.append(f"needs something below it that offers: {info.needs}")
    if info.offers:
        facts.append(f"offers to conditions above it: {', '.join(sorted(info.offers))}")
    if info.tools:
        facts.append(f"programs: {', '.join(info.tools)}")
    if info.metrics:
        facts.append(f"reports: {'; '.join(map(_metric, info.metrics))}")
    return facts


def _workload_facts(info: WorkloadInfo) -> list[str]:
    primary = next(metric for metric in info.metrics if metric.name == info.primary)
    facts = [f"runs on: {', '.join(sorted(info.accepts))}", f"what decides: {_metric(primary)}"]
    if info.variants:
        facts.append(f"variants: {', '.join('@' + variant for variant in info.variants)}")
    if info.tools:
        facts.append(f"programs: {', '.join(info.tools)}")
    return facts


def _param_lines(params: tuple[Param, ...]) -> list[str]:
    if not params:
        return []
    width = max(len(param.name) for param in params)
    return [
        "  arguments",
        *(f"    {p.name:{width}}  {p.about} ({_value_of(p)}; default {_default(p)})" for p in params),
    ]


def _value_of(param: Param) -> str:
    return ", ".join(param.choices) if param.type is ParamType.CHOICE else str(param.type)


def _default(param: Param) -> str:
    if param.required:
        return "none: must be given"
    return "the tool's own" if param.default is None else _written(param, param.default)


def _written(param: Param, value: Value) -> str:
    match param.type:
        case ParamType.FLAG:
            return "on" if value else "off"
        case ParamType.SIZE:
            return format_size(int(value))
        case ParamType.TIME:
            return format_time(float(value))
        case ParamType.PERCENT:
            return format_percent(float(value))
        case _:
            return str(value)


def _metric(metric: Metric) -> str:
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    return f"{metric.name} ({metric.unit}{better}): {metric.about}"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for kind in _KINDS:
        page_file.write(target / f"{kind}.md", page(kind))
