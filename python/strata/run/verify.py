"""An exact run once more, to see that it gives the same figures bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from strata import campaign as campaigns
from strata import layers, workloads
from strata.analysis.exactness import ExactComparison, compare, only_of
from strata.campaign import Campaign, differences
from strata.errors import BadInput, Refused
from strata.lab import emulator
from strata.run import campaign as running
from strata.run import session
from strata.run.progress import Listener
from strata.run.signals import Interrupts
from strata.run.sites import parallel, testbeds
from strata.store import reader


def verify(
    directory: Path,
    again: Path,
    jobs: int,
    interrupts: Interrupts,
    listener: Listener,
    progress: Callable[[str], None],
) -> tuple[ExactComparison, tuple[str, ...]]:
    """The figures of the run in `directory` against those of the same visits carried out in `again`, a new directory;
    and what was not the same about the machines. `jobs`: visits at once.

    Raises Refused for a run that is not exact, BadInput when what its campaign says means something else today.
    """
    written = reader.source(directory)
    campaign = stored_campaign(directory)
    if campaign.testbed.clock != "virtual":
        raise Refused(
            f"{directory} was measured on the real clock, where no two runs are equal; "
            "give a run of --on lab --clock virtual."
        )
    parallel.check(campaign.testbed, jobs, emulator.available_memory())
    changed = differences(dict(written.description), campaign.describe())
    if changed:
        listing = "\n  ".join(changed)
        raise BadInput(
            f"{directory} cannot be run again as it was; take the version of Strata that made it, or put back what its "
            f"campaign names:\n  {listing}"
        )
    before = reader.view(directory, series=True)
    done = {trial.round for trial in before.trials} | {visit.round for visit in before.failed}
    if not before.trials:
        raise Refused(f"{directory} holds no trial yet; finish the run with `strata run`, then verify it.")
    campaign = replace(campaign, rule=replace(campaign.rule, rounds=max(done) + 1, budget_s=None))
    with testbeds.sites(campaign, again, "look", interrupts, progress) as sites:
        order = session.order(sites, campaign, session.Devices())
        store = running.create(again, order, sites.now())
    try:
        with testbeds.workers(campaign, again, store.identity().uuid, jobs, interrupts, progress) as workers:
            running.execute(order, store, workers, layers.drivers(), listener)
    finally:
        store.close()
    # whole seeds were carried out, and the run may have been stopped in the middle of its last
    after = only_of(reader.view(again, series=True), before)
    return compare(before, after), _other(before.versions, after.versions)


def stored_campaign(directory: Path) -> Campaign:
    """Load the campaign of the run in `directory` as it was begun. Raises StoreError, BadInput."""
    written = reader.source(directory)
    return campaigns.load(
        written.source,
        where=str(directory),
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=_not_in_the_run,
        profile=written.profile,
    )


def _not_in_the_run(name: str) -> str:
    """A run holds the text of every file that its campaign names; a path from a stored campaign is never opened."""
    raise ValueError("this run does not hold the text of that file, and a path of a stored campaign is not opened")


def _other(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name} was {before.get(name, 'missing')} and is {after.get(name, 'missing')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
