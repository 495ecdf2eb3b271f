"""What a recipe builds, and where: a stack laid out on the devices that it is meant for, to stay there. Pure.

The layers' drivers plan it, as they do for a visit. What belongs to measuring only (a fill, held snapshots, a warm
cache) is left out and said; what runs on the stack (a guest, a container engine) is where the recipe ends: formats that
set up such programs read it from `above`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from strata.errors import BadInput, Problem
from strata.judge.risks import documented_risks, sentence
from strata.model import (
    Call,
    Command,
    Completed,
    Instead,
    Kind,
    LayerDriver,
    LayerInfo,
    Node,
    ParamType,
    Place,
    Provides,
    Stack,
    Staying,
    Step,
    Value,
)
from strata.published.documented import Risk, documents
from strata.text import one_line
from strata.units import format_size

STATE = "/var/lib/strata"
"""Where what was built keeps what it needs to be looked at, started again and removed."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,17}[a-z0-9]")
_BY_ID = re.compile(r"/dev/disk/by-id/(?!\.\.?$)[^/\s]+")
_PATH = re.compile(r"(/[A-Za-z0-9_+.@-]+)+")
_FAMILY = uuid.UUID("7d0a0c5e-6f0e-5c39-9b53-2f6f3c0b7a11")  # of the UUIDs of recipes; drawn once

_NOT_BUILT = (Kind.ENGINE, Kind.CONTAINER, Kind.GUEST)


@dataclass(frozen=True, slots=True)
class Given:
    """A device that the operator gives for a role."""

    role: str
    path: str  # below /dev/disk/by-id
    size_bytes: int | None = None  # at least; for layers that must know how much room there is below


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer, with all that its driver needs to be asked anything."""

    node: Node
    driver: LayerDriver
    place: Place
    below: tuple[Provides, ...]
    provides: Provides

    def steps(self) -> list[Step]:
        return self.driver.plan_create(self.node.call, self.below, self.place)

    def inspection(self) -> list[Command]:
        return self.driver.plan_inspect(self.node.call, self.below, self.place)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A stack on the devices given, before it is written in any format."""

    stack: str  # canonical text, as it was measured
    name: str
    directory: str
    mount: str  # where its file system will be, if it has one
    given: tuple[Given, ...]  # in the order in which the stack takes them
    layers: tuple[Layer, ...]  # in the order of building
    above: tuple[Node, ...]  # what runs on it, bottom to top; not built here
    left_out: tuple[str, ...]  # conditions of the measurement
    notes: tuple[str, ...] = ()  # what the reader of the recipe has to know: where it was measured
    risks: tuple[Risk, ...] = ()  # documented ones of the whole stack, the gravest first

    @property
    def top(self) -> Provides:
        return self.layers[-1].provides

    def packages(self) -> dict[str, str]:
        """Program -> Debian package, of all that the layers call."""
        return {tool: package for layer in self.layers for tool, package in layer.driver.info.tools.items()}

    def differences(self, seen: Sequence[Completed]) -> list[str]:
        """What is not as requested, by the layers themselves. `seen`: the answers to every layer's inspection, in
        order."""
        wrong, rest = [], list(seen)
        for layer in self.layers:
            count = len(layer.inspection())
            wrong += layer.driver.differences(layer.node.call, layer.below, layer.place, rest[:count])
            rest = rest[count:]
        return wrong


def mapped(words: Iterable[str], sizes: Mapping[str, int]) -> tuple[Given, ...]:
    """From ROLE=/dev/disk/by-id/... words; `sizes`: of the devices of a role. Raises BadInput with every problem."""
    given, problems = [], []
    for word in words:
        role, separator, path = word.partition("=")
        if not separator or not role:
            problems.append(f"--map takes ROLE=/dev/disk/by-id/..., and '{word}' is not that.")
        elif not _BY_ID.fullmatch(path):
            problems.append(
                f"--map {word}: '{path}' may mean another disk tomorrow; give the device's link below /dev/disk/by-id, "
                "as `ls -l /dev/disk/by-id` shows them."
            )
        else:
            given.append(Given(role, path, sizes.get(role)))
    twice = {each.path for each in given if sum(other.path == each.path for other in given) > 1}
    problems += [f"--map gives {path} more than once; give each device once." for path in sorted(twice)]
    if problems:
        raise BadInput([Problem(problem) for problem in problems])
    return tuple(given)


def recipe(
    stack: Stack,
    drivers: Mapping[str, LayerDriver],
    given: Sequence[Given],
    *,
    name: str = "data",
    mount: str | None = None,
    notes: Sequence[str] = (),
    accept_loss: bool = False,
) -> Recipe:
    """The same for the same arguments. Raises BadInput: devices that are missing or too many, a stack that is no more
    than a measurement, arguments that a layer cannot follow; without `accept_loss`, a stack that can lose data that it
    acknowledged.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"--name {name}: write up to 19 small letters, digits and hyphens, beginning with a letter.")
    mount = mount or f"/srv/{name}"
    if not _PATH.fullmatch(mount):
        raise BadInput(f"--at {mount}: write an absolute path of letters, digits and any of _+.@- between slashes.")
    for text in (stack.text, *(word for each in given for word in (each.role, each.path))):
        if one_line(text) != text:
            raise BadInput(f"no recipe is made: '{one_line(text)}' holds a character that cannot be seen; change it.")
    _check_instruments(stack)
    base, above = _base(stack.top, drivers)
    nodes = [node for node in base.walk() if not _is_condition(drivers[node.call.name].info)]
    left_out = [node.call.text for node in stack.top.walk() if _is_condition(drivers[node.call.name].info)]
    _check_devices(nodes, given)
    risks = documented_risks(stack)
    if not accept_loss:
        _check_loss(stack, risks)
    named = "\0".join((name, mount, stack.text, *(f"{each.role}={each.path}" for each in given)))
    layers = _laid_out(base, drivers, given, name, named, None, mount)
    own = [
        number
        for number, layer in enumerate(layers)
        if layer.provides.mount is not None and layer.provides.mount.startswith(f"{layer.place.dir}/")
    ]
    if own:
        layers = _laid_out(base, drivers, given, name, named, own[-1], mount)
    for layer in layers:
        layer.steps()  # refuses arguments that must not come to a command, whichever the format
    used = [layer.below[0].path for layer in layers if layer.below and layer.below[0].kind is Kind.GRANT]
    return Recipe(
        stack=stack.text,
        name=name,
        directory=f"{STATE}/{name}",
        mount=mount,
        given=tuple(each for path in used for each in given if each.path == path),
        layers=layers,
        above=above,
        left_out=tuple(left_out),
        risks=risks,
        notes=(
            *map(one_line, notes),  # they come from a run, and stand in comments
            *(
                _other(node.call, drivers[node.call.name])
                for node in nodes
                if _changed(node.call, drivers[node.call.name])
            ),
        ),
    )


def _check_instruments(stack: Stack) -> None:
    held = [node.call.text for node in stack.top.walk() if node.call.name in documents().instruments]
    if held:
        raise BadInput(
            f"no recipe is made of {stack.text}: {held[0]} is an instrument, which stacks are compared with; choose a "
            "stack without it, on disks."
        )


def _check_loss(stack: Stack, risks: Sequence[Risk]) -> None:
    problems = [
        f"no recipe is made of {stack.text}: it can lose data that it acknowledged. {sentence(risk)} Where that may "
        "happen, add --accept-loss to `strata recipe`; else choose another stack."
        for risk in risks
        if risk.loses_acknowledged
    ]
    if problems:
        raise BadInput([Problem(problem) for problem in problems])


def _changed(call: Call, driver: LayerDriver) -> Mapping[str, Instead]:
    """Arguments that suit a measurement only, and what stands in their place."""
    return driver.to_stay(call) if isinstance(driver, Staying) else {}


def _other(call: Call, driver: LayerDriver) -> str:
    found = _changed(call, driver)
    sizes = {param.name for param in driver.info.params if param.type is ParamType.SIZE}
    words = ", ".join(f"{name}={_value(each.value, name in sizes)}" for name, each in found.items())
    return f"{call.text} is built with {words}: {'; '.join(each.why for each in found.values())}."


def _value(value: Value, is_size: bool) -> str:
    return "off" if value is False else format_size(int(value)) if is_size else str(value)


def _is_condition(info: LayerInfo) -> bool:
    """Whether it only changes the state of what is below it, for a measurement."""
    return info.provides is None and (not info.deployed or bool(info.needs))


def _ends_here(info: LayerInfo) -> bool:
    """Whether it is a program that runs on a stack: a guest, an engine, or what serves an image."""
    serves = not info.deployed and info.provides is not None and Kind.IMAGE in info.accepts
    return info.starts_guest or info.provides in _NOT_BUILT or serves


def _base(top: Node, drivers: Mapping[str, LayerDriver]) -> tuple[Node, tuple[Node, ...]]:
    """The part of the stack that is built, and what runs on it, bottom to top. Raises BadInput when nothing is left."""
    chain = [top]
    while len(chain[-1].inputs) == 1:
        chain.append(chain[-1].inputs[0])
    ends = [number for number, node in enumerate(chain) if _ends_here(drivers[node.call.name].info)]
    first = ends[-1] + 1 if ends else 0
    base = chain[min(first, len(chain) - 1)]
    for node in base.walk():
        info = drivers[node.call.name].info
        if _ends_here(info) or (not info.deployed and info.provides is not None):
            raise BadInput(
                f"no recipe is made of {node.call.text}, which is there for measuring only, or is yours already; "
                "choose a stack without it, on disks."
            )
    above = [node for node in chain[:first] if not _is_condition(drivers[node.call.name].info)]
    return base, tuple(reversed(above))


def _check_devices(nodes: Sequence[Node], given: Sequence[Given]) -> None:
    need: dict[str, int] = {}
    for node in nodes:
        if node.call.name == "disk":
            role = str(node.call["role"])
            need[role] = need.get(role, 0) + 1
    have = {role: sum(each.role == role for each in given) for role in {*need, *(each.role for each in given)}}
    problems = []
    for role, count in need.items():
        if have[role] < count:
            times = "" if count == 1 else f", {count} times"
            problems.append(
                f"the stack takes {count} {'disk' if count == 1 else 'disks'} of the role {role} and --map gives "
                f"{have[role]}; Strata names no device by itself: add --map {role}=/dev/disk/by-id/...{times} "
                "(`ls -l /dev/disk/by-id` shows them)."
            )
        elif have[role] > count:
            problems.append(
                f"--map gives {have[role]} disks of the role {role} and the stack takes {count}; give so many."
            )
    problems += [
        f"--map gives a disk of the role {role}, and no disk of the stack has it; the roles are {', '.join(need)}."
        for role in have
        if role not in need
    ]
    if problems:
        raise BadInput([Problem(problem) for problem in problems])


def _laid_out(
    base: Node,
    drivers: Mapping[str, LayerDriver],
    given: Sequence[Given],
    name: str,
    named: str,
    mounted: int | None,
    mount: str,
) -> tuple[Layer, ...]:
    """`mounted`: the number of the layer whose file system is to be at `mount`."""
    free = {role: [each for each in given if each.role == role] for role in {each.role for each in given}}
    layers: list[Layer] = []

    def build(node: Node) -> Provides:
        below = tuple(build(lower) for lower in node.inputs)
        driver = drivers[node.call.name]
        instead = {name: each.value for name, each in _changed(node.call, driver).items()}
        node = replace(node, call=replace(node.call, values={**node.call.values, **instead}))
        if _is_condition(driver.info):
            return below[0]
        number = len(layers)
        place = Place(
            name=f"{name}-{number}",
            dir=f"{STATE}/{name}/{number}",
            uuid=str(uuid.uuid5(_FAMILY, f"{named}\0{number}")),
            mount=mount if number == mounted else None,
            stays=True,
        )
        if Kind.GRANT in driver.info.accepts:
            device = free[str(node.call["role"])].pop(0)
            below = (Provides(Kind.GRANT, device.path, None, ours=False),)
        if wrong := driver.arity_reasons(node.call, len(below)):
            raise BadInput([Problem(reason) for reason in wrong])
        provides = driver.provides(node.call, below, place)
        if Kind.GRANT in driver.info.accepts:
            provides = replace(provides, size_bytes=device.size_bytes)
        layers.append(Layer(node, driver, place, below, provides))
        return provides

    build(base)
    return tuple(layers)
