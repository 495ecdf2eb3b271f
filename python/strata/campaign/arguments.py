"""Arguments: text to values by the parameters a layer or workload declares, and back to canonical text.

A bare word is a flag's name, else a value of a positional parameter: of the first CHOICE that has it among its
choices, else of the first one not yet given that can read it. Arguments with a name are settled before bare ones,
so the order of writing does not matter between the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from strata.campaign.source import At, Problems, did_you_mean
from strata.campaign.tree import quote
from strata.model import Param, ParamType, Value
from strata.text import listed
from strata.units import format_percent, format_size, format_time, parse_percent, parse_size, parse_time

_ON = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_UNITS: dict[ParamType, tuple[Callable[[str], Value], Callable[[Any], str]]] = {
    ParamType.SIZE: (parse_size, format_size),
    ParamType.TIME: (parse_time, format_time),
    ParamType.PERCENT: (parse_percent, format_percent),
}
_INT = re.compile(r"[+-]?[0-9]{1,18}")
_FLOAT = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Given:
    """One argument as written, alternatives settled."""

    name: str | None  # None: bare
    text: str
    quoted: bool
    at: At  # of the whole argument
    value_at: At


@dataclass(frozen=True, slots=True)
class Resolved:
    values: Mapping[str, Value | None]  # every parameter, defaults in
    text: str  # "(raid10, chunk=512K)", or "" when all is default


def parse_value(param: Param, text: str) -> Value:
    """`text` as a value of `param`. Raises ValueError with a sentence; limits are left to `check_limits`."""
    if param.type in _UNITS:
        return _UNITS[param.type][0](text)
    match param.type:
        case ParamType.FLAG if text.lower() in _ON:
            return _ON[text.lower()]
        case ParamType.FLAG:
            raise ValueError(f"'{text}' is neither on nor off; write {param.name} or {param.name}=off")
        case ParamType.CHOICE if text not in param.choices:
            hint = did_you_mean(text, param.choices)
            raise ValueError(f"'{text}' is no {param.name}{hint}; choose from {listed(param.choices)}")
        case ParamType.INT:
            if not _INT.fullmatch(text):
                raise ValueError(f"'{text}' is not a whole number; write {param.name} as in {param.name}=4")
            return int(text)
        case ParamType.FLOAT:
            if not _FLOAT.fullmatch(text) or math.isinf(float(text)):
                raise ValueError(f"'{text}' is not a number; write {param.name} as in {param.name}=0.5")
            return float(text)
    return text


def format_value(param: Param, value: Value) -> str:
    """The one text of a value, without quotation marks; `parse_value` reads it back to the same value."""
    if param.type in _UNITS:
        return _UNITS[param.type][1](value)
    if param.type is ParamType.FLAG:
        return "on" if value else "off"
    if param.type is ParamType.FLOAT:
        return format(Decimal(repr(float(value))), "f").removesuffix(".0")
    return str(value)


def check_limits(param: Param, value: Value) -> None:
    """Raises ValueError with a sentence when a number is outside what the parameter allows."""
    if isinstance(value, (str, bool)):
        return
    for limit, outside, word in (
        (param.minimum, param.minimum is not None and value < param.minimum, "least"),
        (param.maximum, param.maximum is not None and value > param.maximum, "most"),
    ):
        if outside and limit is not None:
            shown, edge = format_value(param, value), format_value(param, _like(value, limit))
            raise ValueError(f"{param.name} cannot be {shown}; the {word} is {edge}")


def _like(value: Value, limit: float) -> Value:
    return int(limit) if isinstance(value, int) else limit


def _reads(param: Param, text: str) -> bool:
    try:
        parse_value(param, text)
    except ValueError:
        return False
    return True


def _positional_for(params: Sequence[Param], text: str, filled: Iterable[str]) -> Param | None:
    taken = set(filled)
    free = [param for param in params if param.positional and param.name not in taken]
    for param in free:
        if param.type is ParamType.CHOICE and text in param.choices:
            return param
    return next((p for p in free if p.type is not ParamType.CHOICE and _reads(p, text)), None)


def param_of(params: Sequence[Param], name: str | None, text: str, quoted: bool) -> Param | None:
    """The parameter that an argument on its own would be for; names the factor that its alternatives make."""
    if name is not None:
        return next((p for p in params if p.name == name), None)
    if not quoted:
        for param in params:
            if param.type is ParamType.FLAG and param.name == text:
                return param
    return _positional_for(params, text, ())


def usage(param: Param) -> str:
    """How one parameter is written: "noatime", "chunk=SIZE", "cache=none|writeback"."""
    if param.type is ParamType.FLAG:
        return param.name
    if param.type is ParamType.CHOICE:
        return "|".join(param.choices) if param.positional else f"{param.name}={'|'.join(param.choices)}"
    kind = "NUMBER" if param.type in (ParamType.INT, ParamType.FLOAT) else param.type.value.upper()
    return f"{param.name}={kind}"


def _takes(owner: str, params: Sequence[Param]) -> str:
    return f"{owner} takes {listed(map(usage, params))}" if params else f"{owner} takes no arguments"


def resolve(owner: str, params: Sequence[Param], given: Sequence[Given], at: At, problems: Problems) -> Resolved | None:
    """Values and canonical text of the arguments of `owner`, which stands at `at`; None when there was a problem."""
    values = _Binder(owner, params, problems).bind_all(given, at)
    if values is None:
        return None
    return Resolved({p.name: values.get(p.name, p.default) for p in params}, text_of(params, values))


@dataclass(slots=True)
class _Binder:
    owner: str
    params: Sequence[Param]
    problems: Problems
    values: dict[str, Value] = field(default_factory=dict)
    good: bool = True

    def bind_all(self, given: Sequence[Given], at: At) -> dict[str, Value] | None:
        by_name = {param.name: param for param in self.params}
        bare: list[Given] = []
        for arg in given:
            if arg.name is not None:
                if arg.name in by_name:
                    self.bind(by_name[arg.name], arg, arg.text)
                else:
                    hint = did_you_mean(arg.name, by_name)
                    takes = _takes(self.owner, self.params)
                    self.fail(arg.at, f"{self.owner} has no argument '{arg.name}'{hint}; {takes}")
            elif not arg.quoted and arg.text in by_name and by_name[arg.text].type is ParamType.FLAG:
                self.bind(by_name[arg.text], arg, "on")
            else:
                bare.append(arg)
        lost = False  # a bare argument was refused: it may well be the required one
        for arg in bare:
            param = _positional_for(self.params, arg.text, self.values) or _positional_for(self.params, arg.text, ())
            if param is not None:
                self.bind(param, arg, arg.text)
            else:
                self.fail(arg.at, _no_such_bare(self.owner, self.params, arg, self.values))
                lost = True
        for param in self.params:
            if param.required and param.name not in self.values and not (lost and param.positional):
                how = f"{self.owner}({_example(param)})"
                self.fail(at, f"{self.owner} needs {param.name} ({param.about}); write {how}")
        return self.values if self.good else None

    def bind(self, param: Param, arg: Given, text: str) -> None:
        if param.name in self.values:
            self.fail(arg.at, f"{self.owner} got {param.name} twice; keep one of them")
            return
        self.values[param.name] = ""  # given, even if badly: it is not also missing
        try:
            self.values[param.name] = parse_value(param, text)
            check_limits(param, self.values[param.name])
        except ValueError as error:
            self.fail(arg.value_at, str(error))

    def fail(self, at: At, message: str) -> None:
        self.problems.add(at, message)
        self.good = False


def _example(param: Param) -> str:
    if not param.positional:
        return usage(param)
    return usage(param) if param.type is ParamType.CHOICE else param.name.upper()


def _no_such_bare(owner: str, params: Sequence[Param], arg: Given, filled: Iterable[str]) -> str:
    named = next((p for p in params if p.name == arg.text), None)
    if named is not None and named.type is ParamType.FLAG:
        return f"{named.name} is a flag; write it without quotation marks"
    if named is not None:
        return f"{named.name} needs a value; write {named.name}={usage(named).partition('=')[2] or usage(named)}"
    taken = set(filled)
    free = [p for p in params if p.positional and p.name not in taken]
    words = [p.name for p in params] + [choice for p in params if p.positional for choice in p.choices]
    hint = did_you_mean(arg.text, words)
    if len(free) == 1 and free[0].type is not ParamType.CHOICE and not hint:
        try:
            parse_value(free[0], arg.text)
        except ValueError as error:
            return str(error)
    return f"{owner} has no argument '{arg.text}'{hint}; {_takes(owner, params)}"


def text_of(params: Sequence[Param], values: Mapping[str, Value | None]) -> str:
    """Canonical arguments. A positional one is bare only if reading it back would give it to the same parameter."""
    written = [p for p in params if p.name in values and values[p.name] != p.default]
    flags = {p.name for p in params if p.type is ParamType.FLAG}
    texts = {p.name: format_value(p, value) for p in written if (value := values[p.name]) is not None}
    bare = [p for p in written if p.positional and p.type is not ParamType.FLAG]
    while (strayed := _strayed(params, flags, texts, bare)) is not None:
        bare.remove(strayed)
    parts = []
    for param in written:
        if param.type is ParamType.FLAG and values[param.name]:
            parts.append(param.name)
        elif param in bare:
            parts.append(quote(texts[param.name]))
        else:
            parts.append(f"{param.name}={quote(texts[param.name])}")
    return f"({', '.join(parts)})" if parts else ""


def _strayed(params: Sequence[Param], flags: set[str], texts: Mapping[str, str], bare: Sequence[Param]) -> Param | None:
    filled = {name for name in texts if all(p.name != name for p in bare)}
    for param in bare:
        text = texts[param.name]
        if text in flags or _positional_for(params, text, filled) is not param:
            return param
        filled.add(param.name)
    return None
