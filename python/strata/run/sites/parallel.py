"""Several visits at once, each in a machine of its own. On the virtual clock they cannot disturb each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from strata.errors import BadInput, Refused
from strata.model import Testbed
from strata.run.signals import Interrupts
from strata.run.sites.site import Sites
from strata.run.trials.concurrently import run_concurrently
from strata.units import human_size

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Worker:
    """Carries out one visit after another. Nothing of it is shared with the workers beside it."""

    sites: Sites
    interrupts: Interrupts


def check(testbed: Testbed, jobs: int, available_bytes: int) -> None:
    """Raises BadInput where visits would disturb each other, Refused where their machines do not fit."""
    if jobs > 1 and testbed.clock != "virtual":
        raise BadInput(
            "--jobs is for the virtual clock, where visits cannot disturb each other's figures; leave it out, or add "
            "--on lab --clock virtual."
        )
    if jobs * testbed.memory_bytes > available_bytes and jobs > 1:
        fits = max(1, available_bytes // testbed.memory_bytes)
        one, free = human_size(testbed.memory_bytes), human_size(available_bytes)
        raise Refused(
            f"{jobs} lab machines of {one} do not fit in the {free} of memory that are free; take --jobs {fits}, or "
            "write a smaller memory: in the campaign's lab."
        )


def each(items: Iterable[_Item], workers: Sequence[Worker], work: Callable[[Worker, _Item], None]) -> None:
    """Every item once, by whichever worker is free. After the first that fails none is begun; those under way come to
    their end, and then its exception is raised."""
    waiting = deque(items)

    def go_on(worker: Worker) -> None:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another was quicker
                return
            try:
                work(worker, item)
            except BaseException:
                waiting.clear()
                raise

    run_concurrently({f"worker {number}": partial(go_on, worker) for number, worker in enumerate(workers, start=1)})
