"""One visit at a time on a measured machine that stays, whoever controls it: from another directory, or by ssh.

Two visits at once would disturb each other's figures, and each would put back the settings that the other had made. The
lock is the kernel's, on a file that only root can open. A process on that machine holds it and ends with what started
it, so a run that was killed or lost its connection keeps nobody waiting. A user who is not root takes no lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strata.errors import HostLost, Refused, VisitFailed
from strata.hosts.base import Host
from strata.hosts.local import MARK
from strata.model import Command, Completed

FOLDER = "/run/strata"  # only root can make something in /run

_WAIT_S = 2  # before it is tried again; a signal is seen in between
_TAKEN = 75
_TIMEOUT_S = 60.0

_IS_HOLDER = """is_holder() { tr '\\0' ' ' 2>/dev/null < "/proc/$1/cmdline" | grep -q '^tail --pid='; }"""

# $1 folder, $2 seconds to wait, $3 who takes it. Prints the process that holds the lock, or who has it. That process is
# not marked as one of the run: the strays of a visit are ended before the visit is undone.
_TAKE = f"""\
[ "$(id -u)" = 0 ] || exit 0
umask 077
# Who claims devices may remove the empty folder in between. `command`: a failed `exec` alone would end this shell.
open_lock() {{ mkdir -p -- "$1" && command exec 9>>"$1/lock"; }}
open_lock "$1" 2>/dev/null || open_lock "$1" || exit 1
flock -E {_TAKEN} -w "$2" 9
case $? in 0) ;; {_TAKEN}) cat -- "$1/holder"; exit {_TAKEN} ;; *) exit 1 ;; esac
printf '%s\\n' "$3" > "$1/holder"
env -u {MARK} setsid tail --pid="$PPID" -f /dev/null </dev/null >/dev/null 2>&1 &
{_IS_HOLDER}
# Until it is that program it is marked as this shell is.
until is_holder "$!"; do kill -0 "$!" && sleep 0.01 || exit 1; done
echo $!
"""

# $1 process. It is gone when this ends: whoever waits may have the lock.
_RELEASE = f"""\
{_IS_HOLDER}
while is_holder "$1"; do kill -KILL "$1"; sleep 0.01; done
"""


@contextmanager
def held(host: Host, name: str, say: Callable[[str], None], folder: str = FOLDER) -> Iterator[None]:
    """Wait until no other run makes a visit on the machine of `host`, and keep them waiting until the block ends.

    `name`: of this run, for those who wait. `say` is told once which run this one waits for. Raises Refused when the
    lock cannot be made, and Interrupted.
    """
    while (done := _take(host, folder, name)).exit_code == _TAKEN:
        other = done.stdout.strip() or "another run"
        say(f"waits for {other}, which makes a visit on this machine now")
        say = _silent
    if done.exit_code != 0:
        raise Refused(
            f"other runs cannot be kept from this machine during a visit: {done.stderr.strip()}. "
            f"Root must be able to write to {folder} there; install coreutils, and the flock of util-linux."
        )
    holder = done.stdout.strip()
    try:
        yield
    finally:
        if holder:
            # It ends by itself when the machine or the connection to it was lost.
            with contextlib.suppress(HostLost, VisitFailed):
                host.run(Command(("sh", "-c", _RELEASE, "sh", holder), timeout_s=_TIMEOUT_S), check=False)


def _take(host: Host, folder: str, name: str) -> Completed:
    argv = ("sh", "-c", _TAKE, "sh", folder, str(_WAIT_S), name)
    return host.run(Command(argv, timeout_s=_TIMEOUT_S), check=False)


def _silent(text: str) -> None:
    pass
