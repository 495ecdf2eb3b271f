"""mmdebstrap: makes a Debian root, as root or as an ordinary user in a user namespace, and hands over a tar."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import Refused
from strata.hosts.base import Host
from strata.lab import private
from strata.lab.sources import Mirror
from strata.lab.squashfs import ALWAYS_THE_SAME
from strata.model import Command

_TIMEOUT_S = 3600.0

# How often, and with which pause, what a killed build left is removed until it stays away.
_TRIES = 30
_PAUSE_S = 1.0

_PREFIX = "strata-lab-"
_NOTE = "unpacked-in"

# What a package brings that no machine reads; trim.sh removes the rest.
_LEFT_OUT = ("doc/*", "info/*", "locale/*", "man/*", "lintian/*", "bug/*", "bash-completion/*")


@dataclass(frozen=True, slots=True)
class Rights:
    """How this user can make a root that holds files of others."""

    root: bool
    parent: Path  # mmdebstrap unpacks into a fresh folder below it
    note: Path  # a file that names the fresh folder while it is there, so that a later build can remove it

    @property
    def mode(self) -> str:
        return "root" if self.root else "unshare"


def rights(building: Path) -> Rights:
    """This user's, for what is built in the folder `building`."""
    note = building / _NOTE
    if os.geteuid() == 0:
        return Rights(True, building, note)
    # The namespace's users must reach it, and a home is often closed to them.
    return Rights(False, Path(tempfile.gettempdir()).resolve(), note)


def check(rights: Rights, host: Host) -> None:
    """Raises Refused where an ordinary user has no user namespaces, or others could change what is unpacked."""
    if rights.root:
        return
    reason = private.reason_against(rights.parent / _PREFIX)
    if reason is not None:
        raise Refused(
            f"a lab is unpacked below {rights.parent}, and {reason}; name another folder with TMPDIR, one of your own "
            "that every user may pass through (mode 0711)."
        )
    tried = host.run(Command(("mmdebstrap", "--unshare-helper", "true")), check=False)
    if tried.exit_code:
        said = (tried.stderr.strip() or tried.stdout.strip()).splitlines()
        raise Refused(
            "an ordinary user makes a Debian root in a user namespace, and here there is none"
            + (f" ({said[-1]})" if said else "")
            + "; install uidmap and give yourself a range in /etc/subuid and /etc/subgid (usermod --add-subuids "
            "100000-165535 --add-subgids 100000-165535 NAME), or do all that concerns the lab as root."
        )


def _fresh(rights: Rights) -> Path:
    """A new folder to unpack into, with a name that nobody can guess and that was not there."""
    scratch = rights.parent / f"{_PREFIX}{secrets.token_hex(16)}"
    rights.note.write_text(str(scratch))
    scratch.mkdir(mode=0o700)
    # Only whoever knows the names in it can pass through, which the users of the namespace must.
    scratch.chmod(0o711)
    return scratch


def clear(rights: Rights, host: Host) -> None:
    """Removes what a build that was killed left unpacked. Raises CommandFailed."""
    try:
        scratch = Path(rights.note.read_text())
    except FileNotFoundError:
        return
    ours = Command(("rm", "-rf", "--one-file-system", "--", str(scratch)), timeout_s=_TIMEOUT_S)
    # What belongs to the namespace's users is theirs to remove; the rest is ours.
    inside = ("mmdebstrap", "--unshare-helper", "find", str(scratch), "-xdev", "-mindepth", "2", "-delete")
    theirs = Command(inside, timeout_s=_TIMEOUT_S)
    # Processes in a namespace are not ours to see and end: they follow those outside, a moment later.
    for last in (False,) * _TRIES + (True,):
        if not _is_ours(scratch):
            break
        if not rights.root:
            host.run(theirs, check=False)
        if host.run(ours, check=last).exit_code:
            time.sleep(_PAUSE_S)
    rights.note.unlink()


def _is_ours(scratch: Path) -> bool:
    """Whether it is there and this user made it: since a build was killed somebody may have taken its name."""
    try:
        status = scratch.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@dataclass(frozen=True, slots=True)
class Hook:
    """What mmdebstrap does while it makes a root: a shell text that gets the root as $1, or one of its own words."""

    when: str  # "setup": before the first package; "essential": after those every Debian has; "customize": at the end
    do: str


@dataclass(frozen=True, slots=True)
class Site:
    """Where one lab is being built."""

    host: Host
    mirror: Mirror
    rights: Rights
    scratch: Path  # gone when the lab is whole
    progress: Callable[[str], None]


def make(
    site: Site,
    suite: str,
    packages: Sequence[str],
    hooks: Sequence[Hook],
    tar: Path | None,
    more_suites: Sequence[str] = (),
) -> None:
    """Installs `packages` and what they depend on. `tar` None: only the hooks' work is wanted. Raises CommandFailed."""
    rights, mirror = site.rights, site.mirror
    scratch = _fresh(rights)
    argv = [
        *(f"--mode={rights.mode}", "--variant=minbase", "--quiet", "--architectures=amd64"),
        f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        "--skip=cleanup/apt",  # trim.sh does it; what is left here has another owner for root than for others
        # Nobody asks for the root after a power failure; syncing every file takes most of the time.
        *("--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude=/usr/share/{path}" for path in _LEFT_OUT)),
        *(f"--aptopt={line}" for line in mirror.options),
        *(f"--{hook.when}-hook={hook.do}" for hook in hooks),
        *(("--format=null", suite, "-") if tar is None else ("--format=tar", suite, str(tar))),
        *(mirror.line(name) for name in (suite, *more_suites)),
    ]
    # Its mounts are in a namespace of their own: they end with it, however it ends.
    alone = ("unshare", "--mount", "--propagation", "private", "--") if rights.root else ()
    # A kernel that comes with its headers makes no initramfs: nobody starts it.
    settings = (f"TMPDIR={scratch}", *ALWAYS_THE_SAME, "DEBIAN_FRONTEND=noninteractive", "INITRD=No")
    command = (*alone, "env", *settings, "mmdebstrap", *argv)
    try:
        site.host.run(Command(command, timeout_s=_TIMEOUT_S))
    finally:
        clear(rights, site.host)
