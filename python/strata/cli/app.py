"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="strata",
    help="Which storage stack should carry your VMs and containers? Builds them, measures, decides, shows why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_What = Annotated[
    list[str],
    typer.Argument(
        metavar="CAMPAIGN|EXPRESSION...", help="a campaign file, or stack expressions: 'disk | {ext4, xfs}'"
    ),
]
_Load = Annotated[list[str], typer.Option("-w", "--workload", metavar="WORKLOAD", help="may be given several times")]
_Size = Annotated[
    list[str], typer.Option("--size", metavar="ROLE=SIZE", help="size of the sparse files that stand for disks")
]
_Device = Annotated[
    list[str],
    typer.Option(
        "--device", metavar="ROLE=STABLE-ID", help="a real device, which will be OVERWRITTEN; by its stable id"
    ),
]
_Wipe = Annotated[
    list[str],
    typer.Option("--wipe", metavar="STABLE-ID", help="a device given with --device may lose the signatures it carries"),
]
_Json = Annotated[bool, typer.Option("--json", help="for programs")]
_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="the directory of a run")]


@app.command()
def doctor(json: _Json = False) -> None:
    """What this machine can build and run, and every reason why not."""
    from strata.cli import doctor

    doctor.doctor(json)


@app.command()
def plan(
    what: _What,
    workload: _Load = [],  # noqa: B006 - typer copies it
    size: _Size = [],  # noqa: B006
    device: _Device = [],  # noqa: B006
    wipe: _Wipe = [],  # noqa: B006
    commands: Annotated[bool, typer.Option("--commands", help="every command, as it would be typed")] = False,
    json: _Json = False,
) -> None:
    """What a campaign would do here: stacks, reasons to skip, time, room. Touches nothing."""
    from strata.cli import plan

    plan.plan(what, workload, size, device, wipe, commands, json)


@app.command()
def run(
    what: _What,
    workload: _Load = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="where the run lives; default runs/NAME")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="stop asking for more after 20m, 8h ...")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="visits of every stack")] = None,
    size: _Size = [],  # noqa: B006
    device: _Device = [],  # noqa: B006
    wipe: _Wipe = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before overwriting the devices given")] = False,
    json: _Json = False,
) -> None:
    """Build, measure, decide. Given a DIR that holds the same campaign, go on where it stopped."""
    from strata.cli import run

    run.run(what, workload, out, budget, rounds, size, device, wipe, yes, json)


@app.command()
def status(directory: _Directory, json: _Json = False) -> None:
    """Where a run stands, also while it goes on."""
    from strata.cli import status

    status.status(directory, json)


@app.command()
def verdict(directory: _Directory, json: _Json = False) -> None:
    """Which stack is best, which tie with it, or that the data do not say."""
    from strata.cli import verdict

    verdict.verdict(directory, json)


@app.command()
def report(
    directory: _Directory,
    json: _Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="print it as Markdown")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="default: DIR/report.html")] = None,
) -> None:
    """Write the whole report as one HTML file, or print it as Markdown or JSON."""
    from strata.cli import report

    report.report(directory, json, markdown, out)


@app.command()
def clean(directory: _Directory, json: _Json = False) -> None:
    """Remove whatever a killed run left on this machine. Results stay."""
    from strata.cli import clean

    clean.clean(directory, json)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="layers|workloads|metrics")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    json: _Json = False,
) -> None:
    """The reference, from the code."""
    from strata.cli import show

    show.show(what, name, json)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if version:
        import importlib.metadata

        typer.echo(f"strata {importlib.metadata.version('stratabench')}")
        raise typer.Exit
