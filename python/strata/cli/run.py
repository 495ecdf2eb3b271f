"""strata run"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import typer

from strata import layers
from strata.cli import verdict, watch, written
from strata.errors import BadInput, Refused
from strata.hosts.local import LocalHost
from strata.model import Rule
from strata.run import campaign as running
from strata.run import lock, session
from strata.run.signals import Interrupts
from strata.store import database
from strata.store.writer import Store
from strata.units import parse_time


def run(
    what: list[str],
    loads: list[str],
    out: Path | None,
    budget: str | None,
    rounds: int | None,
    sizes: list[str],
    device: list[str],
    wipe: list[str],
    yes: bool,
    as_json: bool,
) -> None:
    campaign = written.campaign(what, loads, sizes)
    campaign = replace(campaign, rule=_rule(campaign.rule, budget, rounds))
    given = session.devices(device, wipe)
    directory = out or Path("runs") / _as_file_name(campaign.name)
    interrupts = Interrupts()
    with interrupts.listening():
        if database.exists(directory):
            _recover(directory, interrupts)
        order = session.order(LocalHost("look"), campaign, given, directory)
        _confirm(order, yes)
        with lock.locked(directory):
            store = running.open_store(directory, order, LocalHost("look").now())
            try:
                _execute(order, store, interrupts, as_json)
            finally:
                store.close()
    model = verdict.model_of(directory)
    verdict.print_verdict(model, as_json)
    report = verdict.write_report(model, directory / "report.html")
    if not as_json:
        print(f"\nThe whole report: {report}")
    if model.failed:
        raise typer.Exit(1)


def _recover(directory: Path, interrupts: Interrupts) -> None:
    with lock.locked(directory):
        store = Store.resume(directory)
        try:
            running.recover(store, LocalHost(store.identity().uuid), interrupts, watch.plain(sys.stderr))
        finally:
            store.close()


def _execute(order: running.Order, store: Store, interrupts: Interrupts, as_json: bool) -> None:
    host = LocalHost(store.identity().uuid)
    # With --json the progress goes beside the answer, not into it.
    with watch.listener(store.directory, sys.stderr if as_json else sys.stdout) as listener:
        running.execute(order, store, host, layers.drivers(), interrupts, listener)


def _rule(rule: Rule, budget: str | None, rounds: int | None) -> Rule:
    try:
        budget_s = rule.budget_s if budget is None else parse_time(budget)
    except ValueError as error:
        raise BadInput(f"--budget: {error}.") from error
    return replace(rule, budget_s=budget_s, rounds=rounds or rule.rounds)


def _as_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80] or "run"


def _confirm(order: running.Order, yes: bool) -> None:
    devices = [disk for disk in order.plan.disks if disk.device]
    if not devices or yes:
        return
    listing = "\n".join(f"  {disk.device} ({disk.role})" for disk in devices)
    if not sys.stdin.isatty():
        raise Refused(f"everything on these devices would be overwritten:\n{listing}\nadd --yes to agree.")
    print(f"Everything on these devices will be overwritten:\n{listing}")
    if input("Type yes to go on: ").strip() != "yes":
        raise Refused("nothing was touched.")
