"""A machine reached by OpenSSH's own client, so that the user's configuration, agent and jump hosts serve as ever.

One connection does everything: a shell line there looks whether it has our strata-engine, takes it from us if not, and
becomes the runner. Nothing else is needed on the machine than a POSIX shell and coreutils.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from strata.hosts.local import MARK
from strata.hosts.stdio import StdioChannel

_CONNECT_S = 15

# Without quotes of its kind, exclamation marks and line ends: the login shell there need not be a Bourne shell.
_BOOTSTRAP = "; ".join(
    (
        's="$(uname -s) $(uname -m)"',
        '[ "$s" = "Linux x86_64" ] || { echo "strata: this is $s" >&2; exit 3; }',
        "case $1 in /*) b=$1 ;; *) b=$HOME/$1 ;; esac",
        "d=$b/engine-$2",
        "e=$d/strata-engine",
        'same() { [ -f "$1" ] && echo "$2  $1" | sha256sum -c --status; }',
        'no() { echo "strata: cannot write to $d" >&2; exit 4; }',
        'put() { mkdir -p "$d" && echo "strata: engine" && head -c "$4" >"$e.$$" && same "$e.$$" "$3"; }',
        'same "$e" "$3" || { put "$@" && chmod 755 "$e.$$" && mv -f "$e.$$" "$e"; } || { rm -f "$e.$$"; no; }',
        'exec "$e" serve --stdio',
    )
)
_WANTED = b"strata: engine"


@dataclass(frozen=True, slots=True)
class Identity:
    """A key and a host key made for one machine; nothing of the user's own ssh configuration is read then."""

    key: Path
    known_hosts: Path  # its lines name the host HOST_ALIAS, whatever port it listens on


HOST_ALIAS = "strata-lab"


@dataclass(frozen=True, slots=True)
class Server:
    destination: str  # HOST or USER@HOST as ssh takes it, also an alias from the user's configuration
    port: int | None = None
    identity: Identity | None = None

    @property
    def shown(self) -> str:
        return self.destination if self.port is None else f"{self.destination} (port {self.port})"


def connect(server: Server, engine: Path, directory: str, marker: str) -> StdioChannel:
    """A runner on `server`, from the file `engine` here, which is copied there first when it is missing or another.

    `directory` there is absolute or relative to the home directory (`~/` may be written); the engine lies in a folder
    with its hash in its name, below it. The ssh client here carries `marker`, which must be another than the marker of
    the commands when the server may be this very machine: ending their strays would end the client.
    Raises HostLost with what to do when the machine cannot be reached or used.
    """
    content = engine.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    words = ("sh", "-c", _BOOTSTRAP, "sh", directory.removeprefix("~/"), digest[:16], digest, str(len(content)))
    return StdioChannel(
        (*client(server), shlex.join(words)),
        {**os.environ, "LC_ALL": "C.UTF-8", MARK: marker},
        lambda code, said: explain(server, code, said),
        {_WANTED: content},
    )


def client(server: Server) -> list[str]:
    """The ssh command up to the destination; what to run there may follow."""
    return [*options(server), "--", server.destination]


def options(server: Server) -> list[str]:
    """The ssh command up to where the destination would stand."""
    argv = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}"]
    # Whatever the user set for this host, we neither forward anything nor become the master of his other sessions.
    # ClearAllForwardings leaves the agent, X11 and tunnels as they are.
    argv += ["-a", "-x", "-o", "ClearAllForwardings=yes", "-o", "Tunnel=no", "-o", "ControlMaster=no"]
    argv += ["-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"]
    # Nor is a key accepted that he did not accept himself, though his configuration may say `no` or `accept-new`.
    argv += ["-o", "StrictHostKeyChecking=yes", "-o", "UpdateHostKeys=no", "-o", "VerifyHostKeyDNS=no"]
    argv += ["-o", "NoHostAuthenticationForLocalhost=no", "-o", "KnownHostsCommand=none"]
    if server.identity is not None:
        argv += ["-F", "none", "-o", "IdentitiesOnly=yes", "-o", f"IdentityFile={_path(server.identity.key)}"]
        argv += ["-o", "IdentityAgent=none", "-o", f"HostKeyAlias={HOST_ALIAS}"]
        argv += ["-o", f"UserKnownHostsFile={_path(server.identity.known_hosts)}", "-o", "GlobalKnownHostsFile=none"]
    if server.port is not None:
        argv += ["-p", str(server.port)]
    return argv


def _path(path: Path) -> str:
    """As a value in ssh's configuration: in quotes, without its %-words."""
    return '"' + str(path).replace("%", "%%") + '"'


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What ssh or the shell there says (lower case; any of `signs`), what that means, and what to do."""

    signs: tuple[str, ...]
    what: str
    then: str


# The first whose sign is found decides.
_MEANINGS = (
    _Meaning(
        ("is marked as revoked", "revoked host key"),
        "the host key of {shown} is marked as revoked in the known_hosts of this user",
        "ask whoever runs the machine for its present key; whoever holds the revoked one can pose as it.",
    ),
    _Meaning(
        ("remote host identification has changed",),
        "{shown} shows another host key than the one known for it",
        "if it was installed again, remove the old key with `ssh-keygen -R {host}` and log in once by hand with "
        "`ssh {destination}`; if it was not, somebody may stand between.",
    ),
    _Meaning(
        ("host key verification failed",),
        "the host key of {shown} is not known here",
        "log in once by hand with `ssh {destination}` and compare it.",
    ),
    _Meaning(
        ("permission denied (", "too many authentication failures"),
        "{shown} refuses our key",
        "make `ssh -o BatchMode=yes {destination} true` work first (ssh-agent, or IdentityFile in ~/.ssh/config).",
    ),
    _Meaning(
        ("no space left on device", "disk quota exceeded"),
        "{shown} has no room for strata-engine",
        "make some there, or give another directory.",
    ),
    _Meaning(
        ("strata: this is",),
        "{shown} is not Linux on x86-64, which strata-engine is built for",
        "give another machine.",
    ),
    _Meaning(
        ("strata: cannot write",),
        "strata-engine cannot be copied to {shown}",
        "see that its directory there can be written to, or give another.",
    ),
    _Meaning(
        ("strata-engine: permission denied",),
        "strata-engine may not be executed on {shown}",
        "give a directory on a file system that is not mounted noexec.",
    ),
    _Meaning(
        (
            "could not resolve",
            "connection refused",
            "connection timed out",
            "operation timed out",
            "no route to host",
            "network is unreachable",
            "kex_exchange_identification",
            "connection closed by",
            "connection reset by",
        ),
        "{shown} cannot be reached",
        "see that it is up and that `ssh {destination}` works.",
    ),
)
# Of a machine that we started ourselves there is nothing that the user could mend by ssh.
_OURS = "Strata started that machine itself: try again when this one has less to do."
_LOST = _Meaning((), "the connection to {shown} is lost", "see that the machine is up and start again.")


def explain(server: Server, code: int | None, said: str) -> str:
    """The end of a connection in a sentence, with what ssh said. `code`: of the ssh client, None when we ended it."""
    heard = said.lower()
    meaning = next((known for known in _MEANINGS if any(sign in heard for sign in known.signs)), _LOST)
    # ssh draws a frame around its warning of a changed key.
    lines = [line.strip("@ \t") for line in said.splitlines()]
    why = " | ".join(line for line in lines if line) or f"ssh ended with exit code {code} and said nothing"
    words = {"shown": server.shown, "destination": server.destination, "host": server.destination.rpartition("@")[2]}
    then = meaning.then.format(**words) if server.identity is None else _OURS
    return f"{meaning.what.format(**words)} ({why}); {then}"
