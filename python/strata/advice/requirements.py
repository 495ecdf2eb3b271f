"""What a user requires, from a small file or from flags."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strata.analysis import objective
from strata.campaign import document
from strata.campaign.source import Problems
from strata.errors import BadInput, Problem
from strata.units import format_size, parse_size

_EXAMPLES = {"disks": "{hdd: 2, ssd: 1}", "weights": "{oltp: 2, backup: 1}"}
_KEYS = ("needs", "max_memory", "capacity", "survive", "no_writeback_risk", "disks", "weights", "candidates")


@dataclass(frozen=True, slots=True)
class Requirements:
    needs: tuple[tuple[str, ...], ...] = ()  # features; of each group one is enough
    max_memory_bytes: int | None = None
    capacity_bytes: int | None = None  # of the disks that it is for
    survive: int = 0  # so many disks, whichever they are
    no_writeback_risk: bool = False
    disks: Mapping[str, int] | None = None  # at hand, by role; None: as many as any stack takes
    weights: Mapping[str, float] | None = None  # of workloads
    candidates: tuple[str, ...] = ()  # expressions, beside the stacks of the runs


def read(text: str, where: str, features: Collection[str]) -> Requirements:
    """From a file. Raises BadInput with every problem."""
    noted = Problems()
    found = document.read(text, where, noted, "a file of requirements", "needs: [snapshot, quota]")
    noted.raise_if_any()
    assert found is not None, "what cannot be read has a problem"
    data = found.data
    known = [str(key).replace("-", "_") for key in data]
    problems = [
        Problem(f"there is no key '{key}'; they are {', '.join(_KEYS)}.", where=where)
        for key in known
        if key not in _KEYS
    ]
    twice = sorted({key for key in known if known.count(key) > 1})
    problems += [Problem(f"{key} is there twice, in two spellings; write it once.", where=where) for key in twice]
    if problems:
        raise BadInput(problems)
    return _made(dict(zip(known, data.values(), strict=True)), where, features)


def with_flags(
    base: Requirements,
    features: Collection[str],
    *,
    needs: str | None = None,
    max_memory: str | None = None,
    capacity: str | None = None,
    survive: str | None = None,
    no_writeback_risk: bool = False,
    disks: Sequence[str] = (),
    weights: str | None = None,
) -> Requirements:
    """`base` with what the command line says beside it. Raises BadInput with every problem."""
    given: dict[str, Any] = {}
    if needs:
        given["needs"] = [word.strip() for word in needs.split(",") if word.strip()]
    pairs = {"max_memory": max_memory, "capacity": capacity, "survive": survive}
    given |= {name: value for name, value in pairs.items() if value is not None}
    if disks:
        given["disks"] = dict(word.partition("=")[::2] for word in disks)
    if weights is not None:
        # what a workload is called may hold both signs
        given["weights"] = dict(word.strip().rpartition("=")[::2] for word in objective.split(weights))
    made = _made(given, "the command line", features)
    return replace(
        base,
        needs=(*base.needs, *made.needs),
        max_memory_bytes=made.max_memory_bytes if max_memory is not None else base.max_memory_bytes,
        capacity_bytes=made.capacity_bytes if capacity is not None else base.capacity_bytes,
        survive=made.survive if survive is not None else base.survive,
        no_writeback_risk=base.no_writeback_risk or no_writeback_risk,
        disks=made.disks if disks else base.disks,
        weights=made.weights if weights is not None else base.weights,
    )


def _made(data: Mapping[str, Any], where: str, features: Collection[str]) -> Requirements:
    problems: list[Problem] = []

    def wrong(message: str) -> None:
        problems.append(Problem(message, where=where))

    def size(key: str) -> int | None:
        try:
            return _size(data.get(key))
        except ValueError as error:
            wrong(f"{key}: {error}.")
            return None

    needs = []
    for entry in _listed(data.get("needs")):
        group = tuple(word.strip() for word in str(entry).split("|"))
        unknown = [word for word in group if word not in features]
        if unknown:
            wrong(f"needs: there is no feature '{unknown[0]}'; they are {', '.join(sorted(features))}.")
        needs.append(group)
    survive = re.fullmatch(r"(\d{1,2})(?:[- ]?disks?)?", str(data.get("survive") or 0).strip())
    if survive is None:
        wrong(f"survive: '{data.get('survive')}' is no number of disks; write it as 1-disk.")
    numbers = {key: _numbers(data[key]) for key in ("disks", "weights") if data.get(key) is not None}
    for key in (key for key, found in numbers.items() if found is None):
        wrong(f"{key}: write names with numbers, as in {_EXAMPLES[key]}.")
    disks = numbers.get("disks")
    if disks is not None and any(value != int(value) for value in disks.values()):
        wrong("disks: a part of a disk is none; write whole numbers, as in {hdd: 2, ssd: 1}.")
    risk = data.get("no_writeback_risk")
    if risk not in (None, "true", "false"):
        wrong(f"no_writeback_risk: write true or false; '{risk}' is neither.")
    made = Requirements(
        needs=tuple(needs),
        max_memory_bytes=size("max_memory"),
        capacity_bytes=size("capacity"),
        survive=int(survive[1]) if survive else 0,
        no_writeback_risk=risk == "true",
        disks=None if disks is None else {name: int(value) for name, value in disks.items()},
        weights=numbers.get("weights"),
        candidates=tuple(str(entry) for entry in _listed(data.get("candidates"))),
    )
    if problems:
        raise BadInput(problems)
    return made


def _size(said: object) -> int | None:
    """Raises ValueError."""
    if said is None:
        return None
    found = parse_size(str(said))
    if not found:
        raise ValueError("0 is no size; write one, as 2T, or leave it out")
    return found


def _numbers(entries: object) -> dict[str, float] | None:
    """None when it is not names with numbers that are not negative."""
    try:
        found = {str(name): float(value) for name, value in entries.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return None
    return found if all(0 <= value < float("inf") for value in found.values()) else None


def described(wanted: Requirements) -> list[str]:
    """Every requirement in words."""
    words = [" or ".join(group) for group in wanted.needs]
    if wanted.max_memory_bytes is not None:
        words.append(f"at most {format_size(wanted.max_memory_bytes)} of memory")
    if wanted.survive:
        words.append(f"survives the loss of {wanted.survive} {'disk' if wanted.survive == 1 else 'disks'}")
    if wanted.no_writeback_risk:
        words.append("nothing that was flushed can be lost")
    if wanted.disks is not None:
        words.append(f"stands on {' and '.join(f'{count} {role}' for role, count in wanted.disks.items())}")
    return words


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]
