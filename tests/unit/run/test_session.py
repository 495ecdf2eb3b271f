"""What a plan asks a machine before anything is built."""

from __future__ import annotations

from collections.abc import Iterable

from tests.fake_host import FakeHost

from strata import campaign as campaigns
from strata import layers, workloads
from strata.model import Facts
from strata.run import session
from strata.run.sites import LastingSites


class Measured(FakeHost):
    """Remembers of which directory it was asked how much room there is."""

    asked_of = ""

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        self.asked_of = work_dir
        return super().facts(tools, work_dir)


def test_room_is_asked_for_where_the_disk_files_of_the_measured_machine_will_lie() -> None:
    """Over ssh that is another machine than that of --out."""
    host = Measured()
    campaign = campaigns.from_expressions(
        ["disk | ext4"], ["null"], layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )
    session.look(LastingSites(host, "look", "/var/tmp/strata-look"), campaign, session.Devices())
    assert host.asked_of == "/var/tmp/strata-look"
