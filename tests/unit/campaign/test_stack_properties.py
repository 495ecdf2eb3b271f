"""Random stacks and random text: printing then parsing is the identity, and only BadInput comes out."""

from __future__ import annotations

import contextlib
import itertools
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.campaign import canonical, parse_stacks
from strata.errors import BadInput, Problem
from strata.model import Kind, LayerInfo, Node, Param, ParamType, Value

from .catalogue import LAYERS, PRINTABLE

PATIENT = settings(deadline=None)  # how long an example takes says nothing on a busy machine

# ---------------------------------------------------------------- print -> parse

# Two layers that take every type of argument and sit on each other, with all that makes reading bare words hard.
PARAMS = (
    Param("level", ParamType.CHOICE, "", "a", ("a", "b", "c d", "flag"), positional=True),
    Param("flag", ParamType.FLAG, "", False),
    Param("tri", ParamType.FLAG, "", None),
    Param("on", ParamType.FLAG, "", True),
    Param("count", ParamType.INT, "", 3, positional=True),
    Param("depth", ParamType.INT, "", positional=True),
    Param("mode", ParamType.CHOICE, "", None, ("b", "x", "7"), positional=True),
    Param("size", ParamType.SIZE, "", positional=True),
    Param("time", ParamType.TIME, "", 30.0),
    Param("part", ParamType.PERCENT, "", 0.5),
    Param("skew", ParamType.FLOAT, "", 1.0),
    Param("label", ParamType.TEXT, "", "x", positional=True),
    Param("note", ParamType.TEXT, ""),
)
BLOCK = frozenset({Kind.BLOCK})
MADE_UP = {
    "one": LayerInfo("one", "", PARAMS, BLOCK, Kind.BLOCK),
    "pass": LayerInfo("pass", "", PARAMS[:5], BLOCK, None),
    "join": LayerInfo("join", "", PARAMS, BLOCK, Kind.BLOCK, many=True),
    "from": LayerInfo("from", "", PARAMS[-2:], frozenset(), Kind.BLOCK),
}

VALUES: dict[ParamType, st.SearchStrategy[tuple[str, Value]]] = {  # text, and what it must be read as
    ParamType.FLAG: st.sampled_from([("on", True), ("off", False), ("YES", True), ("no", False)]),
    ParamType.SIZE: st.integers(0, 2**40).map(lambda n: (f"{n}K", n * 1024)),
    ParamType.TIME: st.integers(0, 10**6).map(lambda n: (f"{n}ms", n / 1000)),
    ParamType.PERCENT: st.integers(0, 100).map(lambda n: (f"{n}%", n / 100)),
    ParamType.INT: st.integers(-100, 100).map(lambda n: (str(n), n)),
    ParamType.FLOAT: st.floats(allow_nan=False, allow_infinity=False).map(lambda x: (repr(x), x)),
    ParamType.TEXT: st.one_of(
        st.text(PRINTABLE),
        st.sampled_from(["flag", "a", "7", "4K", "", "$f", "a b", "=", '"', "\\", "\\n", "\n", "on"]),
    ).map(lambda t: (t, t)),
}


class Model(NamedTuple):
    """What was meant, apart from the code under test."""

    name: str
    values: dict[str, Value | None]
    inputs: tuple[Model, ...]
    text: str


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def calls(draw: st.DrawFn, name: str) -> tuple[str, dict[str, Value | None]]:
    """Every argument by its name and in quotation marks, in any order: nothing is left to be guessed."""
    params = MADE_UP[name].params
    values = {param.name: param.default for param in params}
    written = []
    for param in draw(st.lists(st.sampled_from(params), unique=True)):
        choices = [(choice, choice) for choice in param.choices]
        text, values[param.name] = draw(st.sampled_from(choices) if choices else VALUES[param.type])
        written.append(f"{param.name}={quoted(text)}")
    return f"{name}({', '.join(written)})", values


@st.composite
def models(draw: st.DrawFn, depth: int = 3) -> Model:
    kind = draw(st.sampled_from(["disk", "from", "one", "pass", "join"])) if depth else "disk"
    if kind == "disk":
        role = draw(st.sampled_from(["disk", "hdd", "ssd", "fast-1"]))
        return Model("disk", {"role": role}, (), role)
    text, values = draw(calls(kind))
    if kind == "from":
        return Model(kind, values, (), text)
    inputs = draw(st.lists(models(depth - 1), min_size=1, max_size=3 if kind == "join" else 1))
    if draw(st.booleans()) and kind == "join":
        inputs = inputs * 2
    return Model(kind, values, tuple(inputs), " + ".join(f"({i.text})" for i in inputs) + f" | {text}")


def check(node: Node, model: Model) -> None:
    assert node.call.name == model.name
    assert dict(node.call.values) == model.values
    assert [type(v) for v in node.call.values.values()] == [type(v) for v in model.values.values()]
    assert len(node.inputs) == len(model.inputs)
    for below, meant in zip(node.inputs, model.inputs, strict=True):
        check(below, meant)


@PATIENT
@given(models())
def test_printing_then_parsing_is_the_identity(model: Model) -> None:
    (stack,) = parse_stacks(model.text, MADE_UP)
    check(stack.top, model)
    assert canonical(stack.top) == stack.text
    assert "\n" not in stack.text or "\\n" not in stack.text
    (again,) = parse_stacks(stack.text, MADE_UP)
    check(again.top, model)
    assert again.text == stack.text
    assert again.top == stack.top


@PATIENT
@given(calls("one"), calls("one"))
def test_two_calls_have_one_text_exactly_when_they_mean_the_same(
    one: tuple[str, dict[str, Value | None]], two: tuple[str, dict[str, Value | None]]
) -> None:
    (first,), (second,) = (parse_stacks(f"disk | {text}", MADE_UP) for text, _ in (one, two))
    assert (first.text == second.text) == (one[1] == two[1])


# ---------------------------------------------------------------- the matrix


class Matrix(NamedTuple):
    """An expression with alternatives, and the expressions without any that it stands for, in order."""

    text: str
    plain: list[str]


def product(template: str, *parts: Matrix) -> Matrix:
    texts = [template.format(*choice) for choice in itertools.product(*(part.plain for part in parts))]
    return Matrix(template.format(*(part.text for part in parts)), texts)


def either(parts: list[Matrix]) -> Matrix:
    return Matrix("{" + ", ".join(part.text for part in parts) + "}", [text for part in parts for text in part.plain])


def fixed(*texts: str) -> st.SearchStrategy[Matrix]:
    return st.sampled_from([Matrix(text, [text]) for text in texts])


def some(strategy: st.SearchStrategy[Matrix]) -> st.SearchStrategy[Matrix]:
    return st.one_of(strategy, st.lists(strategy, min_size=1, max_size=3).map(either))


VALUE = some(some(fixed("1", "2", "3", "4")))
ARG = some(st.one_of(fixed("quick", "quick=off", "9"), VALUE.map(lambda v: product("depth={}", v))))
NAME = some(fixed("odd", "vm", "lvmthin"))
LAYER = st.one_of(
    fixed("scheduler", "vm(cache=writeback)"),
    ARG.map(lambda a: product("odd({})", a)),
    st.tuples(VALUE, VALUE).map(lambda v: product("odd(depth={}, label={})", *v)),
    st.tuples(some(fixed("odd", "odd(8)")), some(fixed("depth=1", "quick"))).map(lambda p: shared(*p)),
)


def shared(names: Matrix, arg: Matrix) -> Matrix:
    """`{odd, odd(8)}(quick)`: the argument is given to every alternative."""
    if not names.text.startswith("{"):
        names = either([names])
    joined = [f"{n[:-1]}, {a})" if n.endswith(")") else f"{n}({a})" for n in names.plain for a in arg.plain]
    return Matrix(f"{names.text}({arg.text})", joined)


PARTS = some(st.one_of(LAYER, st.tuples(LAYER, some(LAYER)).map(lambda p: product("({} | {})", *p))))
ROLE = some(fixed("hdd", "ssd", "2*hdd"))
START = st.one_of(
    ROLE,
    st.tuples(ROLE, ROLE).map(lambda p: product("{} + {}", *p)),
    st.tuples(some(fixed("hdd", "ssd")), PARTS).map(lambda p: product("2*({} | {})", *p)),
)
MATRIX = st.tuples(START, PARTS, PARTS).map(lambda p: product("{} | md | {} | {}", *p))


@PATIENT
@given(MATRIX)
def test_a_matrix_is_the_product_of_its_alternatives_in_written_order(matrix: Matrix) -> None:
    expected = dict.fromkeys(parse_stacks(text, LAYERS)[0].text for text in matrix.plain)
    assert [stack.text for stack in parse_stacks(matrix.text, LAYERS)] == list(expected)


@PATIENT
@given(MATRIX)
def test_levels_tell_the_stacks_of_a_matrix_apart(matrix: Matrix) -> None:
    stacks = parse_stacks(matrix.text, LAYERS)
    levels = {tuple(stack.factors.items()) for stack in stacks}
    assert len(levels) == len(stacks)


CHAIN = st.lists(st.sampled_from(["md", "lvmthin", "scheduler", "snapshot", "degraded"]), max_size=6)


@PATIENT
@given(st.lists(CHAIN, min_size=1, max_size=3), CHAIN)
def test_a_condition_stands_only_where_something_below_can_do_it(inputs: list[list[str]], above: list[str]) -> None:
    """Against a count by hand: what each input offers, then what all that was joined does."""

    def lacking(chain: list[str], offered: set[str]) -> int:
        lost = 0
        for name in chain:
            needs = LAYERS[name].needs
            lost += bool(needs) and needs not in offered
            offered |= LAYERS[name].offers
        return lost

    offered = [set[str]() for _ in inputs]
    lost = sum(lacking(chain, own) for chain, own in zip(inputs, offered, strict=True))
    lost += lacking(above, set().union(*offered, LAYERS["md"].offers))
    text = " + ".join("(" + " | ".join(["disk", *chain]) + ")" for chain in inputs)
    text = " | ".join([text, "md", *above])
    found: tuple[Problem, ...] = ()
    try:
        parse_stacks(text, LAYERS)
    except BadInput as error:
        found = error.problems
    assert len(found) == lost
    assert all("needs a layer below that can" in problem.message for problem in found)


LEVELS = {"f": ["1", "2"], "g": ["3", "4", "5"]}
SLOT = st.one_of(
    st.sampled_from(list(LEVELS)).map(lambda name: ("$" + name, [(name, level) for level in LEVELS[name]])),
    st.lists(st.sampled_from("678"), min_size=1, unique=True).map(
        lambda texts: ("{" + ", ".join(texts) + "}", [("", text) for text in texts])
    ),
)


@PATIENT
@given(st.lists(SLOT, min_size=1, max_size=4))
def test_a_named_factor_takes_the_same_level_in_every_place(slots: list[tuple[str, list[tuple[str, str]]]]) -> None:
    expected: dict[str, None] = {}
    for choice in itertools.product(*(options for _, options in slots)):
        if all(a == b for (f, a), (g, b) in itertools.combinations(choice, 2) if f and f == g):
            expected["disk" + "".join(f" | odd(depth={level})" for _, level in choice)] = None
    text = "disk" + "".join(f" | odd(depth={slot})" for slot, _ in slots)
    stacks = parse_stacks(text, LAYERS, factors=LEVELS)
    assert [stack.text for stack in stacks] == list(expected)
    for stack in stacks:
        for name in LEVELS:
            assert (name in stack.factors) == (f"${name}" in text)


# ---------------------------------------------------------------- any text

WORDS = st.sampled_from(
    [*"|+*,(){}=\"'$\\ \n", *LAYERS, "4", "0", "hdd", "noatime", "raid1", "64K", "cache", "$f", "80%", "é", "\x00"]
)


@PATIENT
@given(st.one_of(st.text(), st.lists(WORDS).map("".join), st.lists(WORDS).map(" ".join)))
@example("{" * 5000)
@example("(" * 5000)
@example("ext4(" * 5000)
@example("disk" + " | scheduler" * 5000)
@example("disk" + " | {scheduler, vm}" * 50)
@example("9" * 5000 + "*hdd")
@example("100*(100*(100*(100*(hdd | md) | md) | md) | md)")
@example("disk | md(chunk=" + "9" * 5000 + "K)")
def test_any_text_is_stacks_or_bad_input(text: str) -> None:
    with contextlib.suppress(BadInput):
        for stack in parse_stacks(text, LAYERS, factors={"f": ["1", "ext4"]}):
            assert [again.text for again in parse_stacks(stack.text, LAYERS)] == [stack.text]


@PATIENT
@given(st.lists(WORDS).map(" ".join))
def test_a_problem_points_into_the_text(text: str) -> None:
    try:
        parse_stacks(text, LAYERS)
    except BadInput as error:
        for problem in error.problems:
            lines = text.split("\n")
            assert problem.line is not None and problem.column is not None and problem.excerpt is not None
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
            assert problem.message
