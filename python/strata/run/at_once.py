"""What is done at the same time by several machines: each takes one command at a time, and has a channel of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from strata.errors import StrataError


def at_once(work: Mapping[str, Callable[[], None]]) -> None:
    """Each of `work` in a thread of its name. Raises what the first of them raised when all have ended.

    One alone is carried out by who asks, whom a signal reaches.
    """
    if len(work) == 1:
        (only,) = work.values()
        only()
        return
    raised: list[StrataError] = []

    def carry_out(each: Callable[[], None]) -> None:
        try:
            each()
        except StrataError as error:
            raised.append(error)

    threads = [threading.Thread(target=carry_out, args=(each,), name=name) for name, each in work.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
