"""The guard of the unit tests itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"], check=True),
        lambda: subprocess.check_output("true", shell=True),
        lambda: os.system("true"),
        lambda: os.popen("true"),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.spawnlp(os.P_WAIT, "true", "true"),
        lambda: os.execvp("true", ["true"]),
        lambda: os.fork(),  # noqa: PLW0108  the guard replaces it later
    ],
)
def test_a_unit_test_cannot_start_a_process(start: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="started a process"):
        start()
