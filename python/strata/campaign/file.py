"""The campaign file.

    name: lxd-backends             # the file's own name when left out
    about: what it is for
    testbed: local
    memory: 2G                     # a stated budget, equal for every stack
    disks: {hdd: {size: 8G}}       # sizes of the sparse files; 4G where nothing is said
    factors:
      fs: [ext4, xfs(noatime)]     # `$fs` in an expression stands for {ext4, xfs(noatime)}
      mode: [none, writeback]      # used twice, a factor takes the same level in both places
    stacks:
      - disk | $fs                 # an expression, or the same thing spelled out:
      - [{count: 4, of: hdd}, {md: {level: raid10, chunk: 512K}}, {any: [ext4, {xfs: {noatime: on}}]}]
      - [{join: [[2*hdd, md], ssd]}, {lvmcache: {mode: {any: [writeback, writethrough]}}}, btrfs]
    exclude:
      - {fs: ext4, mode: [none]}   # stacks that have these levels of these factors
      - disk | xfs(noatime)        # the stacks of an expression
    workloads:
      - fio/randrw-75-25(runtime=10s)
      - {dd/seqwrite-sync: {size: {any: [1G, 2G]}}}
    rule: {rounds: 5, within: 3%, confidence: 95%, budget: 2h}
    seed: 7

Spelled out, a stack is a list from the disks up. An item is an expression, `{LAYER: {ARGUMENT: VALUE}}`,
`{any: [...]}` for alternatives, `{join: [...]}` for inputs side by side, `{count: N, of: ...}` for N of the same, or
a list for a sub-chain. A value is a scalar, `$factor`, or `{any: [...]}`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from strata.campaign.campaign import DEFAULT_DISK_BYTES, DEFAULT_WORKLOADS, Campaign, DiskSpec, disks_of
from strata.campaign.document import Document, Path, read
from strata.campaign.exclude import remaining
from strata.campaign.factors import Linker, label
from strata.campaign.source import At, Problems, Source, did_you_mean, listed
from strata.campaign.spelled import Spelled
from strata.campaign.stacks import distinct, expand
from strata.campaign.tree import Tree
from strata.campaign.workloads import read_workload, resolve_workloads
from strata.model import Catalogue, Rule, Stack, WorkloadCatalogue
from strata.units import parse_percent, parse_size, parse_time


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a single value belongs here; write it on one line")
    return value


def _read(parse: Callable[[str], Any]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(_text(value)))


Size = Annotated[int, _read(parse_size)]
Time = Annotated[float, _read(parse_time)]
Percent = Annotated[float, _read(parse_percent)]
Text = Annotated[str, BeforeValidator(_text)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DiskModel(_Model):
    size: Annotated[Size, Field(ge=1 << 20)] = DEFAULT_DISK_BYTES


class RuleModel(_Model):
    rounds: Annotated[int, Field(ge=1, le=10_000)] = Rule().rounds
    within: Annotated[Percent, Field(gt=0, lt=1)] = Rule().within
    confidence: Annotated[Percent, Field(ge=0.5, lt=1)] = Rule().confidence
    budget: Annotated[Time, Field(gt=0)] | None = None


class CampaignModel(_Model):
    name: Text | None = None
    about: Text = ""
    testbed: Literal["local"] = "local"
    memory: Annotated[Size, Field(ge=1 << 20)] | None = None
    disks: dict[str, DiskModel] = Field(default_factory=dict)
    factors: dict[str, Annotated[list[Text], Field(min_length=1)]] = Field(default_factory=dict)
    stacks: Annotated[list[Any], Field(min_length=1)]  # read by `Spelled`
    exclude: list[Any] = Field(default_factory=list)
    workloads: Annotated[list[Any], Field(min_length=1)] | None = None
    rule: RuleModel = Field(default_factory=RuleModel)
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None


_MODELS: tuple[tuple[int, str, type[_Model]], ...] = ((1, "rule", RuleModel), (2, "disks", DiskModel))
_HOW = {
    "name": "write a short text",
    "about": "write a text, in quotation marks if it holds signs",
    "testbed": "write local",
    "memory": "write a size of at least 1M, as 2G",
    "size": "write a size of at least 1M, as 8G",
    "disks": "write it as disks: {hdd: {size: 8G}}",
    "factors": "write a name and its levels, as factors: {fs: [ext4, xfs]}",
    "stacks": "write a list of expressions, as stacks: [disk | ext4]",
    "exclude": "write a list of rules, as exclude: [{fs: ext4}]",
    "workloads": "write a list, as workloads: [fio/randrw-75-25]",
    "rule": "write it as rule: {rounds: 5}",
    "rounds": "write a whole number from 1 to 10000",
    "within": "write a percentage between 0% and 100%, as 3%",
    "confidence": "write a percentage of at least 50% and below 100%, as 95%",
    "budget": "write a time, as 2h",
    "seed": "write a whole number from 0 on",
}


def load(
    text: str, *, where: str, layers: Catalogue, workloads: WorkloadCatalogue, read_file: Callable[[str], str]
) -> Campaign:
    """The campaign of a YAML file called `where`. Raises BadInput with every problem, each with line and column."""
    problems = Problems()
    document = read(text, where, problems)
    if document is None:
        problems.raise_if_any()
        raise AssertionError("a file that cannot be read has a problem")
    spelled = Spelled(document, problems)
    model = _validated(document, problems)
    data = document.data
    rules = _list(data.get("exclude"))
    trees = [spelled.stack(("stacks", i), item) for i, item in enumerate(_list(data.get("stacks")))]
    patterns = {i: spelled.stack(("exclude", i), rule) for i, rule in enumerate(rules) if isinstance(rule, (str, list))}
    stacks, removed = _expand(trees, patterns, _levels(document), layers, document, problems)

    calls = [spelled.workload(("workloads", i), item) for i, item in enumerate(_list(data.get("workloads")))]
    if data.get("workloads") is None:
        calls = [read_workload(Source(text, "default workload"), problems) for text in DEFAULT_WORKLOADS]
    wanted = resolve_workloads(calls, workloads, read_file, problems)
    if not problems.found:
        _check_disks(stacks, document, problems)
        stacks = remaining(stacks, rules, removed, document, problems)
    problems.raise_if_any()
    assert model is not None
    return Campaign(
        name=model.name or PurePath(where).stem,
        about=model.about,
        stacks=tuple(distinct(stacks)),
        workloads=tuple(wanted),
        rule=Rule(model.rule.rounds, model.rule.within, model.rule.confidence, model.rule.budget),
        seed=model.seed,
        disks=disks_of(stacks, {role: DiskSpec(disk.size) for role, disk in model.disks.items()}),
        testbed=model.testbed,
        memory_bytes=model.memory,
        text=text,
    )


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _levels(document: Document) -> dict[str, list[Source]]:
    """The levels of the named factors with their places; what is not well-formed is left to the model."""
    factors = document.data.get("factors")
    return {
        name: [document.values["factors", name, i] for i, level in enumerate(_list(levels)) if isinstance(level, str)]
        for name, levels in (factors if isinstance(factors, dict) else {}).items()
    }


def _expand(
    trees: list[Tree],
    patterns: dict[int, Tree],
    factors: dict[str, list[Source]],
    layers: Catalogue,
    document: Document,
    problems: Problems,
) -> tuple[list[Stack], dict[int, list[Stack]]]:
    """The stacks of the matrix, and those of each pattern of `exclude`."""
    linker = Linker(factors, problems)
    linked = [linker.tree(tree) for tree in trees]
    for name, levels in factors.items():
        if name not in linker.used and not linker.gaps:
            problems.add(
                document.at(("factors", name)), f"no stack uses the factor {name}; write ${name} in one, or remove it"
            )
        seen: set[str] = set()
        for level in levels:
            if label(level) in seen:
                problems.add(At(level, 0), f"'{label(level)}' is a level of {name} already; remove one")
            seen.add(label(level))
    found = expand([*linked, *map(linker.tree, patterns.values())], layers, problems)
    stacks = [stack for one in found[: len(linked)] for stack in one]
    return stacks, dict(zip(patterns, found[len(linked) :], strict=True))


def _check_disks(stacks: list[Stack], document: Document, problems: Problems) -> None:
    used = disks_of(stacks, {})
    for role in document.data.get("disks") or {}:
        if role not in used:
            problems.add(
                document.at(("disks", role)),
                f"no stack uses the disk role {role}{did_you_mean(role, used)}; the roles in use are {listed(used)}",
            )


# ---------------------------------------------------------------- what pydantic says, in our words


def _validated(document: Document, problems: Problems) -> CampaignModel | None:
    try:
        return CampaignModel.model_validate(_without_empty(document.data))
    except ValidationError as error:
        for one in error.errors():
            path: Path = tuple(one["loc"])
            name = str(path[-1])
            if one["type"] == "extra_forbidden":
                known = list(_model_at(path).model_fields)
                message = f"there is no key '{name}' here{did_you_mean(name, known)}; use {listed(known)}"
                problems.add(document.at(path), message)
            elif one["type"] == "missing":
                problems.add(document.at(path[:-1]), f"{name} is missing; {_HOW[name]}")
            elif one["type"] == "value_error":
                problems.add(document.value_at(path), str(one["ctx"]["error"]))
            else:
                key = next((str(part) for part in reversed(path) if part in _HOW), "stacks")
                given = f"'{one['input']}'" if isinstance(one["input"], str) else "what stands here"
                problems.add(document.value_at(path), f"{key} cannot be {given}; {_HOW[key]}")
        return None


def _model_at(path: Path) -> type[_Model]:
    """The model that holds the key at the end of `path`."""
    for depth, first, model in _MODELS:
        if len(path) == depth + 1 and path[0] == first:
            return model
    return CampaignModel


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """A key with nothing after it counts as not written; so does one of a rule, and a disk may say nothing."""
    found = {key: value for key, value in data.items() if value is not None}
    if isinstance(found.get("rule"), dict):
        found["rule"] = {key: value for key, value in found["rule"].items() if value is not None}
    if isinstance(found.get("disks"), dict):
        found["disks"] = {role: {} if disk is None else disk for role, disk in found["disks"].items()}
    return found
