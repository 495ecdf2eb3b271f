"""For every test."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

# As the command does it (strata/cli/__init__.py): before numpy is loaded. A second thread that waits for the first one
# spins meanwhile, on a processor that other tests want.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure() -> None:
    # A shell's background job ignores ^C, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The key that signs runs of tests is not that of this machine. Workers of pytest-xdist inherit it.
    if "STATE_DIRECTORY" not in os.environ:
        os.environ["STATE_DIRECTORY"] = tempfile.mkdtemp(prefix="strata-state-")
        atexit.register(shutil.rmtree, os.environ["STATE_DIRECTORY"], ignore_errors=True)
