"""The documents say what is so: links lead somewhere, commands and campaigns can be read, excerpts are of the code."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from strata import campaign, layers, workloads
from strata.advice import requirements
from strata.campaign import parse_stacks
from strata.campaign.file import CampaignModel, DiskModel, LabModel, RuleModel, TestbedModel
from strata.cli import reference
from strata.cli.app import app
from strata.lab import models
from strata.model import Disk
from strata.model.flags import FLAGS, WARNINGS
from strata.published.documented import documents

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]  # by people
STRATA = typer.main.get_command(app)
COMMANDS: dict[str, Any] = STRATA.commands  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Fence:
    page: Path
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text.splitlines()[0] if self.text else ''}"


def fences(*languages: str) -> list[Fence]:
    found = []
    for page in WRITTEN:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            if language in languages:
                found.append(Fence(page, language, text))
    return found


def typed() -> Iterator[tuple[Fence, list[str]]]:
    """Every `strata ...` line of a shell block, as words without comments."""
    for fence in fences("sh"):
        for line in fence.text.replace("\\\n", " ").splitlines():
            if re.match(r"(\.venv/bin/)?strata\b", line):
                yield fence, shlex.split(line, comments=True)


TYPED = list(typed())
SHOWN = {f.text.splitlines()[0].removeprefix("# "): f for f in fences("yaml")}
REQUIREMENTS = "requirements.yaml"
CAMPAIGNS = {name: fence for name, fence in SHOWN.items() if name != REQUIREMENTS}


def read_file(name: str) -> str:
    """A job file is that which the pages show; nobody reads the others."""
    return fences("ini")[0].text if name.endswith(".fio") else f"text of {name}"


def load(text: str, name: str, profile: str | None = None) -> campaign.Campaign:
    catalogues = {"layers": layers.catalogue(), "workloads": workloads.catalogue()}
    return campaign.load(text, where=name, read_file=read_file, profile=profile, **catalogues)


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(to), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """As GitHub and most others make them of headings."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_holds_a_path_of_some_checkout(page: Path) -> None:
    assert not re.search(r"/(?:work|root)/|/home/\w", page.read_text())


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize(("fence", "argv"), TYPED, ids=[" ".join(argv)[:90] for _, argv in TYPED])
def test_every_command_can_be_read(fence: Fence, argv: list[str]) -> None:
    name, *rest = argv[1:]
    assert name in COMMANDS, f"{fence}: there is no command {name}"
    command = COMMANDS[name]
    while isinstance(command, click.Group):  # strata lab build
        name, *rest = rest
        assert name in command.commands, f"{fence}: there is no command {name}"
        command = command.commands[name]
    values = command.make_context(name, rest).params
    if name in ("plan", "run") and not continues(values["what"]):
        assert read_campaign(values["what"], values["workload"], fence, values["profile"]).stacks
    if name == "show":
        assert values["what"] == "campaign" or reference.entries(values["what"], values["name"])


def continues(what: list[str]) -> bool:
    """Whether it is the directory of a run, all of which lie in runs/ on the pages."""
    return len(what) == 1 and what[0].startswith("runs/")


def read_campaign(what: list[str], loads: list[str], fence: Fence, profile: str | None) -> campaign.Campaign:
    if not what[0].endswith(".yaml"):
        return campaign.from_expressions(
            what, loads, layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=read_file
        )
    if what[0] in CAMPAIGNS:
        assert CAMPAIGNS[what[0]].page == fence.page, f"{fence.page.name} runs {what[0]} and does not show it"
        return load(CAMPAIGNS[what[0]].text, what[0], profile)
    return load((ROOT / what[0]).read_text(), what[0], profile)


def test_the_commands_are_there_at_all() -> None:
    pages = {fence.page.name for fence, _ in TYPED}
    assert {"README.md", "guide.md", "CONTRIBUTING.md"} <= pages
    assert {argv[1] for _, argv in TYPED} == set(COMMANDS), "a command that no page shows, or that is gone"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_named_in_the_text_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    groups = [command for command in COMMANDS.values() if isinstance(command, click.Group)]
    commands = [*COMMANDS.values(), *(command for group in groups for command in group.commands.values())]
    every = {option for command in commands for option in options(command)} | options(STRATA)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        words = quoted.split()
        if words[0] == "strata" and len(words) > 1:
            known = options(COMMANDS[words[1]]) if words[1] in COMMANDS else options(STRATA)
            if isinstance(group := COMMANDS.get(words[1]), click.Group) and len(words) > 2:
                assert words[2] in group.commands, f"{page.name}: {quoted}"
                known = options(group.commands[words[2]])
            assert words[1] in COMMANDS or words[1] in known, f"{page.name}: {quoted}"
            assert {word for word in words[2:] if word.startswith("--")} <= known, f"{page.name}: {quoted}"
        elif words[0].startswith("--"):
            assert words[0].partition("=")[0] in every, f"{page.name}: {quoted}"


def options(command: click.Command) -> set[str]:
    return {name for param in command.params for name in param.opts} | {"--help", "-h"}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for page in WRITTEN:
        named |= set(re.findall(r"(?:^|`)make ([\w-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets
    assert {"demo", "setup", "test", "test-full"} <= named


# ---------------------------------------------------------------- campaign files


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_campaign_shown_can_be_loaded(name: str) -> None:
    assert name.endswith(".yaml"), "the first line of a campaign shown is its name, as in # web.yaml"
    assert load(CAMPAIGNS[name].text, name).stacks


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_modelled_disks_of_a_campaign_shown_fit_into_its_lab(name: str) -> None:
    shown = load(CAMPAIGNS[name].text, name)
    if shown.testbed.clock == "virtual":
        count: dict[str, int] = {}
        for stack in shown.stacks:
            count |= {role: max(number, count.get(role, 0)) for role, number in stack.disks().items()}
        disks = [
            Disk(role, shown.disks[role].size_bytes, None) for role, number in count.items() for _ in range(number)
        ]
        assert not models.reasons_against(disks, shown.testbed.memory_bytes)


def test_the_requirements_shown_have_every_key() -> None:
    text = SHOWN[REQUIREMENTS].text
    wanted = requirements.read(text, REQUIREMENTS, documents().features)
    assert all(getattr(wanted, field.name) for field in dataclasses.fields(wanted)), "a key that the page does not show"
    assert [stack for text in wanted.candidates for stack in parse_stacks(text, layers.catalogue())]


def test_the_campaign_page_has_every_key() -> None:
    page = (ROOT / "docs" / "campaign-file.md").read_text()
    for model in (CampaignModel, DiskModel, LabModel, RuleModel, TestbedModel):
        rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
        assert set(model.model_fields) <= rows, model.__name__
    whole = CAMPAIGNS["everything.yaml"].text
    keys = set(re.findall(r"^(\w+):", whole, re.MULTILINE))
    assert keys == set(CampaignModel.model_fields)


def test_the_campaign_page_has_the_grammar_of_the_parser() -> None:
    from strata.campaign import syntax

    (grammar,) = [f.text for f in fences("text") if f.text.startswith("chain ")]
    lines = [line.strip() for line in (syntax.__doc__ or "").splitlines()]
    for line in grammar.splitlines():
        assert line.strip() in lines


# ---------------------------------------------------------------- what is taken from the code


@pytest.mark.parametrize("kind", ["layers", "workloads", "metrics"])
def test_the_reference_is_not_stale(kind: str) -> None:
    assert (ROOT / "docs" / "reference" / f"{kind}.md").read_text() == reference.page(kind), "run make docs"


@pytest.mark.parametrize("fence", fences("python"), ids=str)
def test_excerpts_are_of_the_code(fence: Fence) -> None:
    first, _, text = fence.text.partition("\n")
    assert first.startswith("# python/"), "the first line of an excerpt is its file"
    assert text.strip("\n") in (ROOT / first.removeprefix("# ")).read_text()


def test_the_tables_of_flags_and_warnings_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text()
    flags = page.partition("## Flags of trials")[2].partition("\n## ")[0]
    rows = [f"| `{flag.name}` | {flag.sentence} | {flag.advice} |" for flag in FLAGS]
    assert re.findall(r"^\| `.*$", flags, re.MULTILINE) == rows
    warnings = page.partition("## Warnings")[2].partition("\n## ")[0]
    rows = [f"| `{warning.name}` | {warning.when} |" for warning in WARNINGS]
    assert re.findall(r"^\| `.*$", warnings, re.MULTILINE) == rows


def test_every_flag_and_warning_in_the_code_is_in_the_table() -> None:
    code = ROOT / "python" / "strata"
    run = "".join(path.read_text() for path in (code / "run").rglob("*.py"))
    set_there = set(re.findall(r'flags\.append\("(\w+)"\)|flags=\(\*\w+\.flags, "(\w+)"\)', run))
    names = {name for pair in set_there for name in pair if name}
    assert names == {flag.name for flag in FLAGS} - {"cached", "memory"}, "those two are of runs stored earlier"
    analysis = "".join(path.read_text() for path in (code / "analysis").glob("*.py"))
    kinds = set(re.findall(r'Caution\(\s*"(\w+)"', analysis))
    assert kinds | ({flag.name for flag in FLAGS} - {"extended"}) == {warning.name for warning in WARNINGS}


def test_the_gravest_flags_and_warnings_come_first() -> None:
    for table in (FLAGS, WARNINGS):
        severities = [entry.severity for entry in table]
        assert severities == sorted(severities, reverse=True)


def test_every_exit_code_is_in_the_guide() -> None:
    from strata import errors

    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    guide = (ROOT / "docs" / "guide.md").read_text()
    rows = re.findall(r"^\| (\d+) \|", guide.partition("## Exit codes")[2], re.MULTILINE)
    assert {int(row) for row in rows} == codes | {0}


def test_the_readme_is_short() -> None:
    """The reference lists layers, workloads and metrics; the README says what Strata is and where to go next."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert not re.search(r"^\|", text, re.MULTILINE), "a table belongs to the pages that the README links to"


CONTRIBUTING = re.sub(r"^```.*?^```$", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE | re.DOTALL)
ROOMS = ("layers", "workloads")  # where a file named without its folder is


def named_file(name: str) -> Path | None:
    """The file or folder that CONTRIBUTING calls `name`; None when there is none."""
    # NAME and CASE stand for what the reader adds: the folder that gets it must be there.
    path = Path(*[part for part in Path(name).parts if Path(part).stem not in ("NAME", "CASE")])
    places = [ROOT, *(ROOT / "python" / "strata" / room for room in ROOMS)]
    return next((place / path for place in places if (place / path).exists()), None)


@pytest.mark.parametrize("name", re.findall(r"`([\w.-]+/[\w./-]*|[\w.-]+\.(?:py|yaml|toml))`", CONTRIBUTING))
def test_every_path_that_contributing_names_exists(name: str) -> None:
    assert name == "place.dir/device" or named_file(name), f"CONTRIBUTING.md names {name}, which does not exist"


@pytest.mark.parametrize(("name", "file"), re.findall(r"`(\w+)`\s+(?:in|of)\s+`([\w./-]+)`", CONTRIBUTING))
def test_every_name_that_contributing_finds_in_a_file_is_there(name: str, file: str) -> None:
    path = named_file(file)
    assert path is not None, f"CONTRIBUTING.md names {file}, which does not exist"
    defined = rf"^(class|def) {name}\b|^{name}\b.* = "
    assert re.search(defined, path.read_text(), re.MULTILINE), f"{file} defines no {name}, as CONTRIBUTING.md says"


@pytest.mark.parametrize("line", [f.text for f in fences("sh") if f.page.name == "CONTRIBUTING.md"])
def test_every_file_in_a_command_of_contributing_exists(line: str) -> None:
    for word in re.findall(r"(?:tests|campaigns|docs)/[\w./-]+", line):
        assert named_file(word), f"CONTRIBUTING.md has a command with {word}, which does not exist"


# ---------------------------------------------------------------- decisions


def test_decisions_are_numbered_listed_and_whole() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(folder.glob("0*.md"))
    listed = re.findall(r"^(\d+)\. \[(.+)\]\((.+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [record.name for record in records] == [name for _, _, name in listed]
    for place, (record, (number, title, _)) in enumerate(zip(records, listed, strict=True), start=1):
        text = record.read_text()
        assert record.name.startswith(f"{place:04}-") and int(number) == place
        assert text.startswith(f"# {place}. {title}\n")
        for part in ("Context", "Decision", "Consequence"):
            assert f"\n**{part}.** " in text, record.name
