"""A lab machine that stays, reached by ssh as any other machine of a user's: what a killed run left is seen on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import emulator, image, machine
from strata.lab.qemu import SSH_USER, MachineSpec
from strata.lab.spec import LabSpec
from strata.model import Command, Completed, Disk

_MARKER = "kept-machine"

# What ssh is on the PATH of the command line: the user's own, with a configuration that knows the machine.
_SSH = '#!/bin/sh\nexec {ssh} -F {config} "$@"\n'
_CONFIG = """\
Host lab
  HostName {host}
  Port {port}
  User {user}
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  HostKeyAlias strata-lab
"""


@dataclass(frozen=True, slots=True)
class KeptMachine:
    """`strata --on ssh:lab` reaches it with `environment`."""

    environment: dict[str, str]
    host: ServedHost

    def run(self, script: str, *words: str, timeout_s: float = 600.0) -> Completed:
        return self.host.run(Command(("sh", "-c", script, "sh", *words), timeout_s=timeout_s))


@contextmanager
def kept_machine(spec: LabSpec, directory: Path, disks: dict[str, int]) -> Iterator[KeptMachine]:
    """`disks`: bytes by name; each is found as /dev/disk/by-id/virtio-NAME. Raises Refused where no such lab is."""
    found = image.find(spec, caches.default())
    accel = emulator.accelerator("real", found, _MARKER)
    state = machine.saved(MachineSpec(found, Path(engine_path()), accel=accel), _MARKER, lambda line: None)
    running = machine.resume(state, _MARKER, directory)
    try:
        host = ServedHost(running.channel, _MARKER, running.engine)
        for name, size in disks.items():
            for command in running.add_disk(Disk(name, size), name, None).prepare:
                host.run(command)
        server, programs = running.server, directory / "bin"
        assert server.identity is not None
        config = directory / "ssh_config"
        config.write_text(
            _CONFIG.format(
                host=server.destination.rpartition("@")[2],
                port=server.port,
                user=SSH_USER,
                key=server.identity.key,
                known_hosts=server.identity.known_hosts,
            )
        )
        programs.mkdir()
        (programs / "ssh").write_text(_SSH.format(ssh=shutil.which("ssh"), config=config))
        (programs / "ssh").chmod(0o755)
        yield KeptMachine({**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, host)
    finally:
        running.close()
