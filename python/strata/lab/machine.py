"""The lab machine: booted once, saved, and resumed afresh for every visit."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from strata.errors import BadInput, HostLost, LabUnavailable, Problem, Refused
from strata.hosts import messages, ports, ssh
from strata.hosts.base import Interruption
from strata.hosts.local import MARK
from strata.hosts.mailbox import Mailbox
from strata.hosts.process import Started
from strata.hosts.qmp import Qmp, QmpError
from strata.hosts.served import Channel, ServedHost
from strata.hosts.ssh import Identity, Server
from strata.hosts.stdio import StdioChannel
from strata.lab import contents, counted, emulator, guests, initramfs, models, qemu
from strata.lab.models import DiskModel
from strata.lab.qemu import MachineSpec, Wires
from strata.model import Command, Disk

# Where the initramfs puts it in the machine.
ENGINE = "/usr/local/bin/strata-engine"

# Generous: emulated on a busy machine. A machine that is gone is seen long before.
_BOOT_S = 600.0
_STATE_S = 300.0
_ANSWER_S = 60.0
_LOOK_S = 0.05
_ENDING_S = 2.0
_LAST_WORDS_S = 4.0
# A state as large as this is possible; seen are 150 to 400 MiB.
_ROOM_BYTES = 2 << 30
# How long the guest spins while QEMU is to stop it: the shorter, the less of it is left when it is resumed.
_SPIN_MS = 30
# A state of the same kind that nobody used for so long is of an older QEMU or Strata.
_STALE_S = 2 * 86400.0

_READY = "strata-lab: ready"
# As the kernel prints them; every oops is a panic in the lab.
_DYING = re.compile(r"^.*(?:Kernel panic|\bBUG: |\bOops: |strata-lab: the runner has ended).*$", re.MULTILINE)
_CONSOLE_LINES = 80  # a panic takes some 50
_PORT_TAKEN = "Could not set up host forwarding rule"
_PORTS_TRIED = 5

# While a call is under way the only CPU thread of a machine on the virtual clock computes without a pause. One that
# had no processor time for so long is hung; a busy machine gives some to everybody.
_STUCK_S = 20.0
_WATCH_GAP_S = 2.0

# New randomness for the kernel's generator, as hexadecimal digits on stdin; then a pause ($1, seconds).
_RESEED = r"""
my $new = pack("H*", <STDIN>);
open(my $random, "+<", "/dev/urandom") or die "/dev/urandom: $!";
ioctl($random, 0x40085203, pack("ii", 8 * length($new), length($new)) . $new) or die "RNDADDENTROPY: $!";
ioctl($random, 0x5207, 0) or die "RNDRESEEDCRNG: $!";
select(undef, undef, undef, $ARGV[0]);
"""
_SEED_BYTES = 64
_REFRESHES = "strata-lab"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SavedState:
    """A machine that was booted, saved, and can be resumed any number of times, also at the same time."""

    spec: MachineSpec
    directory: Path
    key: str  # of all that went in: machines with equal keys are equal
    qemu: str  # its --version
    boot_s: float  # what it took once, wall time
    save_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Added:
    """A disk in the guest: its stable path, and what must be run there before it is used."""

    path: str
    prepare: tuple[Command, ...]


# ---------------------------------------------------------------- saving


def saved(spec: MachineSpec, marker: str, progress: Progress, interruption: Interruption | None = None) -> SavedState:
    """Boots and saves the machine unless it is there already, beside its image.

    Raises LabUnavailable (no QEMU or an old one, too little memory), Refused (too little room),
    HostLost (it did not come up), Interrupted.
    """
    spec = replace(spec, accel="tcg") if spec.clock == "virtual" else spec
    said = emulator.version(marker)
    reasons = qemu.reasons_against(said, spec.emulated)
    reasons += qemu.reasons_against_memory(spec, emulator.available_memory())
    if shutil.which("setpriv") is None:
        reasons.append("setpriv is missing, by which QEMU ends when Strata is killed; install util-linux.")
    if reasons:
        raise LabUnavailable(reasons)
    more = guests.carried(spec.image, spec.engine) if spec.guests else None
    initrd = initramfs.of(spec.image, spec.engine.read_bytes(), more, reached=spec.clock == "real")
    key = qemu.key(spec, said, _cpu_model(), initrd, _sizes(spec))
    states = spec.image.directory / "states"
    states.mkdir(exist_ok=True)
    with _locked(states / f"{key}.lock"):
        directory = states / key
        _drop_changed(directory, spec, progress)
        if not directory.exists():
            part = states / f"{key}.part"
            shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
            if (free := shutil.disk_usage(states).free) < _ROOM_BYTES:
                raise Refused(qemu.no_room(states, free, _ROOM_BYTES))
            part.mkdir()
            try:
                (part / "initrd").write_bytes(initrd)
                progress("booting the lab machine once, to save its state")
                figures = _boot_and_save(spec, said, part, marker, interruption)
                about = {**figures, "kind": qemu.kind(spec), "files": contents.digests(part)}
                (part / "about.json").write_text(json.dumps(about))
                contents.put(part, directory)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            _drop_stale(states, qemu.kind(spec), key)
        about = json.loads((directory / "about.json").read_text())
    return SavedState(spec, directory, key, said, about["boot_s"], about["save_s"], about["size_bytes"])


def _boot_and_save(
    spec: MachineSpec, said: str, directory: Path, marker: str, interruption: Interruption | None
) -> dict[str, float]:
    """A machine booted from nothing, its state in `directory`."""
    scratch = directory / "scratch"
    scratch.mkdir()
    started = time.monotonic()
    machine = Machine(spec, qemu.version(said), scratch, directory / "initrd", marker, None)
    try:
        machine.await_boot(interruption)
        booted = time.monotonic()
        machine.save(directory)
    except HostLost as error:
        if interruption is not None:
            interruption.check()
        raise HostLost(f"the lab machine did not come up: {error}", machine.console()) from error
    finally:
        machine.close()
        shutil.rmtree(scratch)
    done = time.monotonic()
    size = sum(file.stat().st_size for file in directory.iterdir())
    return {"boot_s": booted - started, "save_s": done - booted, "size_bytes": size}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; others wait until it is done."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _drop_changed(directory: Path, spec: MachineSpec, progress: Progress) -> None:
    """Make a state again that is not as it was saved. Read every byte where figures are to be exact."""
    if not directory.exists():
        return
    try:
        recorded = json.loads((directory / "about.json").read_text())["files"]
        damage = contents.difference(directory, recorded, whole=spec.clock == "virtual")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        damage = "about.json cannot be read"
    if damage is not None:
        progress(f"the saved state of the lab machine is not as it was made: {damage}; it is made again")
        shutil.rmtree(directory)


def _drop_stale(states: Path, kind: str, keep: str) -> None:
    for about in states.glob("*/about.json"):
        stale = time.time() - about.stat().st_mtime > _STALE_S
        if about.parent.name != keep and stale and _kind_of(about) in (kind, None):
            shutil.rmtree(about.parent, ignore_errors=True)


def _kind_of(about: Path) -> str | None:
    """Of a saved state; None: it is damaged."""
    try:
        return str(json.loads(about.read_text())["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sizes(spec: MachineSpec) -> tuple[int, int]:
    return spec.image.root.stat().st_size, spec.image.modules.stat().st_size


def _cpu_model() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return "".join(sorted({line for line in text.splitlines() if line.startswith(("model name", "flags"))}))


# ---------------------------------------------------------------- resuming


def resume(saved: SavedState, marker: str, directory: Path, seed: int = 1) -> Machine:
    """A machine that runs, its clock set (real) and its random generator fed again: from `seed` on the virtual clock.

    `directory` exists and is ours: disk files, pipes and the console lie there. Raises HostLost, and
    LabUnavailable (no memory any more).
    """
    reasons = qemu.reasons_against_memory(saved.spec, emulator.available_memory())
    if reasons:
        raise LabUnavailable(reasons)
    if not saved.directory.exists():
        raise HostLost("the saved state of the lab machine was removed meanwhile; start again, which makes it again.")
    version = qemu.version(saved.qemu)
    machine = Machine(saved.spec, version, directory, saved.directory / "initrd", marker, saved.directory)
    try:
        machine.go_on(saved.directory)
        machine.refresh(seed)
    except HostLost as error:
        contents.forget(saved.directory)
        console = machine.console()
        reason = machine.lost() or str(error)
        machine.close()
        raise HostLost(reason, console) from error
    except BaseException:
        machine.close()
        raise
    os.utime(saved.directory / "about.json")
    return machine


class Machine:
    """One QEMU, with all that it has in `directory`. Made by `resume`."""

    engine = ENGINE  # path of strata-engine in the guest

    def __init__(
        self,
        spec: MachineSpec,
        version: tuple[int, int],
        directory: Path,
        initrd: Path,
        marker: str,
        state: Path | None,
    ) -> None:
        """Start QEMU, which is of `version`, and wait for its answer. `state`: the folder of the state that it awaits;
        None: it boots.

        Raises HostLost, and leaves nothing then.
        """
        self.spec = spec
        self._version = version
        self._directory = directory
        self._marker = marker
        self._disks: list[Path] = []
        self._seed = 0
        self._closed = False
        self._last_words = ""
        self._ending: str | None = None  # why it is lost, once that is known
        self._console = directory / "console"
        self._log = directory / "qemu.log"
        self._channel: Channel | None = None
        self._mailbox: Mailbox | None = None
        self._worked = (0, 0.0, 0.0)  # processor time of QEMU in ticks, since when it is that, when last asked
        if spec.clock == "virtual":
            watch = self._lost_in_call
            if state is None:
                self._mailbox = Mailbox.create(directory, watch)
            else:
                self._mailbox = Mailbox.resume(directory, state / "mailbox", watch)
            self._channel = self._mailbox
        sandbox = emulator.sandbox(marker, version)
        for tries_left in reversed(range(_PORTS_TRIED)):
            self._qmp = Qmp()
            self._port = ports.free_port() if spec.clock == "real" else None
            wires = Wires(
                initrd,
                self._console,
                tuple(self._qmp.argv),
                self._port,
                self._mailbox.region if self._mailbox is not None else None,
                self._mailbox.bells if self._mailbox is not None else None,
            )
            # Killed, we can end nothing any more; and while QEMU awaits its state nothing else would.
            line = ["setpriv", "--pdeathsig", "KILL", *qemu.argv(spec, wires, _sizes(spec), incoming=state is not None)]
            self._process = Started([*line, *sandbox], marker=marker, log=self._log, keep=(self._qmp.descriptor,))
            try:
                self._qmp.greet(_ANSWER_S)
                break
            except HostLost as error:
                said = self._process.said()
                self._process.kill()
                self._qmp.close()
                # Somebody took the port since we looked.
                if _PORT_TAKEN not in said or not tries_left:
                    self.close()
                    raise HostLost(f"QEMU did not start: {said.strip() or error}") from error
                self._log.unlink()

    @property
    def channel(self) -> Channel:
        """For a ServedHost; there once the machine runs."""
        assert self._channel is not None
        return self._channel

    @property
    def pid(self) -> int:
        """Of QEMU."""
        return self._process.pid

    @property
    def server(self) -> Server:
        """On the real clock: for a second connection."""
        identity = Identity(self.spec.image.key_file, self._directory / "known_hosts")
        return Server(f"{qemu.SSH_USER}@127.0.0.1", self._port, identity)

    # ------------------------------------------------ its life

    def await_boot(self, interruption: Interruption | None) -> None:
        """Raises HostLost when it does not come up, also because of a signal."""
        wake = None if interruption is None else interruption.descriptor()
        if self._mailbox is not None:
            self._mailbox.receive(_ANSWER_S, wake)  # the runner's hello
            return
        give_up = time.monotonic() + _BOOT_S
        while _READY not in self.console():
            reason = self.lost()
            if reason is None and time.monotonic() > give_up:
                reason = f"it was not ready after {_BOOT_S:.0f} s"
            if reason is not None:
                raise HostLost(reason)
            if select.select([] if wake is None else [wake], [], [], _LOOK_S)[0]:
                raise HostLost("it was given up because of a signal")

    def save(self, directory: Path) -> None:
        """Stops it for good and leaves all that `go_on` needs in `directory`."""
        stop = self._qmp.begin("stop")
        if self._mailbox is not None:
            # The blocked guest holds QEMU's lock. While it computes QEMU gets hold of it.
            self._mailbox.send(messages.spin(_SPIN_MS))
        self._qmp.finish(stop, _ANSWER_S)
        if self._mailbox is not None:
            if self._mailbox.answered():
                raise HostLost("QEMU did not stop it while it spun; try again on a less busy machine.")
            self._mailbox.save(directory / "mailbox")
        self._move("migrate", qemu.state_uri(directory / "state", self._version, incoming=False))
        if self.spec.clock == "virtual":
            counted.restart(directory / "state", self._qmp.run("query-replay")["icount"], self.spec.ips_shift)

    def go_on(self, directory: Path) -> None:
        """From what `save` left, until its runner answers."""
        self._move("migrate-incoming", qemu.state_uri(directory / "state", self._version, incoming=True))
        self._qmp.run("cont")
        if self._mailbox is not None:
            self._mailbox.receive(_ANSWER_S)  # the end of the spin
            return
        server = self.server
        (self._directory / "known_hosts").write_text(f"{ssh.HOST_ALIAS} {self.spec.image.host_key}\n")
        # Our engine is there already: nothing need be looked for or copied, as ssh.connect would.
        self._channel = StdioChannel(
            (*ssh.client(server), f"exec {ENGINE} serve --stdio"),
            {**os.environ, "LC_ALL": "C.UTF-8", MARK: self._marker},
            lambda code, said: self._after_the_connection(ssh.explain(server, code, said)),
        )

    def _move(self, command: str, uri: str) -> None:
        """The state out or in. What lies in shared files stays there."""
        self._qmp.run("migrate-set-capabilities", {"capabilities": [{"capability": "x-ignore-shared", "state": True}]})
        self._qmp.run("migrate-set-parameters", {"max-bandwidth": 1 << 40})
        self._qmp.run(command, {"uri": uri})
        give_up = time.monotonic() + _STATE_S
        while (told := self._qmp.run("query-migrate")).get("status") != "completed":
            if told.get("status") == "failed" or time.monotonic() > give_up:
                raise HostLost(f"QEMU could not move its state ({told.get('error-desc', 'it takes for ever')})")
            time.sleep(0.01)

    def refresh(self, seed: int) -> None:
        """Every resume finds the clock and the random generator as they were saved."""
        self._seed = seed
        # Not marked as the run, which is called otherwise in every run: nothing said on the virtual clock may be.
        host = ServedHost(self.channel, _REFRESHES, self.engine)
        if self.spec.clock == "real":
            host.run(Command(("date", "-s", f"@{time.time():.3f}"), timeout_s=_ANSWER_S))
            new, pause_s = os.urandom(_SEED_BYTES), 0.0
        else:
            # The phase of the timers to the load is a part of the model's randomness too: up to 10 ms.
            new = hashlib.sha512(b"strata seed %d" % seed).digest()
            pause_s = int.from_bytes(hashlib.sha256(new).digest()[:4]) / 2**32 / 100
        argv = ("perl", "-e", _RESEED, f"{pause_s:.9f}")
        host.run(Command(argv, timeout_s=_ANSWER_S, stdin=new.hex()))

    # ------------------------------------------------ what it is given

    def add_disk(self, disk: Disk, name: str, model: DiskModel | None) -> Added:
        """A disk that the guest finds at a stable path. `name` (hdd1) is unique in this machine.

        Real clock: a file here, plugged in while the machine runs. Virtual: made by the commands to be run there.
        Raises HostLost, BadInput (the model says nothing for this clock).
        """
        if self.spec.clock == "virtual":
            like = model or models.find(models.usual(disk.role))
            cached = disk.write_cache or like.write_cache
            serial = qemu.serial(name)
            return Added(*models.in_guest(serial, disk.size_bytes, like, cached, self._seed))
        if model is not None and (reasons := models.reasons_against_clock(model, virtual=False)):
            raise BadInput([Problem(reason) for reason in reasons])
        write_cache = disk.write_cache or (model.write_cache if model is not None else "volatile")
        path = self._directory / f"{qemu.serial(name)}.img"
        with path.open("xb") as file:
            file.truncate(disk.size_bytes)
        self._disks.append(path)
        for command, arguments in qemu.hot_plug(name, path, write_cache, model):
            self._qmp.run(command, arguments)
        rotational = model.rotational if model is not None else False
        return Added(qemu.disk_path(name), qemu.await_disk(name, rotational))

    def forward(self, lab_port: int) -> int:
        """A port of 127.0.0.1 here that leads to `lab_port` of the machine. On the real clock. Raises HostLost."""
        said = ""
        for _ in range(_PORTS_TRIED):
            port = ports.free_port()
            rule = f"hostfwd_add net tcp:127.0.0.1:{port}-:{lab_port}"
            said = str(self._qmp.run("human-monitor-command", {"command-line": rule})).strip()
            if not said:
                return port
        raise HostLost(f"QEMU does not forward a port to the lab machine: {said}")

    # ------------------------------------------------ its end

    def lost(self) -> str | None:
        """Why the machine is gone, in a sentence; None while it is there. Costs nothing much."""
        if self._ending is None:
            self._ending = self._why_lost()
        return self._ending

    def _why_lost(self) -> str | None:
        if self._closed:
            return "the lab machine was closed."
        # Asked before the console is read: what it wrote before it ended is there by now.
        ended = not self._process.alive()
        dying = _DYING.search(_text(self._console))
        if dying is not None:
            return f"the lab machine died: {dying[0].strip()}"
        if ended:
            said = self._process.said().strip()
            return "QEMU ended under the lab machine" + (f": {said.splitlines()[-1]}" if said else ".")
        return None

    def _after_the_connection(self, said: str) -> str:
        """Why it is lost. A QEMU that is ending closes its connections a moment before it is gone."""
        self._process.wait(_ENDING_S)
        reason = self.lost()
        if reason is None:
            # It lives and does not answer. Interrupted like this its kernel panics, and writes where it was.
            with contextlib.suppress(HostLost, QmpError):
                self._qmp.run("inject-nmi", timeout_s=_ENDING_S)
                self._process.wait(_LAST_WORDS_S)
            reason = self._ending = f"the lab machine does not answer any more: {said}"
        return reason

    def _lost_in_call(self) -> str | None:
        """As `lost`, asked again and again while a machine on the virtual clock computes."""
        reason = self.lost()
        if reason is not None:
            return reason
        now = time.monotonic()
        ticks, since, asked = self._worked
        used = _ticks(self._process.pid)
        if used != ticks or now - asked > _WATCH_GAP_S:
            since = now
        self._worked = (used, since, now)
        if now - since > _STUCK_S:
            self._ending = f"the lab machine hangs: QEMU had no processor time for {_STUCK_S:.0f} s"
        return self._ending

    def console(self) -> str:
        """The last lines that it wrote; also after it was closed."""
        return self._last_words if self._closed else _tail(self._console)

    def close(self) -> None:
        """Ends QEMU and removes what it had in the directory. May be called again."""
        if self._closed:
            return
        self._last_words = _tail(self._console)
        self._closed = True
        # First of all, and at once: a guest on the virtual clock must not go on when its pipes are closed, and no
        # content of a disk is worth writing out.
        self._process.kill()
        self._qmp.close()
        if self._channel is not None:
            self._channel.close()
        ours = [self._console, self._log, self._directory / "known_hosts", *self._disks]
        if self._mailbox is not None:
            ours += [self._mailbox.region, *self._mailbox.bells]
        for path in ours:
            path.unlink(missing_ok=True)


def _tail(path: Path) -> str:
    return "\n".join(_text(path).splitlines()[-_CONSOLE_LINES:])


def _text(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace").replace("\r", "")
    return ""


def _ticks(pid: int) -> int:
    """Processor time that a process has used, in the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
