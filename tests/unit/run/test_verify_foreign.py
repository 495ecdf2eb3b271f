"""Verifying a stranger's run carries its campaign out in a machine that is thrown away, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import BadInput, Refused
from strata.run import verify
from strata.run.signals import Interrupts
from strata.store.writer import Store

SOURCE = """\
testbed: {testbed}
stacks: [disk | ext4]
workloads: ['command:evil.sh']
files: {{evil.sh: "#!/bin/sh\\ntouch /marker\\n"}}
"""


def stored(directory: Path, source: str) -> Path:
    Store.create(
        directory,
        name="n",
        about="",
        source=source,
        fingerprint="f",
        description={"testbed": "lab(clock=virtual)"},
        seed=1,
        version="0",
        now=1.0,
    ).close()
    return directory


def verified(directory: Path) -> None:
    """Unit tests start no process, so whatever would run fails here."""
    verify.verify(directory, directory.with_name("again"), 1, Interrupts(), lambda _: None, lambda _: None)


@pytest.mark.parametrize("testbed", ["local", "ssh:stranger", "{lab: {clock: real}}"])
def test_a_campaign_of_a_real_machine_is_refused(tmp_path: Path, testbed: str) -> None:
    with pytest.raises(Refused, match="real clock"):
        verified(stored(tmp_path / "run", SOURCE.format(testbed=testbed)))


@pytest.mark.parametrize("testbed", ["{local: {clock: virtual}}", "{ssh: {host: stranger, clock: virtual}}"])
def test_no_other_machine_has_the_virtual_clock(tmp_path: Path, testbed: str) -> None:
    with pytest.raises(BadInput, match="testbed"):
        verified(stored(tmp_path / "run", SOURCE.format(testbed=testbed)))
