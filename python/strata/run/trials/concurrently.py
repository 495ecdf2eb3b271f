"""What is done at the same time, each by a machine of its own, which takes one command at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping


def run_concurrently(work: Mapping[str, Callable[[], None]]) -> None:
    """Each of `work` in a thread of its name. Raises what the first of them raised when all have ended.

    A single one is carried out by the calling thread, which signals reach.
    """
    if len(work) == 1:
        (only,) = work.values()
        only()
        return
    raised: list[BaseException] = []

    def carry_out(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as error:  # noqa: BLE001 - raised below; of a mistake nobody else would hear
            raised.append(error)

    threads = [threading.Thread(target=carry_out, args=(each,), name=name) for name, each in work.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
