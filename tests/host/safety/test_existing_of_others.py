"""`existing(PATH)` in a directory in which another user can put something else in the place of the fresh directory."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

STRATA = Path(".venv/bin/strata").absolute()
NOBODY = 65534

# A workload that writes as any other does, after the owner of the directory did his part as himself.
SCRIPT = """\
#!/bin/sh
setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '
  fresh=${1%/*}; mv -- "$fresh" "$fresh.away" && mkdir -p -- "$1" && ln -s -- "$2" "$1/file"' sh "$STRATA_TARGET" VICTIM
echo overwritten >"$STRATA_TARGET/file"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Every user can pass through it, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("how", ["his own", "by his link"])
def test_no_other_user_decides_what_root_writes_to(place: Path, how: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's directory is made by root")
    bob, victim, load = place / "bob", place / "victim", place / "load.sh"
    bob.mkdir()
    given = bob
    if how == "by his link":
        (place / "real").mkdir()
        given = bob / "link"
        given.symlink_to(place / "real")
    os.chown(bob, NOBODY, NOBODY)
    victim.write_text("precious")
    load.write_text(SCRIPT.replace("VICTIM", f"'{victim}'"))
    load.chmod(0o755)
    argv = [str(STRATA), "run", f"existing({given})", "-w", f"command:{load}", "--rounds", "1"]
    done = subprocess.run([*argv, "--out", str(place / "run")], capture_output=True, text=True, timeout=110)
    assert victim.read_text() == "precious"
    assert done.returncode != 0 and "another user could put a link in the place" in done.stdout + done.stderr
