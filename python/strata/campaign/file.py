"""The campaign file.

    name: lxd-backends             # the file's own name when left out
    about: what it is for
    testbed: local                 # or lab, ssh:HOST, {lab: {clock: virtual, debian: 13, memory: 8G, cpus: 1 ...}}
    memory: 2G                     # a stated budget, equal for every stack
    disks: {hdd: {size: 8G, model: hdd-7200, write_cache: volatile}}  # 4G where nothing is said; models in the lab only
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
    rule: {rounds: 5, within: 3%, confidence: 95%, budget: 2h}  # design: auto|race|adaptive in place of rounds
    seed: 7
    seeds: 3                       # on the virtual clock, in place of rounds
    files: {mine.yaml: "..."}      # texts of files that are named above, in their place; so a stored run has them
    profiles:                      # chosen by --profile; see `strata.campaign.profiles`
      quick: {rule: {rounds: 1}, disks: {hdd: {size: 1G}}, factors: {fs: [ext4]}, exclude: }

Spelled out, a stack is a list from the disks up. An item is an expression, `{LAYER: {ARGUMENT: VALUE}}`,
`{any: [...]}` for alternatives, `{join: [...]}` for inputs side by side, `{count: N, of: ...}` for N of the same, or
a list for a sub-chain. A value is a scalar, `$factor`, or `{any: [...]}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from strata.campaign import profiles
from strata.campaign import testbed as testbeds
from strata.campaign.campaign import (
    DEFAULT_DISK_BYTES,
    DEFAULT_WORKLOADS,
    Campaign,
    DiskSpec,
    disks_of,
    model_text,
    seed_of,
)
from strata.campaign.document import Document, Path, read
from strata.campaign.exclude import remaining
from strata.campaign.factors import Linker, label
from strata.campaign.source import At, Problems, Source, did_you_mean
from strata.campaign.spelled import Spelled
from strata.campaign.stacks import distinct, expand
from strata.campaign.tree import Tree
from strata.campaign.workloads import read_workload, resolve_workloads
from strata.model import Catalogue, Rule, Stack, Testbed, WorkloadCatalogue, WriteCache
from strata.text import listed
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
    model: Annotated[Text, Field(min_length=1)] | None = None
    write_cache: WriteCache | None = None


class LabModel(_Model):
    clock: Literal["real", "virtual"] = "real"
    debian: Annotated[int, Field(ge=1, le=99)] = Testbed().debian
    kernel: Annotated[str, _read(testbeds.parse_kernel)] | None = None
    memory: Annotated[Size, Field(ge=1 << 28)] | None = None
    cpus: Annotated[int, Field(ge=1, le=255)] | None = None
    mips: Annotated[int, _read(testbeds.parse_mips)] = Testbed().mips
    features: list[Literal["containers", "install", "postgres", "qemu", "zfs"]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _counted(self) -> LabModel:
        if self.mips != Testbed().mips and self.clock != "virtual":
            raise ValueError("mips is of the virtual clock alone; add clock: virtual, or take it out")
        return self

    def testbed(self) -> Testbed:
        usual = testbeds.lab(self.clock)
        return Testbed(
            "lab",
            clock=self.clock,
            debian=self.debian,
            kernel=self.kernel,
            memory_bytes=self.memory or usual.memory_bytes,
            cpus=self.cpus or usual.cpus,
            mips=self.mips,
            features=frozenset(self.features),
        )


class TestbedModel(_Model):
    """One of the keys, or in short `local`, `lab`, `ssh:HOST`."""

    local: None = None
    lab: LabModel | None = None
    ssh: Annotated[str, _read(testbeds.parse_host)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:
        if isinstance(value, str):
            short = testbeds.parse_kind(value)
            return {short.kind: {} if short.kind == "lab" else short.host}
        if isinstance(value, dict) and len(value) == 1:
            usual = {"lab": {}, "ssh": ""}  # of what stands there with nothing after it
            return {kind: usual.get(kind) if said is None else said for kind, said in value.items()}
        raise ValueError("one testbed belongs here; write local, lab, ssh:HOST or {lab: {debian: 13}}")

    def testbed(self) -> Testbed:
        if self.lab is not None:
            return self.lab.testbed()
        return Testbed("ssh", self.ssh) if self.ssh is not None else Testbed()


class RuleModel(_Model):
    rounds: Annotated[int, Field(ge=1, le=10_000)] = Rule().rounds
    within: Annotated[Percent, Field(gt=0, lt=1)] = Rule().within
    confidence: Annotated[Percent, Field(ge=0.5, lt=1)] = Rule().confidence
    budget: Annotated[Time, Field(gt=0)] | None = None
    design: Literal["auto", "rounds", "race", "adaptive"] = Rule().design
    certify: bool = Rule().certify
    objective: str = Rule().objective


class CampaignModel(_Model):
    name: Text | None = None
    about: Text = ""
    testbed: TestbedModel = Field(default_factory=lambda: TestbedModel(local=None))
    memory: Annotated[Size, Field(ge=1 << 20)] | None = None
    disks: dict[str, DiskModel] = Field(default_factory=dict)
    factors: dict[str, Annotated[list[Text], Field(min_length=1)]] = Field(default_factory=dict)
    stacks: Annotated[list[Any], Field(min_length=1)]  # read by `Spelled`
    exclude: list[Any] = Field(default_factory=list)
    workloads: Annotated[list[Any], Field(min_length=1)] | None = None
    rule: RuleModel = Field(default_factory=RuleModel)
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    seeds: Annotated[int, Field(ge=1, le=10_000)] | None = None
    files: dict[str, Text] = Field(default_factory=dict)
    profiles: dict[str, Any] | None = None  # never here when this is checked: one is laid over the rest, or none


_MODELS: tuple[tuple[int, str, type[_Model]], ...] = (
    (1, "rule", RuleModel),
    (2, "disks", DiskModel),
    (1, "testbed", TestbedModel),
    (2, "testbed", LabModel),
)
_HOW = {
    "name": "write a short text",
    "about": "write a text, in quotation marks if it holds signs",
    "testbed": "write local, lab, ssh:HOST or {lab: {debian: 13}}",
    "local": "write testbed: local, with nothing after it",
    "lab": "write it as testbed: {lab: {debian: 13, clock: virtual}}",
    "ssh": "write the host, as testbed: ssh:root@server",
    "clock": "write real or virtual",
    "debian": "write the number of a release, as 13",
    "kernel": "write a version, as 6.12",
    "lab.memory": "write a size of at least 256M, as 3G",
    "mips": f"write {', '.join(map(str, testbeds.MIPS))}: millions of instructions a second",
    "cpus": "write a whole number from 1 to 255",
    "features": f"write a list of some of these: {', '.join(testbeds.FEATURES)}",
    "model": "write the name of a model, as hdd-7200, or the path of a file of yours that ends in .yaml",
    "write_cache": "write volatile, protected or none",
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
    "design": "write auto, rounds, race or adaptive",
    "certify": "write true or false",
    "objective": "write weights of workloads, as oltp=2,backup=1, or metrics, as pareto:iops,lat_p99_ms",
    "seed": "write a whole number from 0 on",
    "seeds": "write a whole number from 1 to 10000",
    "files": "write names with texts, as files: {mine.yaml: 'name: mine ...'}",
}


def load(
    text: str,
    *,
    where: str,
    layers: Catalogue,
    workloads: WorkloadCatalogue,
    read_file: Callable[[str], str],
    profile: str | None = None,
) -> Campaign:
    """The campaign of a YAML file called `where`, under one of its profiles or as it stands.

    Raises BadInput with every problem of the file and of all its profiles, each with line and column.
    """
    problems = Problems()
    document = read(text, where, problems)
    if document is None:
        problems.raise_if_any()
        raise AssertionError("a file that cannot be read has a problem")
    enclosed = document.data.get("files")
    texts = enclosed if isinstance(enclosed, dict) else {}

    def text_of(name: str) -> str:
        return str(texts[name]) if name in texts else read_file(name)

    campaigns: dict[str | None, Campaign | None] = {}
    for name in (None, *profiles.names(document, problems)):
        own = Problems()
        under = profiles.overlaid(document, name)
        campaigns[name] = _campaign(under, own, text, where, layers, workloads, text_of)
        more = (problem for problem in own.found if problem not in problems.found)
        problems.extend(replace(p, message=f"with profile {name}: {p.message}") if name else p for p in more)
    problems.raise_if_any()
    wanted = profiles.chosen(document, profile, where)
    found = campaigns[wanted]
    assert found is not None, "what is no campaign has a problem"
    return replace(found, profile=wanted)


def _campaign(
    document: Document,
    problems: Problems,
    text: str,
    where: str,
    layers: Catalogue,
    workloads: WorkloadCatalogue,
    read_file: Callable[[str], str],
) -> Campaign | None:
    """None when there is a problem."""
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
    specs = {} if model is None else _disk_specs(model, document, read_file, problems)
    if model is not None:
        _check_seeds(model, document, problems)
    if not problems.found:
        _check_disks(stacks, document, problems)
        stacks = remaining(stacks, rules, removed, document, problems)
    if problems.found or model is None:
        return None
    testbed = model.testbed.testbed()
    return Campaign(
        name=model.name or PurePath(where).stem,
        about=model.about,
        stacks=tuple(distinct(stacks)),
        workloads=tuple(wanted),
        rule=Rule(
            model.seeds or model.rule.rounds,
            model.rule.within,
            model.rule.confidence,
            model.rule.budget,
            model.rule.design,
            model.rule.certify,
            model.rule.objective,
        ),
        seed=seed_of(model.seed, testbed),
        disks=disks_of(stacks, specs),
        testbed=testbed,
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


def _disk_specs(
    model: CampaignModel, document: Document, read_file: Callable[[str], str], problems: Problems
) -> dict[str, DiskSpec]:
    specs = {}
    for role, disk in model.disks.items():
        at = document.value_at(("disks", role, "model"))
        text = None
        if disk.model is not None and model.testbed.lab is None:
            problems.add(at, "only a disk of the lab has a model; write testbed: lab, or take the model out")
        elif disk.model is not None:
            try:
                text = model_text(disk.model, read_file)
            except ValueError as error:
                problems.add(at, str(error))
        specs[role] = DiskSpec(disk.size, disk.model, text, disk.write_cache, "size" in disk.model_fields_set)
    return specs


def _check_seeds(model: CampaignModel, document: Document, problems: Problems) -> None:
    if model.seeds is None:
        return
    at = document.value_at(("seeds",))
    if model.testbed.testbed().clock != "virtual":
        problems.add(
            at,
            "seeds are the replicates of the virtual clock; write rule: {rounds: N}, "
            "or testbed: {lab: {clock: virtual}}",
        )
    elif "rounds" in model.rule.model_fields_set:
        problems.add(at, "on the virtual clock a round is a seed; write seeds or rounds, not both")


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
                how = _HOW.get(".".join(map(str, path[-2:])), _HOW[key])
                given = f"'{one['input']}'" if isinstance(one["input"], str) else "what stands here"
                problems.add(document.value_at(path), f"{key} cannot be {given}; {how}")
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
