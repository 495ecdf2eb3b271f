"""What is looked at before guests are planned: nothing of a lab for those from images of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.errors import HostLost, Refused
from strata.lab import emulator
from strata.model import Testbed
from strata.run import features, in_lab
from strata.run.sites import ONLY_HERE, LastingSites

from .test_plan import FACTS

OWN = "disk | vm(image=/a.qcow2, key=/k)"


def campaign(stacks: str) -> campaigns.Campaign:
    return campaigns.from_expressions(
        [stacks], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=lambda path: ""
    )


@pytest.mark.parametrize(("stacks", "lab"), [(OWN, False), (f"{{{OWN}, disk | vm}}", True), ("disk | vm | ext4", True)])
def test_the_lab_is_for_guests_that_start_from_it(stacks: str, lab: bool) -> None:
    assert features.lab_guests(campaign(stacks)) is lab


@pytest.mark.parametrize("accel", ["kvm", "tcg"])
def test_of_an_image_of_ones_own_only_is_known_how_it_runs(
    accel: Literal["kvm", "tcg"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "bare_accelerator", lambda marker: accel)
    seen = in_lab.look_at_own_guests("uuid", FACTS)
    assert not seen.reasons and seen.image is not None and seen.image.accel == accel and seen.memory_bytes
    assert seen.facts is not None and seen.facts.emulated is (accel == "tcg")
    assert (in_lab.EMULATED in seen.facts.caveats) is (accel == "tcg")


def test_without_qemu_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(marker: str) -> Literal["kvm", "tcg"]:
        raise Refused("there is no QEMU; install it.")

    monkeypatch.setattr(emulator, "bare_accelerator", none)
    assert in_lab.look_at_own_guests("uuid", FACTS).reasons == ("there is no QEMU; install it.",)


def test_where_guests_cannot_be_started_those_of_ones_own_cannot_either() -> None:
    assert LastingSites(FakeHost(), "uuid", "/work").own_guests(FACTS).reasons == (ONLY_HERE,)


def test_a_look_that_fails_is_one_reason_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def gone(self: in_lab.LabSites, variant: str) -> Iterator[None]:
        raise HostLost("the lab machine does not answer any more")
        yield

    monkeypatch.setattr(in_lab.LabSites, "look", gone)
    (reason,) = in_lab.look_at_guests("uuid", None, lambda text: None, (), frozenset()).reasons
    assert reason.startswith("The system that guests start from") and reason.endswith("does not answer any more")
    sites = in_lab.LabSites(Testbed("lab"), frozenset(), {}, Path(), "uuid", None, lambda text: None)
    for guests_bytes in (None, 1 << 30):
        sites.guests_bytes = guests_bytes
        assert len(sites.guests((), frozenset()).reasons) == 1
