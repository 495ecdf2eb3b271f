"""A guest whose QEMU ends while it boots is seen at once, by a QEMU that only pretends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from strata import campaign as campaigns
from strata import layers
from strata.errors import CommandFailed
from strata.hosts.local import LocalHost
from strata.model import GuestImage, Kind, Place, Provides

pytestmark = [pytest.mark.host, pytest.mark.timeout(120)]

# As QEMU does: the process number is in its file before it goes to the background, and the file goes with it.
PANICS = """\
#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -pidfile) pid=$2 ;; -serial) console=${2#file:} ;; esac
  shift
done
(sleep 0.3; echo 'Kernel panic - not syncing: out of luck' > "$console"; rm "$pid") > /dev/null 2>&1 &
echo $! > "$pid"
"""


def test_a_guest_that_ends_while_it_boots_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(PANICS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    (stack,) = campaigns.parse_stacks("disk | vm", layers.catalogue())
    place = Place("strata-test-1-1", str(tmp_path), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90", GuestImage(str(tmp_path)))
    below = Provides(Kind.BLOCK, "/nowhere", 1 << 30)
    start, ready = layers.drivers()["vm"].plan_create(stack.top.call, [below], place)
    host = LocalHost("test-guest-ends")
    try:
        host.run(start.do)
        began = time.monotonic()
        with pytest.raises(CommandFailed, match="out of luck"):
            host.run(ready.do)
        assert time.monotonic() - began < 60
    finally:
        assert start.undo is not None
        host.run(start.undo)
        host.end_strays("test-guest-ends")
