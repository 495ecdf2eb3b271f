"""What `container/write` runs in a container writes what it says, by the shell of this machine and by busybox."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from strata.workloads.container_write import SMALL

pytestmark = pytest.mark.host


@pytest.mark.parametrize("shell", [("sh",), ("busybox", "sh")], ids=["dash", "busybox"])
def test_small_files_have_4_kib(shell: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed: scripts/os-packages.sh test installs it")
    script = SMALL.replace("/small", f"{tmp_path}/small")
    subprocess.run([*shell, "-c", script, "sh", "5"], check=True)
    assert sorted(path.stat().st_size for path in (tmp_path / "small").iterdir()) == [4096] * 5
