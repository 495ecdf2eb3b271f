"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="strata",
    help="Which storage stack should carry your VMs and containers? Builds them, measures, decides, shows why.",
    no_args_is_help=True,
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
_WhatOrRun = Annotated[
    list[str],
    typer.Argument(
        metavar="CAMPAIGN|EXPRESSION...|DIR",
        help="a campaign file, stack expressions, or the directory of a run to continue as it was begun",
    ),
]
_Load = Annotated[list[str], typer.Option("-w", "--workload", metavar="WORKLOAD", help="may be given several times")]
_Profile = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="of the campaign file, as quick; full: the file as it stands"),
]
_Size = Annotated[
    list[str], typer.Option("--size", metavar="ROLE=SIZE", help="size of the sparse files that stand for disks")
]
_SizeOfMapped = Annotated[
    list[str],
    typer.Option("--size", metavar="ROLE=SIZE", help="what such a device holds, where a layer must know"),
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
_On = Annotated[
    str | None,
    typer.Option("--on", metavar="local|lab|ssh:HOST", help="where to run; else what the campaign file says, or local"),
]
_Clock = Annotated[
    str | None,
    typer.Option("--clock", metavar="real|virtual", help="of the lab; virtual: exact figures, on modelled disks"),
]
_Debian = Annotated[int | None, typer.Option("--debian", metavar="N", help="of the lab: the release it is made of")]
_Kernel = Annotated[
    str | None, typer.Option("--kernel", metavar="V", help="of the lab: another kernel than the release's own, as 6.1")
]
_Model = Annotated[
    list[str],
    typer.Option(
        "--disk", metavar="ROLE=MODEL", help="of the lab: what disk to be like, by a model's name or FILE.yaml"
    ),
]
_WriteCache = Annotated[
    list[str],
    typer.Option(
        "--write-cache",
        metavar="ROLE=volatile|protected|none",
        help="what a power cut does to a disk's own write cache",
    ),
]
_Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", min=1, help="on the virtual clock: visits of every stack")
]
_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", min=1, help="run N visits in parallel (virtual clock only)")
]
_Confidence = Annotated[
    str | None,
    typer.Option(
        "--confidence",
        metavar="quick|standard|certified",
        help="visit until the best is known: quick 80 %, standard 95 %; certified: the shortlist again, by no model",
    ),
]
_Within = Annotated[
    str | None, typer.Option("--within", metavar="PERCENT", help="stacks closer than this are as good; default 3%")
]
_Design = Annotated[
    str | None,
    typer.Option("--design", metavar="auto|rounds|race|adaptive", help="how visits are chosen; auto with --confidence"),
]
_Weights = Annotated[
    str | None,
    typer.Option("--weights", metavar="WORKLOAD=N,...", help="of the workloads, in place of equal ones; no new trials"),
]
_Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="WORKLOAD=N,...|pareto:METRIC,...",
        help="what is to be best: weights of the workloads, or a front of several metrics; default: all weigh the same",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="print JSON")]
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
    profile: _Profile = None,
    size: _Size = [],  # noqa: B006
    device: _Device = [],  # noqa: B006
    wipe: _Wipe = [],  # noqa: B006
    on: _On = None,
    clock: _Clock = None,
    debian: _Debian = None,
    kernel: _Kernel = None,
    disk: _Model = [],  # noqa: B006
    write_cache: _WriteCache = [],  # noqa: B006
    seeds: _Seeds = None,
    commands: Annotated[bool, typer.Option("--commands", help="every command, as it would be typed")] = False,
    json: _Json = False,
) -> None:
    """What a campaign would do here: stacks, reasons to skip, time, room. Touches nothing."""
    from strata.cli import plan, written

    where = written.Where(on, clock, debian, kernel, tuple(disk), seeds, tuple(write_cache))
    plan.plan(what, workload, size, device, wipe, where, commands, json, profile)


@app.command()
def run(
    what: _WhatOrRun,
    workload: _Load = [],  # noqa: B006
    profile: _Profile = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="where the run lives; default runs/NAME")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="stop asking for more after 20m, 8h ...")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="visits of every stack")] = None,
    confidence: _Confidence = None,
    within: _Within = None,
    design: _Design = None,
    objective: _Objective = None,
    size: _Size = [],  # noqa: B006
    device: _Device = [],  # noqa: B006
    wipe: _Wipe = [],  # noqa: B006
    on: _On = None,
    clock: _Clock = None,
    debian: _Debian = None,
    kernel: _Kernel = None,
    disk: _Model = [],  # noqa: B006
    write_cache: _WriteCache = [],  # noqa: B006
    seeds: _Seeds = None,
    jobs: _Jobs = 1,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before overwriting the devices given")] = False,
    json: _Json = False,
) -> None:
    """Build, measure, decide. A run that stopped continues: give its DIR, or the same campaign and --out."""
    from strata.cli import run, written

    where = written.Where(on, clock, debian, kernel, tuple(disk), seeds, tuple(write_cache))
    decide = run.Decide(budget, rounds, confidence, within, design, objective)
    run.run(run.Asked(what, workload, out, where, decide, size, device, wipe, yes, json, profile, jobs))


@app.command()
def status(directory: _Directory, json: _Json = False) -> None:
    """Where a run stands, also while it goes on."""
    from strata.cli import status

    status.status(directory, json)


@app.command()
def verdict(
    directory: _Directory,
    weights: _Weights = None,
    pareto: Annotated[
        str | None,
        typer.Option("--pareto", metavar="METRIC,...", help="who is beaten by no other in all of these at once"),
    ] = None,
    json: _Json = False,
) -> None:
    """Show which stack is best, which tie with it, or that the data cannot decide."""
    from strata.cli import verdict

    verdict.verdict(directory, json, weights, pareto)


@app.command()
def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="of a run; of several, which stand side by side")
    ],
    json: _Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="print it as Markdown; of one run")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="print every figure as CSV, one row per trial and metric; of one run")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="default: DIR/report.html; of several, joined.html")
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", metavar="DIR", help="with what stacks can do, as `features` kept it")
    ] = None,
    requirements: Annotated[
        Path | None, typer.Option("--requirements", metavar="FILE", help="with the advice for what you require")
    ] = None,
    devices: Annotated[
        list[str],
        typer.Option("--map", metavar="ROLE=/dev/disk/by-id/...", help="with the recipe: of the advice, else the best"),
    ] = [],  # noqa: B006
    size: _SizeOfMapped = [],  # noqa: B006
) -> None:
    """Write the whole report as one HTML file, or print it as Markdown, JSON or CSV."""
    from strata.cli import report

    form = report.form(json=json, markdown=markdown, csv=csv)
    beside = report.Beside(features, requirements, tuple(devices), tuple(size))
    if len(directories) > 1:
        report.joined_report(directories, form, out, beside)
    else:
        report.report(directories[0], form, out, beside)


@app.command()
def advise(
    file: Annotated[
        Path | None, typer.Argument(metavar="[REQUIREMENTS.yaml]", help="what you require; or by flags")
    ] = None,
    runs: Annotated[
        list[Path], typer.Option("--from", metavar="DIR", help="a run; the first that has figures of what fits decides")
    ] = [],  # noqa: B006
    needs: Annotated[
        str | None, typer.Option("--needs", metavar="FEATURE,...", help="such as snapshot,quota; a|b: one of them")
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option("--max-memory", metavar="SIZE", help="for all of its layers")
    ] = None,
    capacity: Annotated[
        str | None, typer.Option("--capacity", metavar="SIZE", help="of the disks, where the memory grows with them")
    ] = None,
    survive: Annotated[str | None, typer.Option("--survive", metavar="N-disk", help="whichever they are")] = None,
    no: Annotated[
        Literal["writeback-risk"] | None,
        typer.Option(
            "--no", metavar="writeback-risk", help="what it must not have: a way to lose a write that was acknowledged"
        ),
    ] = None,
    disks: Annotated[list[str], typer.Option("--disks", metavar="ROLE=N", help="what is at hand")] = [],  # noqa: B006
    weights: _Weights = None,
    json: _Json = False,
) -> None:
    """The choice: what is ruled out and why, the ranking of the rest, and what each would cost."""
    from strata.cli import advise

    flags = advise.Flags(needs, max_memory, capacity, survive, no == "writeback-risk", disks, weights)
    advise.advise(file, runs, flags, json)


@app.command()
def features(
    what: Annotated[
        list[str],
        typer.Argument(metavar="[EXPRESSION...|DIR]", help="stacks to try; or the output directory of an earlier run"),
    ] = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("--all", help="the stacks that people choose among")] = False,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="where the evidence is kept")] = Path(
        "runs/features"
    ),
    size: _Size = [],  # noqa: B006
    on: _On = None,
    debian: _Debian = None,
    kernel: _Kernel = None,
    json: _Json = False,
) -> None:
    """What stacks can do: every yes and no tried on a fresh stack, and where documents say otherwise."""
    from strata.cli import features, written

    features.features(what, everything, out, size, written.Where(on, None, debian, kernel, (), None, ()), json)


@app.command()
def serve(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="of runs, or one that holds them, such as runs")
    ],
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any that is free")] = 8765,
) -> None:
    """Pages of runs in a browser on this machine: their reports, also while they go on, and several side by side."""
    from strata.cli import serve

    serve.serve(directories, port)


@app.command()
def compare(
    directory: _Directory,
    other: Annotated[
        str,
        typer.Argument(
            metavar="DIR|published:STUDY", help="another run, or a published study; `published:` lists them"
        ),
    ],
    everything: Annotated[bool, typer.Option("--all", help="the metrics that do not decide, too")] = False,
    json: _Json = False,
) -> None:
    """The same stacks in two runs: ratios with intervals, and what changed its place."""
    from strata.cli import compare

    compare.compare(directory, other, everything, json)


@app.command()
def recipe(
    what: Annotated[
        str, typer.Argument(metavar="DIR|EXPRESSION", help="the directory of a run, or one stack that was not measured")
    ],
    stack: Annotated[
        str | None, typer.Argument(metavar="[STACK]", help="of the run; without it, the best, where one is shown to be")
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--as", metavar="FORMAT", help="shell, fstab, systemd, ansible, incus ...; an unknown one lists all"
        ),
    ] = "shell",
    devices: Annotated[
        list[str], typer.Option("--map", metavar="ROLE=/dev/disk/by-id/...", help="the device for a disk of the stack")
    ] = [],  # noqa: B006
    size: _SizeOfMapped = [],  # noqa: B006
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="what volume groups, pools and files are called")
    ] = "data",
    mount: Annotated[
        str | None, typer.Option("--at", metavar="PATH", help="where its file system is mounted; default /srv/NAME")
    ] = None,
    seen: Annotated[
        Path | None,
        typer.Option("--seen", metavar="FILE", help="judge what the script's `inspect` printed (- for standard input)"),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="write it for a stack that can lose acknowledged data, too; its files say so"
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="write the files there")] = None,
) -> None:
    """How to build a stack on your devices, to stay: a script, or the files of another program. Touches nothing."""
    from strata.cli import recipe

    recipe.recipe(what, stack, form, recipe.Where(devices, size, name, mount, accept_loss), seen, out)


@app.command()
def clean(directory: _Directory, json: _Json = False) -> None:
    """Remove whatever a killed run left on this machine. Results stay."""
    from strata.cli import clean

    clean.clean(directory, json)


@app.command()
def verify(
    directory: _Directory,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="keep the second run there; else it is thrown away")
    ] = None,
    jobs: _Jobs = 1,
    figures: Annotated[
        bool, typer.Option("--figures", help="recompute the figures from the raw records of the run, of any clock")
    ] = False,
    json: _Json = False,
) -> None:
    """Run an exact campaign (--clock virtual) again and compare every figure, digit by digit."""
    from strata.cli import recomputed, verify

    if figures:
        recomputed.verify_figures(directory, json)
    else:
        verify.verify_run(directory, out, jobs, json)


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def wml(
    arguments: Annotated[
        list[str], typer.Argument(metavar="FILE --dir DIR [OPTION...] | check FILE", help="--help lists the options")
    ],
) -> None:
    """Run a filebench program (a .f file, or builtin:fileserver and its like) in a directory, or check one."""
    from strata.cli import wml

    wml.wml(arguments)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="layers|workloads|metrics|campaign")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|DIR]", help="one of them only; of campaign, the directory of a run")
    ] = None,
    json: _Json = False,
) -> None:
    """Show the reference of layers, workloads and metrics, or the campaign file of a stored run."""
    from strata.cli import show

    show.show(what, name, json)


lab = typer.Typer(
    help="The lab: a throw-away machine in QEMU, made of Debian's packages, for any stack without root or disks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(lab, name="lab")


@lab.command("build")
def lab_build(
    debian: Annotated[int, typer.Option("--debian", metavar="12|13", help="the release that it is made of")] = 13,
    features: Annotated[
        str | None, typer.Option("--with", metavar="FEATURE,...", help="zfs, containers, install, postgres, qemu")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="V", help="another kernel than the release's own, as 6.1")
    ] = None,
) -> None:
    """Make it, once; it is kept in your cache. As an ordinary user where user namespaces allow, else as root."""
    from strata.cli import lab

    lab.build(debian, features, kernel)


@lab.command("status")
def lab_status(json: _Json = False) -> None:
    """The labs that are built: what they are, their size and age."""
    from strata.cli import lab

    lab.status(json)


@lab.command("shell")
def lab_shell(
    debian: Annotated[int, typer.Option("--debian", metavar="12|13", help="the release that it is made of")] = 13,
    features: Annotated[str | None, typer.Option("--with", metavar="FEATURE,...", help="as it was built with")] = None,
    kernel: Annotated[str | None, typer.Option("--kernel", metavar="V", help="another kernel, as 6.1")] = None,
    disks: Annotated[
        list[str], typer.Option("--disk", metavar="ROLE=SIZE[:MODEL]", help="give it a disk; may be repeated")
    ] = [],  # noqa: B006
) -> None:
    """A shell in a fresh machine, thrown away when you leave it; or run what comes on standard input."""
    from strata.cli import lab_shell

    raise typer.Exit(lab_shell.shell(debian, features, kernel, disks))


@lab.command("remove")
def lab_remove(
    names: Annotated[list[str], typer.Argument(metavar="[NAME...]", help="as `strata lab status` shows them")] = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("--all", help="all of them, and what building them kept")] = False,
) -> None:
    """Remove labs from the cache, with the machine states saved from them."""
    from strata.cli import lab

    lab.remove(names, everything)


disk = typer.Typer(
    help="Models of disks: what the exact lab's disks are like, and one like a disk of yours.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(disk, name="disk")


@disk.command("models")
def disk_models(json: _Json = False) -> None:
    """The models that come with Strata, what they claim, and where their numbers come from."""
    from strata.cli import disk

    disk.show_models(json)


@disk.command("probe")
def disk_probe(
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE.yaml", help="the model file to write")],
    device: Annotated[str | None, typer.Argument(metavar="[DEVICE]", help="as /dev/disk/by-id/...; only read")] = None,
    scratch: Annotated[
        str | None, typer.Option("--scratch", metavar="FILE", help="a new file to read and write")
    ] = None,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="of that file")] = "2G",
    seconds: Annotated[float, typer.Option("--seconds", min=0.2, help="for each figure that is measured")] = 4.0,
) -> None:
    """Fit a model to a disk: reads only, or also writes, on a new file that is removed again."""
    from strata.cli import disk

    disk.run_probe(device, scratch, size, out, seconds)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if version:
        import importlib.metadata

        from strata.cli import output

        output.out(f"strata {importlib.metadata.version('stratabench')}")
        raise typer.Exit
