"""How plain data of the model stand in the database."""

from __future__ import annotations

import json
from dataclasses import asdict

from strata.model import Facts, Testbed

_SETS = ("filesystems", "schedulers", "modules", "cgroups", "id_maps", "without")


def encode_facts(facts: Facts) -> str:
    return json.dumps({**asdict(facts), **{name: sorted(getattr(facts, name)) for name in _SETS}})


def decode_facts(text: str) -> Facts:
    plain = json.loads(text)
    plain["kernel"] = tuple(plain["kernel"])
    plain["caveats"] = tuple(plain.get("caveats", ()))
    # what an older Strata did not ask is empty
    return Facts(**{**plain, **{name: frozenset(plain.get(name, ())) for name in _SETS}})


def encode_testbed(testbed: Testbed) -> str:
    return json.dumps({**asdict(testbed), "features": sorted(testbed.features)})


def decode_testbed(text: str) -> Testbed:
    plain = json.loads(text)
    return Testbed(**{**plain, "features": frozenset(plain.get("features", ()))})
