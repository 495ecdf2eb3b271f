"""For every test."""

from __future__ import annotations

import os
import signal

# As the command does it (strata/cli/__init__.py): before numpy is loaded. A second thread that waits for the first one
# spins meanwhile, on a processor that other tests want.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure() -> None:
    # A shell's background job ignores ^C, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
