"""Small run directories as Strata writes them, from which mutants are made."""

from __future__ import annotations

import random
import shlex
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from strata import layers, workloads
from strata.campaign import parse_stacks
from strata.model import Call, Command, Completed, Disk, Facts, Metric, Outcome, Rule, Testbed
from strata.probes import PREFIX
from strata.store.writer import Store

FACTS = Facts(
    hostname="bench-1",
    kernel=(6, 12, 48),
    kernel_text="6.12.48+deb13-amd64",
    os="Debian GNU/Linux 13 (trixie)",
    cpu_model="AMD EPYC 7543 32-Core Processor",
    cpus=2,
    memory_bytes=8 << 30,
    root=True,
    filesystems=frozenset({"ext4", "xfs"}),
    tools={"fio": "fio-3.39"},
    schedulers=frozenset({"none"}),
    free_bytes=80 << 30,
    caveats=("Measured in an emulated machine.",),
)
MACHINE = (
    Metric("host.cpu_user_s", "s", "lower", "processor time in programs"),
    Metric("disk.write_bytes", "bytes", "lower", "written to the device"),
    Metric("psi.io_some_pct", "%", "lower", "time in which some task waited for a disk"),
)
FEATURES = ("feature/clone", "feature/checksums")


def ordinary(directory: Path) -> Path:
    """Three stacks of which one is skipped, two loads, a trial that failed, a visit that failed, a lost machine."""
    return _run(
        directory,
        ("disk | ext4", "disk | xfs", "disk | btrfs"),
        ("fio/randrw-75-25", "dd/seqwrite-sync"),
        Rule(rounds=3),
        Testbed(),
    )


def exact(directory: Path) -> Path:
    """Of the virtual clock, by a design that learns, with factors and weights."""
    stacks = ("disk | {ext4, xfs}", "2*disk | md(raid1) | {ext4, xfs}")
    rule = Rule(rounds=2, design="adaptive", certify=True, objective="fio/randrw-75-25=2,dd/seqwrite-sync=1")
    testbed = Testbed("lab", clock="virtual", features=frozenset({"zfs"}))
    return _run(directory, stacks, ("fio/randrw-75-25", "dd/seqwrite-sync"), rule, testbed)


def features(directory: Path) -> Path:
    """What `strata features` keeps; returns the run inside."""
    run = _run(
        directory / "directory", ("disk | ext4", "disk | xfs", "disk | btrfs"), FEATURES, Rule(rounds=1), Testbed()
    )
    (directory / "features.html").write_text("<p>the matrix</p>")
    return run


def older(directory: Path) -> Path:
    """Of store version 3, whose rules have no objective."""
    _run(directory, ("disk | ext4", "disk | xfs"), ("fio/randrw-75-25",), Rule(rounds=2), Testbed())
    with closing(sqlite3.connect(directory / "strata.db", isolation_level=None)) as sql:
        sql.execute("ALTER TABLE rule DROP COLUMN objective")
        sql.execute("PRAGMA user_version = 3")
    return directory


UNDOS = tuple(("strata-fuzz-undo", layer) for layer in ("disk", "2*disk", "ext4", "xfs", "btrfs", "md(raid1)"))
"""Every command that undoes something in these runs."""

BASES = (ordinary, exact, features, older)


def _run(directory: Path, expressions: Sequence[str], loads: Sequence[str], rule: Rule, testbed: Testbed) -> Path:
    rng = random.Random(7)
    stacks = [stack for text in expressions for stack in parse_stacks(text, layers.catalogue())]
    store = Store.create(
        directory,
        name="file systems on one disk",
        about="Which file system for VM images?",
        source="stacks: [disk | ext4]\n",
        fingerprint="f",
        description={"stacks": [stack.text for stack in stacks], "profile": None},
        seed=5,
        version="0.1.0",
        now=1_790_000_000.0,
        testbed=testbed,
    )
    calls = [(_call(name), *_metrics(name)) for name in loads]
    store.add_plan(stacks, calls, MACHINE, (Disk("disk", 8 << 30, None, "hdd-7200", "volatile"),))
    store.set_rule(rule, 1_790_000_000.0)
    skipped = {stack.text: ["No btrfs here: install btrfs-progs."] for stack in stacks if "btrfs" in stack.text}
    store.add_facts(FACTS, {"fio": "fio-3.39", "mkfs.ext4": "1.47.2"}, skipped, 1_790_000_000.0)
    store.add_event("decision", f"visit every stack once a round, {rule.rounds} rounds", 1_790_000_000.0)
    store.add_event("warning", "something was warm", 1_790_000_001.0)
    visited = [stack for stack in stacks if stack.text not in skipped]
    planned = [(number, stack.text) for number in range(rule.rounds) for stack in visited]
    store.add_visits([*planned, (rule.rounds, visited[0].text)], 1_790_000_000.0)
    for number, visit in enumerate(store.open_visits()[: len(planned)]):
        _visit(store, rng, visit.id, visit.stack, calls, number)
    store.close()
    return directory


def _call(name: str) -> Call:
    info = workloads.catalogue()[name]
    return Call(name, name, {param.name: param.default for param in info.params})


def _metrics(name: str) -> tuple[Metric, tuple[Metric, ...]]:
    info = workloads.catalogue()[name]
    return next(metric for metric in info.metrics if metric.name == info.primary), info.metrics


def _visit(
    store: Store,
    rng: random.Random,
    visit: int,
    stack: str,
    calls: Sequence[tuple[Call, Metric, Sequence[Metric]]],
    number: int,
) -> None:
    at = 1_790_000_000.0 + 90 * number
    if number == 1:
        store.lose(store.begin(visit, at), "the guest kernel panicked", at, "Kernel panic - not syncing")
    attempt = store.begin(visit, at)
    for layer in stack.split(" | "):
        entry = store.journal(
            attempt, layer, f"make {layer}", Command(("mk", layer)), Command(("strata-fuzz-undo", layer)), at
        )
        store.settle(entry, "done", 0.5, at)
        store.settle(entry, "undone", 0.25, at)
    level = 4000.0 if "ext4" in stack else 4600.0
    for call, primary, metrics in calls:
        failed = number == 3 and call.name == calls[-1][0].name and len(calls) > 1
        figures = {metric.name: level * rng.lognormvariate(0, 0.03) for metric in metrics}
        if call.name.startswith(PREFIX):
            figures = {"probe_s": 1.5, "holds": float(rng.random() < 0.5)}
        figures |= {"host.cpu_user_s": 2.1, "disk.write_bytes": 4e9, "psi.io_some_pct": 63.0}
        store.add_trial(
            attempt,
            call.text,
            outcome=Outcome.FAILED if failed else Outcome.OK,
            reason="no space left" if failed else None,
            at=at,
            wall_s=31.0,
            argv=((("sh", "-c", shlex.quote("true")), ("fio", "job"))),
            flags=("unsteady",) if number == 2 else (),
            notes=(f"{call.name.removeprefix(PREFIX)}: what showed it", "taken=yes said=no"),
            figures=None if failed else figures,
            series=None
            if failed
            else {
                name: [(float(s), level * rng.lognormvariate(0, 0.05)) for s in range(20)]
                for name in (primary.name, "disk.write_bytes")
            },
        )
        if failed:
            store.add_evidence(attempt, call.text, [Completed(("dd", "bs=1M"), 1, "", "no space left", 0.5)])
    store.end(attempt, "it broke" if number == 4 else None, at + 80)
