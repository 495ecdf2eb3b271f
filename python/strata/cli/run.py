"""strata run"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import typer

from strata import layers
from strata.analysis import objective
from strata.analysis.objective import PARETO
from strata.cli import output, verdict, watch, written
from strata.design.choice import NO_CERTIFICATE
from strata.errors import BadInput, Refused
from strata.lab import emulator
from strata.model import Design, Rule, WorkloadView
from strata.run import campaign as running
from strata.run import session, verify
from strata.run.safety import lock
from strata.run.signals import Interrupts
from strata.run.sites import in_lab, parallel, testbeds
from strata.store import database
from strata.store.writer import Store
from strata.units import human_size, parse_percent, parse_time


@dataclass(frozen=True, slots=True)
class Decide:
    """What the command line says of the decision; each of them holds over what was said before."""

    budget: str | None = None
    rounds: int | None = None
    confidence: str | None = None
    within: str | None = None
    design: str | None = None
    objective: str | None = None


# P(within the margin of the best) to stop at, and whether the shortlist is measured again without the model.
_LEVELS = {"quick": (0.80, False), "standard": (0.95, False), "certified": (0.95, True)}


@dataclass(frozen=True, slots=True)
class Asked:
    """A run, as the command line says it."""

    what: Sequence[str]
    loads: Sequence[str]
    out: Path | None
    where: written.Where
    decide: Decide = Decide()
    sizes: Sequence[str] = ()
    device: Sequence[str] = ()
    wipe: Sequence[str] = ()
    yes: bool = False
    as_json: bool = False
    profile: str | None = None
    jobs: int = 1


def run(asked: Asked) -> None:
    directory = carry_out(asked)
    model = verdict.model_of(directory)
    verdict.print_verdict(model, asked.as_json)
    report = verdict.write_report(model, directory / "report.html")
    if not asked.as_json:
        output.out(f"\nThe whole report: {report}")
    if model.failed:
        raise typer.Exit(1)


def carry_out(asked: Asked) -> Path:
    """All but what is said at the end; returns the directory of the run."""
    begun = stored_run(asked.what)
    if begun is None:
        written_down = written.campaign(asked.what, asked.loads, asked.sizes, asked.where, asked.profile)
    else:
        asked = continued(asked, begun)
        written_down = verify.stored_campaign(begun)
    campaign = in_lab.fitted(written_down, "look")
    parallel.check(campaign.testbed, asked.jobs, emulator.available_memory())
    given = session.devices(asked.device, asked.wipe, campaign.testbed, asked.sizes)
    directory = asked.out or Path("runs") / _as_file_name("-".join(filter(None, [campaign.name, campaign.profile])))
    interrupts = Interrupts()
    with interrupts.listening(), lock.locked(directory):
        store = running.reopen(directory, campaign, given.claimed)
        try:
            if store is not None:
                running.recover(store, interrupts, watch.plain(sys.stderr))
            kept = store.rule() if store else None
            decide = replace(asked.decide, rounds=asked.decide.rounds or asked.where.seeds)
            rule = rule_of(kept, campaign.rule, written.is_file(asked.what), decide)
            with testbeds.sites(campaign, directory, "look", interrupts, _say) as sites:
                order = session.order(sites, replace(campaign, rule=rule), given)
                _check_objective(order)
                if begun is None:  # a stored run states the size of every disk, given or not
                    for sentence in session.unused_sizes(campaign, given):
                        _say(sentence)
                _confirm(order, asked.yes, interrupts)
                store = store or running.create(directory, order, sites.now())
            _execute(order, store, asked.jobs, interrupts, asked.as_json)
        finally:
            if store is not None:
                store.close()
    return directory


def stored_run(what: Sequence[str]) -> Path | None:
    """Return the directory of a run, if that and nothing else is what the user named."""
    path = written.existing(what[0]) if len(what) == 1 else None
    return path if path is not None and path.is_dir() and database.exists(path) else None


def continued(asked: Asked, directory: Path) -> Asked:
    """Return what was asked, with the devices that the run in `directory` began with unless others are named.

    Raises BadInput for options that a stored run has already, Refused for a run that this user's Strata did not make
    here: nothing of a stranger's campaign may be acted on.
    """
    given = {
        "--workload": asked.loads,
        "--profile": asked.profile,
        "--out": asked.out,
        "--size": asked.sizes,
        "a testbed or its disks": replace(asked.where, seeds=None) != written.Where(),
    }
    refused = [name for name, value in given.items() if value]
    if refused:
        raise BadInput(
            f"{directory} continues as it was begun, so it takes no {', '.join(refused)}; leave that out, or start "
            "another run from the campaign (strata show campaign prints it)."
        )
    with lock.locked(directory):
        store = Store.resume(directory)
        try:
            devices = cast("Sequence[str]", store.identity().description.get("devices", ()))
        finally:
            store.close()
    return replace(asked, out=directory, device=asked.device or tuple(devices))


def _execute(order: running.Order, store: Store, jobs: int, interrupts: Interrupts, as_json: bool) -> None:
    # With --json the progress goes beside the answer, not into it.
    with (
        testbeds.workers(order.campaign, store.directory, store.identity().uuid, jobs, interrupts, _say) as workers,
        watch.listener(store.directory, sys.stderr if as_json else sys.stdout) as listener,
    ):
        running.execute(order, store, workers, layers.drivers(), listener)


def _say(text: str) -> None:
    output.err(text)


def rule_of(kept: Rule | None, asked: Rule, from_file: bool, decide: Decide) -> Rule:
    """What the command line says, then what the campaign file says; never fewer rounds than requested earlier.

    Expressions say nothing of rules: there, what holds in a run that goes on stays.
    """
    rule = asked
    if kept is not None:
        more = replace(asked, rounds=max(asked.rounds, kept.rounds), design=kept.design, certify=kept.certify)
        if not more.objective:
            more = replace(more, objective=kept.objective)
        rule = more if from_file else kept
    try:
        budget_s = rule.budget_s if decide.budget is None else parse_time(decide.budget)
    except ValueError as error:
        raise BadInput(f"--budget: {error}.") from error
    try:
        within = rule.within if decide.within is None else parse_percent(decide.within)
    except ValueError as error:
        raise BadInput(f"--within: {error}.") from error
    if not 0 < within < 1:
        raise BadInput("--within takes a percentage between 0% and 100%, as 3%.")
    rule = replace(rule, objective=rule.objective if decide.objective is None else decide.objective)
    rule = _designed(replace(rule, budget_s=budget_s, within=within), decide, kept)
    if rule.design == "rounds" and not decide.rounds and rule.rounds != asked.rounds:
        output.err(f"continuing to {rule.rounds} rounds, as requested before; --rounds changes that")
    return replace(rule, rounds=decide.rounds or rule.rounds)


def _designed(rule: Rule, decide: Decide, kept: Rule | None) -> Rule:
    """--confidence alone leaves it to the stacks how visits are chosen; a run that goes on keeps its way."""
    confidence, certify = rule.confidence, rule.certify
    if decide.confidence is not None:
        if decide.confidence not in _LEVELS:
            raise BadInput(f"--confidence takes {', '.join(_LEVELS)}; '{decide.confidence}' is none of them.")
        confidence, certify = _LEVELS[decide.confidence]
    design: Design = rule.design
    if decide.design is not None:
        if decide.design not in ("auto", "rounds", "race", "adaptive"):
            raise BadInput(f"--design takes auto, rounds, race or adaptive; '{decide.design}' is none of them.")
        design = cast("Design", decide.design)
    elif decide.rounds:
        design = "rounds"
    elif decide.confidence is not None and design == "rounds":
        design = "auto"
    if rule.objective.startswith(PARETO) and (design == "race" or certify):
        raise BadInput(
            "a front (--objective pareto:...) is not raced for, nor certified: take --design rounds or adaptive, and "
            "--confidence quick or standard."
        )
    if decide.rounds and design != "rounds":
        raise BadInput(
            f"--rounds is how often rounds visit every stack; leave it out, or take --design rounds, not {design}."
        )
    if certify and design == "race" and decide.design is None and kept is not None and kept.design == "race":
        # The same words as when it began, before they became a race: they must be able to go on.
        output.err(f"Continuing with the race. {NO_CERTIFICATE} For a model's choice add --design adaptive.")
        certify = False
    if certify and design in ("rounds", "race"):
        raise BadInput(_no_model(decide, design, kept))
    return replace(rule, confidence=confidence, certify=certify, design=design)


def _no_model(decide: Decide, design: Design, kept: Rule | None) -> str:
    """Why nothing can be certified, by what was typed: the rest comes from the campaign file or from before."""
    whose = "run" if kept else "campaign"
    if decide.design is not None:
        way, without = f"--design {design}", "leave --design out"
    elif decide.rounds:
        way, without = f"{decide.rounds} rounds, which visit every stack alike,", "ask for no number of rounds"
    else:
        way, without = f"the design {design} of this {whose}", "add --design adaptive"
    if decide.confidence is not None:
        return (
            f"--confidence certified measures again what a model chose; with {way} there is none: take --confidence "
            "standard."
        )
    return (
        f"this {whose} asks for a certificate, which measures again what a model chose; with {way} there is none: "
        f"{without}, or add --confidence standard to do without the certificate."
    )


def _check_objective(order: running.Order) -> None:
    """Raises BadInput before anything is stored or built."""
    loads = [
        WorkloadView(call.text, call.name, primary, {m.name: m for m in (primary, *workload.info.metrics)})
        for call, workload, primary in order.plan.workloads
    ]
    machine = {metric.name: metric for metric in order.plan.machine_metrics}
    try:
        objective.parse(order.rule.objective, loads, machine)
    except BadInput as error:
        raise BadInput(f"--objective: {error}") from error


def _as_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80] or "run"


def _confirm(order: running.Order, yes: bool, interrupts: Interrupts) -> None:
    """Ask on the error stream, so that standard output stays machine-readable."""
    devices = [disk for disk in order.plan.disks if disk.device]
    if not devices or yes:
        return
    listing = "\n".join(
        f"  {disk.device} ({disk.role}, {human_size(disk.size_bytes)})"
        + (", which carries data now and loses it" if disk.device in order.wipe else "")
        for disk in devices
    )
    if not sys.stdin.isatty():
        raise Refused(f"everything on these devices would be overwritten:\n{listing}\nadd --yes to agree.")
    output.err(f"Everything on these devices will be overwritten:\n{listing}\nType yes to go on: ", end="")
    sys.stderr.flush()
    interrupts.wait_for(sys.stdin)
    if sys.stdin.readline().strip() != "yes":
        raise Refused("nothing was touched.")
