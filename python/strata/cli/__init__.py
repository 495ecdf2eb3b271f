"""One module per command: parse, call, print. No logic, and no heavy import before a command needs it."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The `strata` command. Every error on purpose becomes its message and its exit code."""
    from strata.cli import start

    start.prepare()
    # Before numpy is loaded: on matrices of our size a second thread waits more than it works.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from strata.cli import output
    from strata.cli.app import app
    from strata.errors import StrataError

    output.guard_standard_error()
    try:
        app(standalone_mode=True)
    except StrataError as error:
        output.err(f"strata: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # `strata verdict | head`: nobody reads on, which is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        what = error.filename or "a file or the standard output"
        output.err(f"strata: cannot use {what}: {error.strerror}; check the path and who may write there.")
        sys.exit(2)
