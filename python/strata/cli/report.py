"""strata report"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strata import text as texts
from strata.cli import output, page_file, verdict
from strata.errors import BadInput

if TYPE_CHECKING:  # the page is heavy to import, and only what writes it pays
    from strata.report.html import Choosing


Form = Literal["html", "json", "markdown", "csv"]


@dataclass(frozen=True, slots=True)
class Beside:
    """What is to stand in the page beside the figures of the run."""

    features: Path | None = None  # what `strata features` kept
    requirements: Path | None = None
    devices: Sequence[str] = ()  # ROLE=/dev/disk/by-id/..., for the recipe
    sizes: Sequence[str] = ()

    @property
    def anything(self) -> bool:
        return bool(self.features or self.requirements or self.devices or self.sizes)


def form(*, json: bool, markdown: bool, csv: bool) -> Form:
    """The one form that the options name, else the page. Raises BadInput when they name several."""
    named: dict[Form, bool] = {"json": json, "markdown": markdown, "csv": csv}
    forms = [name for name, wanted in named.items() if wanted]
    if len(forms) > 1:
        raise BadInput(f"a report has one form; keep one of {', '.join(f'--{name}' for name in forms)}.")
    return forms[0] if forms else "html"


def report(directory: Path, form: Form, out: Path | None, beside: Beside) -> None:
    if beside.sizes and not beside.devices:
        raise BadInput("--size is of a device for the recipe; give that with --map.")
    if form != "html":
        if beside.anything:
            raise BadInput(
                "--features, --requirements and --map are for the page; without it, ask strata features, strata advise "
                "and strata recipe."
            )
        text = _text(directory, form)
        if out:
            page_file.write(out, text)
        else:
            output.out(text, end="")
        return
    model = verdict.model_of(directory)
    output.out(str(verdict.write_report(model, out or directory / "report.html", _choosing(directory, beside))))


def _text(directory: Path, form: Form) -> str:
    from strata.report import csvform, jsonform, markdown
    from strata.store import reader

    if form == "csv":
        return csvform.render(reader.view(directory))
    model = verdict.model_of(directory)
    return jsonform.render(model) if form == "json" else markdown.render(model)


def _choosing(directory: Path, beside: Beside) -> Choosing:
    """The recipe is of what the requirements lead to, where there are any; else of the best stack."""
    from strata.cli import advise, features, recipe
    from strata.recipes.formats import formats
    from strata.report import advice
    from strata.report.html import Choosing

    tried = [] if beside.features is None else features.kept(beside.features)
    found = Choosing(features=features.matrix_of(tried) if tried else None)
    stack = None
    if beside.requirements is not None:
        answer, wanted = advise.answer(beside.requirements, [directory, *tried], advise.Flags())
        found = replace(found, headline=advice.headline(answer), advice=advice.render(answer, wanted))
        if answer.choice is None and beside.devices:
            raise BadInput("the requirements lead to no stack of this run, so there is no recipe; leave --map out.")
        stack = None if answer.choice is None else answer.choice.judged.stack
    if beside.devices:
        made = recipe.made_of(str(directory), stack, recipe.Where(beside.devices, beside.sizes))
        (script,) = formats()["shell"].write(made)
        found = replace(found, recipe=script.text, recipe_of=made.stack)
    return found


def joined_report(directories: Sequence[Path], form: Form, out: Path | None, beside: Beside) -> None:
    """The same stacks in several runs: of several machines, kernels, years."""
    from strata.report import joined, pages
    from strata.store import reader

    if form in ("markdown", "csv"):
        raise BadInput(f"several runs side by side are a page, text or --json; give one run with --{form}.")
    if beside.anything:
        raise BadInput("--features, --requirements and --map are for the page of one run; give one.")
    names = [str(directory) for directory in directories]
    if len(set(names)) < len(names):
        raise BadInput("the same run is given twice; give each once.")
    views = {name: reader.view(directory) for name, directory in zip(names, directories, strict=True)}
    said = {
        name: verdict.model_of(directory, series=False).verdict.sentence
        for name, directory in zip(names, directories, strict=True)
    }
    found = joined.build(views, said)
    if form == "json":
        text = texts.as_json(asdict(found), indent=1) + "\n"
        if out:
            page_file.write(out, text)
        else:
            output.out(text, end="")
        return
    output.out(joined.render(found), end="")
    page = out or Path("joined.html")
    page_file.write(page, pages.joined(found))
    output.out(f"\nThe page: {page}")
