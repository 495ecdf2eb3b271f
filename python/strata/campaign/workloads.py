"""Workload expressions: `fio/randrw-75-25(runtime=10s)`, `dd/seqwrite-sync@study`, `fio:jobs/mine.fio`.

The grammar is that of stacks, with one name where a chain would stand. What follows "@" is a variant that the
workload lists, or the number of the tenant that it is for (`fio/randread@2`), or both (`NAME@study@2`). The path of a
family such as `fio:` may be put in quotation marks (`fio:"my jobs/a.fio"`), and has to be where it holds white space,
one of the signs of the grammar, or ends like a variant or a tenant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from strata.campaign.calls import MAX_COMBINATIONS, Bound, Calls, TooMany, branches_of
from strata.campaign.factors import Linker, name_sites
from strata.campaign.source import At, Problems, Source, did_you_mean
from strata.campaign.syntax import parse_chain
from strata.campaign.tree import Arg, Choice, Named, Ref, Tree, least_combinations, quote, shown
from strata.errors import BadInput
from strata.model import Call, Param, WorkloadCatalogue, WorkloadInfo
from strata.text import listed

_TENANT = re.compile(r"[1-9][0-9]?")

EXAMPLE = "fio/randrw-75-25(runtime=10s)"


def parse_workloads(
    text: str,
    workloads: WorkloadCatalogue,
    *,
    where: str | None = None,
    read_file: Callable[[str], str],
) -> list[Call]:
    """The calls of one workload expression, alternatives multiplied in written order; equal ones collapse.

    `read_file` gives the text of a path, and raises OSError or ValueError when it cannot. Raises BadInput with
    every problem.
    """
    problems = Problems()
    found = resolve_workloads([read_workload(Source(text, where), problems)], workloads, read_file, problems)
    problems.raise_if_any()
    return found


def read_workload(source: Source, problems: Problems) -> Tree:
    """A gap when the grammar is broken; the problem is kept."""
    try:
        return parse_chain(source, "a workload name", EXAMPLE)
    except BadInput as error:
        problems.extend(error.problems)
        return Ref(At(source, 0), "")


def resolve_workloads(
    trees: Sequence[Tree], workloads: WorkloadCatalogue, read_file: Callable[[str], str], problems: Problems
) -> list[Call]:
    """The distinct calls of all trees, in written order; what is wrong goes to `problems`."""
    no_factors = Linker({}, problems, "a workload cannot use a factor; write its alternatives out with { }")
    linked = [no_factors.tree(tree) for tree in trees]
    reader = _Reader(workloads, read_file, problems)
    names = name_sites(linked, reader.params)
    reader.calls = Calls(problems, names)
    found: dict[str, Call] = {}
    for tree in linked:
        try:
            if least_combinations(tree) > MAX_COMBINATIONS:
                raise TooMany(tree.at)
            for call in reader.read(tree, (), ()):
                found.setdefault(call.text, call)
        except TooMany as too_many:
            problems.add(too_many.at, "this multiplies to more workloads than can be run; take alternatives out")
    return list(found.values())


@dataclass(slots=True)
class _Reader:
    workloads: WorkloadCatalogue
    read_file: Callable[[str], str]
    problems: Problems
    calls: Calls = field(init=False)
    _contents: dict[str, str | None] = field(default_factory=dict)

    def params(self, name: str) -> Sequence[Param]:
        info = self._parts(_tenant_of(name)[0])[0]
        return info.params if info else ()

    def read(self, tree: Tree, extra: tuple[Arg, ...], bound: Bound) -> Iterator[Call]:
        match tree:
            case Named():
                yield from self._named(tree, tree.args + extra, bound)
            case Choice():
                for number in branches_of(tree, bound):
                    yield from self.read(tree.branches[number], tree.args + extra, bound)
            case Ref():
                pass  # its problem is kept already
            case _:
                self.problems.add(
                    tree.at, f"'{shown(tree)}' is not a single workload; write one name at a time, as in {EXAMPLE}"
                )

    def _parts(self, name: str) -> tuple[WorkloadInfo | None, str | None, str | None]:
        """What is known of a name without quotation marks and its tenant: the workload, its path, its variant."""
        family, colon, path = name.partition(":")
        info = self.workloads.get(family + colon) if colon else None
        if info is not None:
            before, at, variant = path.rpartition("@")
            return (info, before, variant) if at and variant in info.variants else (info, path, None)
        base, at, variant = name.partition("@")
        return self.workloads.get(base), None, variant if at else None

    def _named(self, tree: Named, args: tuple[Arg, ...], bound: Bound) -> Iterator[Call]:
        name, tenant = _tenant_of(tree.name)
        info, path, variant = self._parts(name)
        if tree.path is not None:
            variant, tenant = _tenant_of(f"@{tree.variant}") if tree.variant else ("", None)
            path, variant = tree.path, variant.removeprefix("@") or None
        if info is None:
            base = tree.name.partition("@")[0]
            known = sorted(self.workloads)
            hint = did_you_mean(base, known)
            self.problems.add(tree.at, f"there is no workload '{base}'{hint}; the workloads are {listed(known)}")
            return
        good = self._known_variant(tree.at, info, variant)
        content = None
        if info.name.endswith(":"):
            content = self._content(tree.at, info, path or "")
            good = good and content is not None
        for one in self.calls.variants(info.name, info.params, args, tree.at, bound):
            if not good or one.resolved is None:
                continue
            values = dict(one.resolved.values)
            if content is not None:
                values["content"] = content
            whose = f"@{tenant}" if tenant is not None else ""
            text = info.name + _path_text(path, info) + (f"@{variant}" if variant else "") + whose + one.resolved.text
            yield Call(info.name, text, values, variant, path, tenant)

    def _known_variant(self, at: At, info: WorkloadInfo, variant: str | None) -> bool:
        if variant is None or variant in info.variants:
            return True
        way = f"it has {listed(info.variants)}" if info.variants else "write it without '@'"
        self.problems.add(at, f"{info.name} has no variant '{variant}'{did_you_mean(variant, info.variants)}; {way}")
        return False

    def _content(self, at: At, info: WorkloadInfo, path: str) -> str | None:
        if not path:
            self.problems.add(at, f"{info.name} needs a path; write it right after the colon: {info.name}PATH")
            return None
        if path not in self._contents:
            try:
                self._contents[path] = self.read_file(path)
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                self.problems.add(at, f"cannot read {path}: {why}; check the path")
                self._contents[path] = None
        return self._contents[path]


def _tenant_of(name: str) -> tuple[str, int | None]:
    """`fio/randread@2` is `fio/randread` of tenant 2."""
    base, at, number = name.rpartition("@")
    return (base, int(number)) if at and _TENANT.fullmatch(number) else (name, None)


def _path_text(path: str | None, info: WorkloadInfo) -> str:
    if path is None:
        return ""
    _, at, last = path.rpartition("@")
    return quote(path, always=bool(at) and (last in info.variants or bool(_TENANT.fullmatch(last))))
