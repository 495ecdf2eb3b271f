"""strata doctor"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from strata import layers, workloads
from strata.hosts.local import LocalHost
from strata.model import Call, Facts, Param
from strata.run import plan as planning
from strata.units import human_size


def doctor(as_json: bool) -> None:
    drivers, loads = layers.drivers(), workloads.workloads()
    facts = LocalHost("doctor").facts(planning.tools(drivers.values(), loads.values()), str(Path.cwd()))
    layer_reasons = {name: d.reasons_not_to_run(_bare(name, d.info.params), facts) for name, d in drivers.items()}
    load_reasons = {name: w.reasons_not_to_run(_bare(name, w.info.params), facts) for name, w in loads.items()}
    works = any(not why for why in layer_reasons.values()) and any(not why for why in load_reasons.values())
    if as_json:
        plain = {"version": 1, "machine": asdict(facts), "layers": layer_reasons, "workloads": load_reasons}
        print(json.dumps(plain, indent=2, default=sorted))
    else:
        print("\n".join([*_machine(facts), *_list("layers", layer_reasons), *_list("workloads", load_reasons)]))
    if not works:
        raise typer.Exit(4)


def _bare(name: str, params: tuple[Param, ...]) -> Call:
    """The call with nothing but defaults, for asking whether the thing itself can work here."""
    values = {param.name: param.default for param in params} | {"content": ""}
    return Call(name, name, values)


def _machine(facts: Facts) -> list[str]:
    who = "root" if facts.root else "not root: stacks can only be planned"
    return [
        f"{facts.os}, kernel {facts.kernel_text}, {facts.cpus} x {facts.cpu_model or 'unknown processor'}",
        f"{human_size(facts.memory_bytes)} of memory, {human_size(facts.free_bytes)} free here for disk files, {who}",
        f"I/O schedulers: {', '.join(sorted(facts.schedulers)) or 'none found'}",
        *facts.caveats,
    ]


def _list(title: str, reasons: dict[str, list[str]]) -> list[str]:
    lines = ["", title]
    for name, why in reasons.items():
        lines.append(f"  {'no ' if why else 'yes'}  {name}")
        lines += [f"         {reason}" for reason in why]
    return lines
