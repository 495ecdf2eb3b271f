"""How plain data of the model stand in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

from strata.errors import StoreError
from strata.model import Facts, Testbed

_SETS = ("filesystems", "schedulers", "modules", "cgroups", "id_maps", "without")

T = TypeVar("T")


class BadRow(StoreError):
    """A value that Strata does not write. Names the row and the value, but not the run."""


def encode_facts(facts: Facts) -> str:
    return json.dumps({**asdict(facts), **{name: sorted(getattr(facts, name)) for name in _SETS}})


def decode_facts(text: str) -> Facts:
    """Raises BadRow."""
    # what an older Strata did not ask is empty
    return _checked(Facts, {**dict.fromkeys(_SETS, ()), **decode_object(text)})


def encode_testbed(testbed: Testbed) -> str:
    return json.dumps({**asdict(testbed), "features": sorted(testbed.features)})


def decode_testbed(text: str) -> Testbed:
    """Raises BadRow."""
    return _checked(Testbed, decode_object(text))


def decode_object(text: str) -> dict[str, Any]:
    """A JSON object, all of whose numbers are finite and fit in 64 bits. Raises BadRow."""
    from pydantic_core import from_json

    try:
        plain = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise _refusal("an object", text, str(error)) from error
    if not isinstance(plain, dict):
        raise _refusal("an object", text, "it is no JSON object")
    if any(not -(2**63) <= number < 2**63 for number in _numbers(plain)):
        raise _refusal("an object", text, "a number in it needs more than 64 bits")
    return plain


def _numbers(plain: object) -> Iterator[int | float]:
    if isinstance(plain, int | float):
        yield plain
    elif isinstance(plain, Mapping):
        for value in plain.values():
            yield from _numbers(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _numbers(value)


def _checked(kind: Callable[..., T], plain: Mapping[str, Any]) -> T:
    from pydantic import ValidationError

    try:
        checked: T = _adapter(kind).validate_python(plain)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise _refusal(kind.__name__.lower(), f"{where}: {problem.get('input')!r}", problem["msg"]) from error
    return checked


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _refusal(what: str, value: str, why: str) -> BadRow:
    return BadRow(
        f"this run holds {what} that Strata does not write: {value[:60]!a} ({ascii(why)[1:-1]}); restore the run "
        "from a copy, or run the campaign again."
    )
