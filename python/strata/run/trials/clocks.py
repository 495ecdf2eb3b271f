"""How the clocks of the machines of a trial differ: guests and lab machines have their own."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from strata.hosts.base import Host
from strata.model import Command

_LOOKS = 8
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Clock:
    """How far the clock of a machine is ahead of the controller's, and how exactly that is known. Seconds."""

    ahead_s: float
    within_s: float


SAME = Clock(0.0, 0.0)


def look(host: Host) -> Clock:
    """Of some looks the one that took least: it was there at an instant between its beginning and its end."""
    looks = []
    for _ in range(_LOOKS):
        before = time.time()
        said = host.run(Command(("date", "+%s.%N"), timeout_s=_ANSWER_S)).stdout
        after = time.time()
        looks.append((after - before, float(said) - (before + after) / 2))
    took_s, ahead_s = min(looks)
    return Clock(ahead_s, took_s / 2)


def kept(before: Clock, after: Clock) -> Clock:
    """How exactly a clock is known that went another way than ours meanwhile, as that of an emulated guest may."""
    drift_s = abs(after.ahead_s - before.ahead_s) - before.within_s - after.within_s
    return replace(before, within_s=before.within_s + max(drift_s, 0.0))
