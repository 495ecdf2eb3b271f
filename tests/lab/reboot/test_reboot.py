"""Recipes after a real restart: systemd, udev and Debian's initramfs bring the stack back, or boot goes on without it.

`python -m tests.lab.reboot FILE [CASE ...]` writes what is observed as JSON, for some of the cases or for all.
"""

from __future__ import annotations

import pytest
from tests.lab.lab_runs import built

from . import boots
from .boots import Observed
from .cases import CASES, made

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(4 * 3600)]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Observed]]:
    machine = boots.machine(built("zfs"), tmp_path_factory.mktemp("machine"))
    return boots.observe(machine, map(made, CASES))


@pytest.mark.parametrize("name", CASES)
def test_the_data_are_there_after_a_restart_with_the_settings_measured(
    observed: dict[str, dict[str, Observed]], name: str
) -> None:
    fresh, restarted = observed["fresh"][name], observed["restarted"][name]
    assert fresh.mounted and fresh.data and fresh.differences == ()
    assert restarted == Observed(mounted=True, data=True, daemon=True)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.spare is not None])
def test_the_data_are_there_without_a_disk_that_can_be_spared(
    observed: dict[str, dict[str, Observed]], name: str
) -> None:
    seen = observed["spare disk missing"][name]
    if CASES[name].by_hand:
        assert not seen.mounted and not seen.daemon and seen.below == () and seen.by_hand
    else:
        assert seen.mounted and seen.data and seen.daemon


@pytest.mark.parametrize("name", CASES)
def test_boot_goes_on_without_a_disk_that_is_needed_and_nothing_is_written(
    observed: dict[str, dict[str, Observed]], name: str
) -> None:
    seen = observed["needed disk missing"][name]
    assert not seen.mounted and not seen.daemon and seen.below == ()
