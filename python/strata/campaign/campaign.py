"""A campaign: stacks, workloads and a rule, ready to be planned; and what makes two of them the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from strata.campaign import testbed as testbeds
from strata.campaign.factors import Linker
from strata.campaign.source import Problems, Source
from strata.campaign.stacks import distinct, expand, read_tree
from strata.campaign.workloads import read_workload, resolve_workloads
from strata.model import Call, Catalogue, Rule, Stack, Testbed, WorkloadCatalogue, WriteCache
from strata.units import format_size

DEFAULT_DISK_BYTES = 4 << 30
DEFAULT_WORKLOADS = ("fio/randrw-75-25", "dd/seqwrite-sync")


@dataclass(frozen=True, slots=True)
class DiskSpec:
    """What a disk role stands for when the operator gives no device: a sparse file, or a disk of the lab."""

    size_bytes: int = DEFAULT_DISK_BYTES
    model: str | None = None  # lab: the name of a model, or the path of a file that holds one
    model_text: str | None = None  # what that file says
    write_cache: WriteCache | None = None
    sized: bool = field(default=False, compare=False)  # whether the campaign file states the size

    def described(self) -> str:
        """Its size and what else was said of it; a model's file by its content."""
        parts = [format_size(self.size_bytes)]
        if self.model is not None:
            parts.append(f"model {self.model if self.model_text is None else 'SHA-256 ' + _digest(self.model_text)}")
        if self.write_cache is not None:
            parts.append(f"write cache {self.write_cache}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Campaign:
    name: str
    about: str
    stacks: tuple[Stack, ...]
    workloads: tuple[Call, ...]
    rule: Rule  # on the virtual clock a round is a seed: round r runs with `seed` + r
    seed: int | None  # None: one is drawn when the run begins, and stored; never None on the virtual clock
    disks: Mapping[str, DiskSpec]  # every role that a stack uses
    testbed: Testbed
    memory_bytes: int | None  # stated budget, equal for every stack; None: all the machine has
    text: str  # a campaign file that loads to this campaign; for a file: as it was written
    profile: str | None = None  # the profile of that file; None: the file as it stands

    @property
    def fingerprint(self) -> str:
        """Equal for two campaigns whose visits can be counted together.

        SHA-256 over what `describe` shows: asking for more rounds, another budget, seed or name, reordering and
        comments leave it as it is; but on the virtual clock a seed says which figures come out.
        """
        content = json.dumps(self.describe(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def describe(self) -> dict[str, Any]:
        """What identifies the campaign, as plain data for `differences`."""
        return {
            "stacks": sorted(stack.text for stack in self.stacks),
            "workloads": sorted(call.text for call in self.workloads),
            "content": {
                f"{call.name}{call.path}": _digest(str(call.values["content"]))
                for call in self.workloads
                if call.path is not None
            },
            "disks": {role: disk.described() for role, disk in sorted(self.disks.items())},
            "testbed": testbeds.described(self.testbed),
            "memory": None if self.memory_bytes is None else format_size(self.memory_bytes),
            **({"seed": self.seed} if self.testbed.clock == "virtual" else {}),
            **({} if self.profile is None else {"profile": self.profile}),
        }


def placed(campaign: Campaign, testbed: Testbed) -> Campaign:
    """The same campaign elsewhere. Outside the lab a disk is what it is: its model is left behind."""
    disks = campaign.disks
    if testbed.kind != "lab":
        disks = {role: replace(disk, model=None, model_text=None) for role, disk in disks.items()}
    return replace(campaign, testbed=testbed, disks=disks, seed=seed_of(campaign.seed, testbed))


def seed_of(stated: int | None, testbed: Testbed) -> int | None:
    """Exact figures are the same wherever nothing else was said, so their seed is never drawn."""
    return testbeds.FIRST_SEED if stated is None and testbed.clock == "virtual" else stated


def model_text(model: str, read_file: Callable[[str], str]) -> str | None:
    """What the file of a disk model says; None for the name of a model. Raises ValueError with a sentence."""
    if not model.endswith((".yaml", ".yml")):
        return None
    try:
        return read_file(model)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"cannot read {model}: {why}; check the path") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lines that say how two described campaigns differ; none when they are the same.

    Knows no key: lists are compared as sets, mappings entry by entry, so whoever stores a description may add to it.
    """
    lines: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if isinstance(was, list) or isinstance(now, list):
            before, after = was or [], now or []
            lines += [f"- {key}: {item}" for item in before if item not in set(after)]
            lines += [f"+ {key}: {item}" for item in after if item not in set(before)]
        elif isinstance(was, Mapping) or isinstance(now, Mapping):
            before, after = was or {}, now or {}
            names = sorted({*before, *after})
            lines += [_change(f"{key} {name}", before.get(name), after.get(name)) for name in names]
        else:
            lines.append(_change(key, was, now))
    return [line for line in lines if line]


def _change(what: str, was: object, now: object) -> str:
    unset = "not stated"
    return "" if was == now else f"~ {what}: {unset if was is None else was}, now {unset if now is None else now}"


def from_expressions(
    expressions: Sequence[str],
    workload_texts: Sequence[str],
    *,
    layers: Catalogue,
    workloads: WorkloadCatalogue,
    read_file: Callable[[str], str],
) -> Campaign:
    """The campaign of a command line; without workloads, `DEFAULT_WORKLOADS`. Raises BadInput with every problem."""
    problems = Problems()
    if not expressions:
        problems.extend([Source("", "the command line").problem(0, "no stack is given; write one, as in: disk | ext4")])
    sources = _numbered(expressions, "stack")
    linker = Linker({}, problems)
    trees = [linker.tree(read_tree(source, problems)) for source in sources]
    stacks = [stack for found in expand(trees, layers, problems) for stack in found]
    texts = list(workload_texts) or list(DEFAULT_WORKLOADS)
    read = [read_workload(source, problems) for source in _numbered(texts, "workload")]
    calls = resolve_workloads(read, workloads, read_file, problems)
    problems.raise_if_any()
    return Campaign(
        name=_name(expressions),
        about="",
        stacks=tuple(distinct(stacks)),
        workloads=tuple(calls),
        rule=Rule(),
        seed=None,
        disks=disks_of(stacks, {}),
        testbed=Testbed(),
        memory_bytes=None,
        text=_as_file(_name(expressions), expressions, texts),
    )


def disks_of(stacks: Iterable[Stack], stated: Mapping[str, DiskSpec]) -> dict[str, DiskSpec]:
    """A disk for every role the stacks use, in the order of first use."""
    roles = dict.fromkeys(role for stack in stacks for role in stack.disks())
    return {role: stated.get(role, DiskSpec()) for role in roles}


def _numbered(texts: Sequence[str], noun: str) -> list[Source]:
    if len(texts) == 1:
        return [Source(texts[0], noun)]
    return [Source(text, f"{noun} {number}") for number, text in enumerate(texts, 1)]


_LONGEST_NAME = 120


def _name(expressions: Sequence[str]) -> str:
    first = " ".join(expressions[0].split()) if expressions else ""
    # A heading, not the list of the stacks: an expression of 200 alternatives filled a page.
    first = first if len(first) <= _LONGEST_NAME else f"{first[: _LONGEST_NAME - 1].rstrip()}…"
    return f"{first} and {len(expressions) - 1} more" if len(expressions) > 1 else first


def _as_file(name: str, expressions: Sequence[str], workloads: Sequence[str]) -> str:
    """The same campaign as a file. JSON strings are YAML."""
    lines = [f"name: {json.dumps(name)}", "stacks:"]
    lines += [f"  - {json.dumps(text)}" for text in expressions]
    lines += ["workloads:", *(f"  - {json.dumps(text)}" for text in workloads)]
    return "\n".join(lines) + "\n"
