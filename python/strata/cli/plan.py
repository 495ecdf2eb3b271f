"""strata plan"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from strata import layers
from strata.campaign import testbed
from strata.cli import output, written
from strata.errors import Interrupted
from strata.model import Call, Disk, LayerDriver, Stack, Testbed
from strata.planning import command_lines
from strata.planning.plan import Plan
from strata.run import session
from strata.run.signals import Interrupts
from strata.run.sites import in_lab, testbeds
from strata.units import count, format_size, human_size, human_time

# Families whose file is a program, and not a description that Strata reads.
_EXECUTED = frozenset({"command:", "vagrant:"})
# A text under `files:` is nowhere else.
_ENCLOSED = "{} written in this campaign (files:)"


def plan(
    what: list[str],
    loads: list[str],
    sizes: list[str],
    device: list[str],
    wipe: list[str],
    where: written.Where,
    commands: bool,
    as_json: bool,
    profile: str | None = None,
) -> None:
    campaign = in_lab.fitted(written.campaign(what, loads, sizes, where, profile), "plan")
    given = session.devices(device, wipe, campaign.testbed, sizes)
    interrupts = Interrupts()  # a lab machine that is looked at must not outlive this
    try:
        with interrupts.listening(), testbeds.sites(campaign, Path("runs"), "plan", interrupts) as sites:
            seen = session.look(sites, campaign, given)
    except Interrupted as error:
        raise Interrupted("interrupted; nothing was built.") from error
    made, caveats = seen.plan, seen.facts.caveats
    unused = session.unused_sizes(campaign, given)
    rounds = campaign.rule.rounds
    visits = rounds * len(made.runnable)
    drivers = layers.drivers()
    typed = {s.text: _typed(made, s, campaign.testbed, drivers) for s in made.runnable} if commands else {}
    if as_json:
        plain = {
            "version": 1,
            "campaign": campaign.name,
            "profile": campaign.profile,
            "stacks": [stack.text for stack in made.stacks],
            "runnable": [stack.text for stack in made.runnable],
            "skipped": [{"stack": stack, "reasons": list(why)} for stack, why in made.skipped.items()],
            "workloads": [
                {
                    "workload": call.text,
                    "primary": metric.name,
                    "unit": metric.unit,
                    "better": metric.better,
                    "file": call.values.get("file"),
                    "executes_file": call.name in _EXECUTED,
                }
                for call, _, metric in made.workloads
            ],
            "testbed": testbed.described(campaign.testbed),
            "caveats": list(caveats),
            "disks": [_described(disk) for disk in made.disks],
            "unused_sizes": unused,
            "rounds": rounds,
            "visits": visits,
            "seconds": visits * made.seconds_per_visit,
            "growth_bytes": made.growth_bytes,
            "memory_bytes": made.memory_bytes,
            "memory_budget_bytes": made.memory_budget_bytes,
            "directories": {
                path: {"free_bytes": d.free_bytes, "filesystem": d.filesystem, "devices": list(d.devices)}
                for path, d in made.directories.items()
            },
        }
        output.json(plain | ({"commands": typed} if commands else {}))
        return
    named = campaign.name if campaign.profile is None else f"{campaign.name}, profile {campaign.profile}"
    lines = [f"{named}: {len(made.runnable)} of {count(len(made.stacks), 'stack')} can run here"]
    for stack in made.stacks:
        reasons = made.skipped.get(stack.text)
        lines.append(f"  {'skip ' if reasons else '     '}{stack.text}")
        lines += [f"         {reason}" for reason in reasons or ()]
    lines.append("workloads, and what decides")
    for call, _, metric in made.workloads:
        lines.append(f"       {call.text}: {metric.name}, {metric.unit}, {metric.better} is better")
        lines += [f"         {said}" for said in _of_file(call, campaign.testbed)]
    if campaign.testbed.kind != "local":
        lines += ["testbed", f"       {testbed.described(campaign.testbed)}"]
    lines.append("disks")
    lines += [f"       {d.role}: {_disk(d, campaign.testbed)}" for d in made.disks]
    lines += [f"       {sentence}" for sentence in unused]
    if made.growth_bytes:
        lines.append(f"       the files can grow to {human_size(made.growth_bytes)}, one visit at a time")
    for path, own in made.directories.items():
        lies_on = ", ".join(own.devices) or "no block device that is known: what reaches a disk will not be known"
        lines.append(f"       {path}: {own.filesystem or 'a file system that is not known'} on {lies_on}")
    if made.memory_budget_bytes is not None:
        lines.append(
            f"memory: {human_size(made.memory_budget_bytes)} are stated and nothing enforces it yet; trials are marked "
            f"as cached by the {human_size(made.memory_bytes)} that this machine has"
        )
    lines += ["beside every figure", *(f"       {caveat}" for caveat in caveats)] if caveats else []
    takes = f", about {human_time(visits * made.seconds_per_visit)} ({human_time(made.seconds_per_visit)} a visit)"
    lines.append(f"{count(rounds, 'round')}, {count(visits, 'visit')}{takes if visits else ''}")
    for name, listing in typed.items():
        lines += ["", f"# ---- {name}", *listing]
    output.out("\n".join(lines))


def _of_file(call: Call, where: Testbed) -> list[str]:
    """Which file a workload takes, and that it is executed, before it is: a campaign may be somebody else's."""
    if call.path is None:
        return []
    file = call.values.get("file")
    if call.name not in _EXECUTED:
        return [f"read from {file or _ENCLOSED.format(call.path)}"]
    machine = {"local": "this machine", "lab": "the lab machine"}.get(where.kind, where.host or "that machine")
    rights = "root" if where.kind != "local" or os.geteuid() == 0 else "you"
    script = file or f"the script {_ENCLOSED.format(call.path)},"
    return [f"executes {script} as {rights} on {machine}; read it first if it is not yours"]


def _typed(made: Plan, stack: Stack, testbed: Testbed, drivers: Mapping[str, LayerDriver]) -> list[str]:
    """In the lab nothing is typed on this machine."""
    if testbed.kind != "lab":
        return command_lines.of_visit(made, stack, drivers, "DIR/work")
    disks, work = in_lab.as_there(testbed, stack, made.disks)
    return command_lines.of_visit(replace(made, disks=disks), stack, drivers, work)


def _disk(disk: Disk, where: Testbed) -> str:
    said = disk.device or ("a disk of " if where.kind == "lab" else "a sparse file of ") + format_size(disk.size_bytes)
    model = f", model {disk.model}" if disk.model else ""
    return said + model + (f", write cache: {disk.write_cache}" if disk.write_cache else "")


def _described(disk: Disk) -> dict[str, object]:
    """Without what is known only when a run has taken it."""
    return {key: value for key, value in asdict(disk).items() if key != "keep_blocks"}
