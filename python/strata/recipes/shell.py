"""A recipe as one POSIX shell script that needs nothing of Strata: apply, check, inspect, remove.

The commands are the steps of the layers' plans, each with its undo, which is noted before the step begins. So a build
that fails is undone at once, and one that was cut short is undone by `remove`. What a restart of the machine ends is
brought back by `apply` too.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence

from strata.errors import BadInput
from strata.model import Command, Completed, Kind, Step
from strata.recipes.frame import FRAME, SEE_MOUNT, SEE_NOTHING
from strata.recipes.plan import Recipe
from strata.recipes.remarks import remarks

_USED = {
    "findmnt": "util-linux",
    "lsblk": "util-linux",
    "wipefs": "util-linux",
    "partx": "util-linux",
    "losetup": "mount",
    "readlink": "coreutils",
    "base64": "coreutils",
}
"""What the script itself calls."""


def render(recipe: Recipe) -> str:
    """The whole script."""
    programs: dict[str, str] = {}
    body: list[str] = []
    steps = [step for layer in recipe.layers for step in layer.steps()]
    for number, step in enumerate(steps, start=1):
        body += _step(number, step, programs)
    questions = [(layer, command) for layer in recipe.layers for command in layer.inspection()]
    for number, (layer, command) in enumerate(questions, start=1):
        body += [
            f"layer_{number}() {{ echo {shlex.quote(layer.node.call.text)}; }}",
            f"ask_{number}() {{ {_invoked(command, programs)}; }}",
        ]
    text = "\n".join([*programs, *body])
    called = {tool: package for tool, package in recipe.packages().items() if _occurs(tool, text)}
    tools = sorted({**called, **_USED}.items())
    head = [
        f"name={shlex.quote(recipe.name)}",
        f"state={shlex.quote(recipe.directory)}",
        f"made={shlex.quote(_made(recipe))}",
        f"mount={shlex.quote(recipe.mount if mounted(recipe) else '')}",
        "devices=" + shlex.quote(" ".join(each.path for each in recipe.given)),
        "places=" + shlex.quote(" ".join(layer.place.dir for layer in recipe.layers)),
        "programs=" + shlex.quote(" ".join(f"{tool}:{package.split(' ')[0]}" for tool, package in tools)),
        f"steps={len(steps)} questions={len(questions)}",
    ]
    functions = [f"{name}() (\nset +eu\n{script.rstrip()}\n)\n" for script, name in programs.items()]
    return "\n".join(
        [
            *_header(recipe),
            "set -eu",
            'export LC_ALL=C.UTF-8 BLKID_FILE=/dev/null PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"',
            *head,
            "",
            "# ---------------------------------------------------------------- the programs of the layers",
            "",
            *functions,
            "# ---------------------------------------------------------------- the steps, and how each is undone",
            "",
            *body,
            "",
            _see(recipe),
            "",
            f'judge() {{ {_judge(recipe)} --seen "$1"; }}',
            "",
            FRAME,
        ]
    )


def mounted(recipe: Recipe) -> bool:
    return any(layer.provides.mount == recipe.mount for layer in recipe.layers)


def seen(recipe: Recipe, text: str) -> list[Completed]:
    """What `inspect` printed. Raises BadInput when it is of another recipe."""
    questions = [command for layer in recipe.layers for command in layer.inspection()]
    lines = text.split("\n")[:-1]
    if len(lines) != len(questions):
        raise BadInput(
            f"--seen: {len(lines)} answers are there and this recipe asks {len(questions)} questions; "
            "give what `inspect` of this very recipe printed."
        )
    return [_answer(command, line) for command, line in zip(questions, lines, strict=True)]


def _answer(command: Command, line: str) -> Completed:
    try:
        code, out, err = line.split(" ")
        texts = [
            base64.b64decode(part.removesuffix("."), validate=True).decode(errors="replace") for part in (out, err)
        ]
        return Completed(command.argv, int(code), texts[0], texts[1], 0.0)
    except ValueError as error:
        raise BadInput(f"--seen: '{line[:60]}' is no answer ({error}); give what `inspect` printed.") from error


def _header(recipe: Recipe) -> list[str]:
    file = f"{recipe.name}.sh"
    lines = [
        f"{recipe.name}: {recipe.stack}",
        *remarks(recipe),
        "",
        "Written by `strata recipe`, from the plans that build this stack when it is measured. It needs nothing of",
        "Strata, and touches nothing but the devices below and what it makes itself.",
        "",
        *(f"  {each.role}: {each.path}" for each in recipe.given),
        "",
        f"  sh {file} apply [--wipe]            build it, and bring it back after a restart of the machine;",
        "                                      --wipe: what the devices carry may be lost",
        f"  sh {file} check                     is it in place?",
        f"  sh {file} remove [--destroy-data]   take it away again",
        *_not_here(recipe),
    ]
    return ["#!/bin/sh", *(f"# {line}".rstrip() for line in lines)]


def _not_here(recipe: Recipe) -> list[str]:
    """What of the stack the script does not build."""
    lines = []
    if recipe.above:
        lines.append(f"Not built here, for it runs on it: {' | '.join(node.call.text for node in recipe.above)}.")
    return ["", *lines] if lines else []


def _step(number: int, step: Step, programs: dict[str, str]) -> list[str]:
    undo = ":" if step.undo is None else _invoked(step.undo, programs)
    again = ":" if step.again is None else _invoked(step.again, programs)
    return [
        f"why_{number}() {{ echo {shlex.quote(step.why)}; }}",
        f"do_{number}() {{ {_invoked(step.do, programs)}; }}",
        f"undo_{number}() {{ {undo}; }}",
        f"again_{number}() {{ {again}; }}",
    ]


def _invoked(command: Command, programs: dict[str, str]) -> str:
    """The command as a line of the script. A shell script in it becomes a function, which the same scripts share."""
    argv: Sequence[str] = command.argv
    if argv[:2] == ("sh", "-c"):
        name = programs.setdefault(argv[2], f"program_{len(programs) + 1}")
        line = " ".join([name, *map(shlex.quote, argv[4:])])
    else:
        line = shlex.join(argv)
    return line if command.stdin is None else f"printf %s {shlex.quote(command.stdin)} | {line}"


def _occurs(program: str, text: str) -> bool:
    """A layer may know programs that it only calls to measure."""
    return re.search(rf"(?<![\w./-]){re.escape(program)}(?![\w-])", text) is not None


def _made(recipe: Recipe) -> str:
    """All that another recipe of this name would differ in, on one line."""
    devices = ", ".join(f"{each.role} {each.path}" for each in recipe.given)
    return f"{recipe.stack} at {recipe.mount} on {devices}"


def _see(recipe: Recipe) -> str:
    """The file system with our UUID, or the one of our pool, at its place."""
    for layer in recipe.layers:
        gives = layer.provides
        if gives.mount != recipe.mount or gives.kind is not Kind.DIRECTORY:
            continue
        if any(layer.place.uuid in word for step in layer.steps() for word in step.do.argv):
            return SEE_MOUNT % ("UUID", shlex.quote(layer.place.uuid))
        if gives.filesystem == "zfs" and gives.name:
            return SEE_MOUNT % ("SOURCE", shlex.quote(gives.name))
    return SEE_NOTHING


def _judge(recipe: Recipe) -> str:
    words = ["strata", "recipe", recipe.stack, "--name", recipe.name, "--at", recipe.mount]
    words += [word for each in recipe.given for word in ("--map", f"{each.role}={each.path}")]
    sizes = {each.role: each.size_bytes for each in recipe.given if each.size_bytes is not None}
    words += [word for role, size in sizes.items() for word in ("--size", f"{role}={size}")]
    words += ["--accept-loss"] if any(risk.loses_acknowledged for risk in recipe.risks) else []
    return shlex.join(words)
