"""strata doctor"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import typer

from strata import layers, workloads
from strata.cli import output
from strata.hosts.local import LocalHost
from strata.model import Brought, Call, Facts, LayerDriver, Param, ParamType
from strata.planning import plan as planning
from strata.units import human_size

# Arguments by which another program does the work.
_WHOSE = frozenset({"engine", "provider"})


def doctor(as_json: bool) -> None:
    drivers, loads = layers.drivers(), workloads.workloads()
    facts = LocalHost("doctor").facts(planning.tools(drivers.values(), loads.values()), str(Path.cwd()))
    layer_reasons = {name: d.reasons_not_to_run(_bare(name, d.info.params), facts) for name, d in drivers.items()}
    load_reasons = {name: w.reasons_not_to_run(_bare(name, w.info.params), facts) for name, w in loads.items()}
    choices = {
        name: dict(_refused_choices(name, driver.info.params, driver.reasons_not_to_run, facts))
        for name, driver in drivers.items()
    }
    brought = {
        name: [(each, _of_brought(name, driver, each, facts)) for each in driver.info.build.brought]
        for name, driver in drivers.items()
    }
    works = any(not why for why in layer_reasons.values()) and any(not why for why in load_reasons.values())
    if as_json:
        plain = {
            "version": 1,
            "machine": asdict(facts),
            "layers": layer_reasons,
            "choices": {text: why for refused in choices.values() for text, why in refused.items()},
            "workloads": load_reasons,
            "brought": {
                each.text: {"reasons": why, "here": _here(each, facts), "you": each.what}
                for listed in brought.values()
                for each, why in listed
            },
        }
        output.json(plain)
    else:
        more = {name: list(_brought_lines(listed, facts)) for name, listed in brought.items()}
        lists = [*_list("layers", layer_reasons, choices, more), *_list("workloads", load_reasons)]
        output.out("\n".join([*_machine(facts), *lists]))
    if not works:
        raise typer.Exit(4)


def _bare(name: str, params: tuple[Param, ...]) -> Call:
    """The call with nothing but defaults, for asking whether the thing itself can work here."""
    values = {param.name: param.default for param in params} | {"content": ""}
    return Call(name, name, values)


def _refused_choices(
    name: str, params: tuple[Param, ...], reasons: Callable[[Call, Facts], list[str]], facts: Facts
) -> Iterator[tuple[str, list[str]]]:
    """The drivers, engines and providers that a layer cannot work with, for more reasons than it has by itself."""
    bare = _bare(name, params)
    known = reasons(bare, facts)
    for param in params:
        if param.type is not ParamType.CHOICE or not (param.positional or param.name in _WHOSE):
            continue
        for choice in param.choices:
            if choice == param.default:
                continue
            text = f"{name}({choice})" if param.positional else f"{name}({param.name}={choice})"
            found = reasons(replace(bare, text=text, values={**bare.values, param.name: choice}), facts)
            if why := [reason for reason in found if reason not in known]:
                yield text, why


def _of_brought(name: str, driver: LayerDriver, brought: Brought, facts: Facts) -> list[str]:
    bare = _bare(name, driver.info.params)
    return driver.reasons_not_to_run(replace(bare, text=brought.text, values={**bare.values, **brought.values}), facts)


def _here(brought: Brought, facts: Facts) -> list[str]:
    return [tool for tool in brought.tools if tool in facts.tools]


def _brought_lines(listed: list[tuple[Brought, list[str]]], facts: Facts) -> Iterator[str]:
    for brought, why in listed:
        yield f"       {'no ' if why else 'yes'}  {brought.text}"
        yield f"              Here: {', '.join(_here(brought, facts)) or 'nothing of what it takes'}."
        yield from (f"              {reason}" for reason in why)
        yield f"              {brought.what}"


def _machine(facts: Facts) -> list[str]:
    who = "root" if facts.root else "not root: stacks can only be planned"
    return [
        f"{facts.os}, kernel {facts.kernel_text}, {facts.cpus} x {facts.cpu_model or 'unknown processor'}",
        f"{human_size(facts.memory_bytes)} of memory, {human_size(facts.free_bytes)} free here for disk files, {who}",
        f"I/O schedulers: {', '.join(sorted(facts.schedulers)) or 'none found'}",
        *facts.caveats,
    ]


def _list(
    title: str,
    reasons: dict[str, list[str]],
    choices: Mapping[str, Mapping[str, list[str]]] | None = None,
    more: Mapping[str, list[str]] | None = None,
) -> list[str]:
    lines = ["", title]
    for name, why in reasons.items():
        lines.append(f"  {'no ' if why else 'yes'}  {name}")
        lines += [f"         {reason}" for reason in why]
        for text, refused in ((choices or {}).get(name) or {}).items():
            lines += [f"       no   {text}", *(f"              {reason}" for reason in refused)]
        lines += (more or {}).get(name) or []
    return lines
