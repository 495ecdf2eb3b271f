"""The files of a trial: those that it is given, and those that it leaves.

For a trial in a container, commands inside the container write and read them; root never does so from outside. With
podman(user=...) the files belong to a user who is not trusted and could put a link in place of any of them.
"""

from __future__ import annotations

from strata.errors import VisitFailed
from strata.hosts.base import Host
from strata.model import Command
from strata.planning.trial_steps import write_commands

_MISSING = 66
_READ = f'if [ ! -e "$1" ]; then exit {_MISSING}; fi; exec cat -- "$1"'
_READ_S = 60.0


def write(host: Host, inside: tuple[str, ...], path: str, content: str) -> None:
    """Raises VisitFailed."""
    if not inside:
        host.write(path, content)
        return
    for command in write_commands(inside, path, content):
        host.run(command)


def read(host: Host, inside: tuple[str, ...], path: str) -> str | None:
    """The content; None when there is no such file. Raises VisitFailed."""
    if not inside:
        return host.read(path)
    done = host.run(Command((*inside, "sh", "-c", _READ, "sh", path), _READ_S), check=False)
    if done.exit_code == _MISSING:
        return None
    if done.exit_code != 0:
        raise VisitFailed(f"cannot read {path}: {done.stderr.strip() or f'exit code {done.exit_code}'}")
    return done.stdout
