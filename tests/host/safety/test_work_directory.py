"""Where a run builds belongs to whoever runs it: on another machine its name is known to everybody there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strata import campaign, layers
from strata.errors import Refused
from strata.hosts.local import LocalHost
from strata.run.sites.site import LastingSites

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def planted(path: Path, elsewhere: Path) -> None:
    path.mkdir()
    os.chown(path, 4242, 4242)


def linked(path: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    path.symlink_to(elsewhere)


def filed(path: Path, elsewhere: Path) -> None:
    path.touch()


@pytest.mark.parametrize("plant", [planted, linked, filed])
def test_one_that_somebody_else_made_is_refused(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    work = tmp_path / "strata-5f8e1c3a"
    (stack,) = campaign.parse_stacks("disk | ext4", layers.catalogue())
    plant(work, tmp_path / "elsewhere")
    sites = LastingSites(LocalHost("test-work"), "5f8e1c3a", str(work))
    with pytest.raises(Refused, match="is not a directory of this user's own"), sites.site(stack, [], 1, 1):
        pass


def test_one_of_ones_own_is_made_and_used_again(tmp_path: Path) -> None:
    (stack,) = campaign.parse_stacks("disk | ext4", layers.catalogue())
    sites = LastingSites(LocalHost("test-work"), "5f8e1c3a", str(tmp_path / "work" / "below"))
    for attempt in (1, 2):
        with sites.site(stack, [], attempt, 1) as site:
            assert Path(site.work_dir).is_dir()
