"""What is measured at once: loads of all tenants by themselves, those that name their tenant together."""

from __future__ import annotations

import pytest

from strata.model import Call
from strata.planning.measuring_order import rounds_of
from strata.run.visits.visit import Load


def load(text: str) -> Load:
    name, _, tenant = text.partition("@")
    return Call(name, text, {}, tenant=int(tenant) if tenant else None), None, None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("loads", "rounds"),
    [
        (["a", "b"], [["a"], ["b"]]),
        (["a@1", "b@2"], [["a@1", "b@2"]]),
        (["a@1", "b", "c@2"], [["b"], ["a@1", "c@2"]]),
        (["p@1", "o@1", "f@2", "v@3"], [["p@1"], ["o@1", "f@2", "v@3"]]),
        (["a@1", "b@2", "c@1", "d@1"], [["a@1", "b@2"], ["c@1"], ["d@1"]]),
    ],
)
def test_a_tenant_named_again_begins_the_next_round(loads: list[str], rounds: list[list[str]]) -> None:
    found = rounds_of([load(text) for text in loads], tenants=True)
    assert [[call.text for call, _, _ in each] for each in found] == rounds


def test_without_tenants_every_load_is_by_itself() -> None:
    assert len(rounds_of([load("a@1"), load("b@2")], tenants=False)) == 2
