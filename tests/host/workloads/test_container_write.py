"""What `container/write` runs in a container writes what it says, by the shell of this machine and by busybox."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from strata.workloads.container_write import SMALL

pytestmark = pytest.mark.host


@pytest.mark.parametrize("shell", [("sh",), ("busybox", "sh")], ids=["dash", "busybox"])
def test_small_files_have_4_kib_that_neither_compress_nor_repeat(shell: tuple[str, ...], tmp_path: Path) -> None:
    for program in (shell[0], "/usr/bin/split"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: scripts/os-packages.sh test installs it")
    script = SMALL.replace("/small", f"{tmp_path}/small")
    subprocess.run([*shell, "-c", script, "sh", "50"], check=True)
    files = [path.read_bytes() for path in (tmp_path / "small").iterdir()]
    assert [len(each) for each in files] == [4096] * 50
    assert len(set(files)) == 50
    assert len(zlib.compress(b"".join(files), 9)) > 0.98 * 50 * 4096
