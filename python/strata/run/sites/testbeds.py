"""The sites of a testbed: this machine, one reached by ssh, or the lab."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from strata.campaign import Campaign
from strata.hosts import ssh
from strata.hosts.base import Interruption
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.model import Testbed
from strata.run.progress import Listener, Noted
from strata.run.safety import clean as cleaning
from strata.run.safety.clean import Cleaned
from strata.run.signals import Interrupts
from strata.run.sites import in_lab
from strata.run.sites.parallel import Worker
from strata.run.sites.site import LastingSites, Sites
from strata.store.writer import Store

# Of a run on another machine: its own directory there, named by the run.
_REMOTE_WORK = "/var/tmp/strata-{}"
_REMOTE_ENGINES = ".cache/strata"
_ENGINE = "strata-engine"  # the runner there has its own folder in PATH


@contextmanager
def sites(
    campaign: Campaign,
    directory: Path,
    uuid: str,
    interruption: Interruption | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Sites]:
    """Where the visits of a run are carried out. `uuid`: of the run, or a word while one is only looked at.

    Raises Refused (no lab, no such machine), HostLost.
    """
    testbed = campaign.testbed
    if testbed.kind == "lab":
        lab = in_lab.opened(campaign, _work(directory), uuid, interruption, progress)
        if testbed.clock == "virtual":
            in_lab.check_models(campaign, lab.models)
        yield lab
        return
    with _lasting(testbed, directory, uuid, interruption, progress) as lasting:
        yield lasting


@contextmanager
def workers(
    campaign: Campaign,
    directory: Path,
    uuid: str,
    jobs: int,
    interrupts: Interrupts,
    progress: Callable[[str], None],
) -> Iterator[list[Worker]]:
    """What carries out that many visits in parallel. Raises as `sites`."""
    with ExitStack() as stack:
        each = [interrupts] if jobs == 1 else [interrupts.beside() for _ in range(jobs)]
        yield [Worker(stack.enter_context(sites(campaign, directory, uuid, own, progress)), own) for own in each]


def clean(store: Store, interrupts: Interrupts, listener: Listener) -> Cleaned:
    """Remove whatever visits of the run left, on the testbed that its store names.

    It waits for the visits of other runs: to restore a setting during one would change what that one measures, and its
    own removal would then restore the value of this run. Only the wait can be interrupted.

    Raises UndoFailed, HostLost, Refused (no lock), Interrupted.
    """
    identity = store.identity()
    testbed = str(identity.description.get("testbed", "local"))
    if testbed.startswith("lab"):
        with interrupts.held():
            return in_lab.throw_away(store, _work(store.directory), identity.uuid, listener)
    named = re.fullmatch(r"ssh:(.+)", testbed)
    where = Testbed("ssh", named[1]) if named else Testbed()
    with (
        _lasting(where, store.directory, identity.uuid, interrupts, lambda text: listener(Noted(text))) as lasting,
        lasting.alone(),
        interrupts.held(),
    ):
        return cleaning.clean(store, lasting.host, identity.uuid, listener)


def _work(directory: Path) -> Path:
    return directory.resolve() / "work"  # what the kernel says of mounts is resolved too


@contextmanager
def _lasting(
    testbed: Testbed,
    directory: Path,
    uuid: str,
    interruption: Interruption | None,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[LastingSites]:
    name = f"the run in {directory.resolve()}, started on {platform.node()}"
    if testbed.kind == "ssh":
        assert testbed.host is not None
        # Another mark than that of the commands: HOST may be this very machine.
        channel = ssh.connect(ssh.Server(testbed.host), Path(engine_path()), _REMOTE_ENGINES, f"{uuid}-ssh")
        with closing(channel):
            host = ServedHost(channel, uuid, _ENGINE, interruption)
            yield LastingSites(host, uuid, _REMOTE_WORK.format(uuid[:8]), name=name, say=progress)
        return
    look = partial(in_lab.look_at_guests, uuid, interruption, progress)
    own = partial(in_lab.look_at_own_guests, uuid)
    work = str(_work(directory))
    local = LocalHost(uuid, interruption)
    yield LastingSites(local, uuid, work, look_at_guests=look, look_at_own=own, name=name, say=progress)
