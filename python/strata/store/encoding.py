"""How plain data of the model stand in the database."""

from __future__ import annotations

import json
from dataclasses import asdict

from strata.model import Facts

_SETS = ("filesystems", "schedulers", "modules")


def encode_facts(facts: Facts) -> str:
    return json.dumps({**asdict(facts), **{name: sorted(getattr(facts, name)) for name in _SETS}})


def decode_facts(text: str) -> Facts:
    plain = json.loads(text)
    plain["kernel"] = tuple(plain["kernel"])
    plain["caveats"] = tuple(plain.get("caveats", ()))
    # what an older Strata did not ask is empty
    return Facts(**{**plain, **{name: frozenset(plain.get(name, ())) for name in _SETS}})
