from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import BadInput
from strata.lab.spec import FEATURES, LabSpec


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"debian": 11}, "there is no lab of Debian 11; give 12 or 13"),
        ({"kernel": "6.12.1"}, "'6.12.1' is not a kernel"),
        ({"kernel": "newest"}, "'newest' is not a kernel"),
        (
            {"features": frozenset({"zsf"})},
            "no feature 'zsf'; the features are containers, install, postgres, qemu, zfs",
        ),
    ],
)
def test_what_no_lab_can_be_is_refused_with_what_it_can(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        LabSpec(**wrong)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        LabSpec(3, "x", frozenset({"a", "b"}))
    assert len(caught.value.problems) == 4


def test_the_key_is_of_everything_that_goes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = LabSpec()
    others = [LabSpec(12), LabSpec(kernel="6.1"), *(LabSpec(features=frozenset({feature})) for feature in FEATURES)]
    assert len({spec.key, *(other.key for other in others)}) == 2 + len(others) - 1
    assert spec.key == replace(spec).key
    before = spec.key
    monkeypatch.setattr("strata.lab.spec.MODULES", ("fs/xfs/",))
    assert spec.key != before
    monkeypatch.undo()
    monkeypatch.setattr("strata.lab.spec.script", lambda name: "another script")
    assert spec.key != before


def test_the_order_of_features_changes_nothing() -> None:
    assert LabSpec(features=frozenset(["zfs", "qemu"])).key == LabSpec(features=frozenset(["qemu", "zfs"])).key


def test_vdo_is_in_debian_13_alone() -> None:
    assert "vdo" in LabSpec(13).packages
    assert "vdo" not in LabSpec(12).packages


def test_the_command_builds_the_same_lab() -> None:
    assert LabSpec(12, "6.12", frozenset({"zfs", "qemu"})).command == (
        "strata lab build --debian 12 --with qemu,zfs --kernel 6.12"
    )
