"""Visits in the lab: every one in a machine of its own, resumed from one saved state and thrown away afterwards."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from strata import layers
from strata.campaign import Campaign
from strata.errors import BadInput, CommandFailed, GuestLost, HostLost, LabUnavailable, Refused, VisitFailed
from strata.hosts.base import Host, Interruption
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.lab import alike, bounds, emulator, guests, image, machine, models, qemu
from strata.lab import cache as caches
from strata.lab.machine import Machine, SavedState
from strata.lab.models import DiskModel
from strata.lab.qemu import MachineSpec
from strata.lab.scratch import scratch
from strata.lab.spec import LabSpec
from strata.model import Beside, Command, Disk, Facts, GuestImage, Hungry, Stack, Testbed
from strata.planning import guest_places, lab_features, layout, skip_reasons
from strata.planning.resources import GuestResources
from strata.run.progress import Listener, Noted
from strata.run.safety.clean import Cleaned
from strata.run.sites.site import Site
from strata.store.writer import Store

# In a fresh machine nothing stands yet, and on the virtual clock even the length of a name would change the figures:
# so every visit has the same names.
_UUID = "5f8e1c3a7b0d4e629a1f6c2d8b4e7a90"
_ATTEMPT = 1
_WORK = "/run/strata-work"

# The layers by which a stack says what carries it.
_FACTORS = {"kernel": "version", "debian": "release"}  # by layer, the argument that says which
# Of the lab machine, where the disks of guests beside it are exported: the first, and one more for each further guest.
_FIRST_EXPORT = 10809

# What QEMU takes beside the memory of the lab machine. Seen of one at work: 150 to 290 MiB.
_OVERHEAD_BYTES = 320 << 20

EMULATED = (
    "Measured in an emulated machine (QEMU without KVM): what works and what fails is so, and the figures are "
    "functional, not performance."
)
EXACT = (
    "Measured in virtual time on modelled disks: exact for this model (lab, disks, seed, a processor of {} million "
    "instructions a second), and not a measurement of any real machine."
)
NOT_QUITE = (
    "Measured in virtual time on modelled disks (lab, disks, seed, {cpus} processors of {mips} million instructions a "
    "second each), and not a measurement of any real machine."
)
SEVERAL = (
    "The machine has more than one processor, of which QEMU keeps no order that a busy computer cannot disturb: most "
    "repeats are bit-identical, and some are not (2 % has been seen). With cpus: 1, the usual, all are."
)
BESIDE = (
    "Guests ran beside the lab machine and reached their disks in it by NBD through a forwarded port: what a request "
    "takes has the time of that way in it."
)
TWICE = "Guests ran within the emulated lab machine, which has no KVM for them: they were emulated twice."
BY_INSTRUCTIONS = (
    "The virtual clock counts the instructions of one machine, and a guest is another, which would go in real time; "
    "put qsd in the place of vm, which serves the image to the same machine, or take --clock real."
)


@dataclass(slots=True)
class LabSites:
    """`work`: a directory on this machine that is ours, for disk files and sockets. `uuid`: of the run."""

    testbed: Testbed
    features: frozenset[str]
    models: Mapping[str, DiskModel]  # by role
    work: Path
    uuid: str
    interruption: Interruption | None
    progress: Callable[[str], None]
    guests_bytes: int | None = None  # what guests within the machine take of its memory; None: none run there
    disposable: bool = True
    work_dir: str = _WORK
    _saved: dict[str, SavedState] = field(default_factory=dict)  # by variant
    _cost_us: float | None = None  # of a request, where `strata-engine disk` serves; seen by `look`

    def variant(self, stack: Stack) -> str:
        """ "13" or "13/6.12": the release and the kernel, of which a stack may name its own.

        Raises BadInput when it names two.
        """
        factors = [node.call for node in stack.top.walk() if node.call.name in _FACTORS]
        for name, argument in _FACTORS.items():
            named = sorted({f"{name}({call[argument]})" for call in factors if call.name == name})
            if len(named) > 1:
                raise BadInput(f"{stack.text}: one machine carries it, and it names {' and '.join(named)}; keep one.")
        said = {call.name: str(call[_FACTORS[call.name]]) for call in factors}
        return self._variant(said.get("debian"), said.get("kernel"))

    def _variant(self, debian: str | None = None, kernel: str | None = None) -> str:
        debian, kernel = debian or str(self.testbed.debian), kernel or self.testbed.kernel
        return f"{debian}/{kernel}" if kernel else debian

    @contextmanager
    def look(self, variant: str) -> Iterator[Host]:
        with scratch("look") as directory, self._machine(variant, directory, 0) as both:
            if self.testbed.clock == "virtual" and self._served():
                said = both[1].run(Command(("cat", models.COST_FILE))).stdout.strip()
                self._cost_us = int(said) / 1000 if said.isdecimal() else None
            yield both[1]

    def _served(self) -> bool:
        """Whether `strata-engine disk` serves any of the disks."""
        return any(models.reasons_against_null_blk(model) for model in self.models.values())

    def describe(self, facts: Facts) -> Facts:
        """Raises LabUnavailable when the machine cannot have disks of these models."""
        state = next(iter(self._saved.values()))
        virtual = self.testbed.clock == "virtual"
        if virtual and (reasons := self._reasons_against_kernel(facts)):
            raise LabUnavailable(reasons)
        modelled = tuple(
            text
            for role, model in self.models.items()
            for text in models.caveats(role, model, virtual, self.testbed.mips, self._cost_us)
        )
        if virtual:
            caveats = (*_clock_caveats(self.testbed), *modelled)
            return replace(facts, free_bytes=self.testbed.memory_bytes, caveats=caveats, emulated=True)
        held = next(path for path in (self.work, *self.work.parents) if path.exists())
        emulated = (EMULATED,) if state.spec.accel == "tcg" else ()
        room = shutil.disk_usage(held).free
        return replace(facts, free_bytes=room, caveats=emulated + modelled, emulated=bool(emulated))

    def _reasons_against_kernel(self, facts: Facts) -> list[str]:
        return [
            reason
            for model in self.models.values()
            for reason in models.reasons_against_kernel(model, facts.kernel_text, facts.modules)
        ]

    def versions(self) -> Mapping[str, str]:
        """Equal machines give equal figures on the virtual clock: their keys say which machines these were."""
        found: dict[str, str] = {}
        for variant, state in sorted(self._saved.items()):
            found |= {
                f"lab {variant}": state.spec.image.hash,
                f"lab {variant} machine": state.key,
                "qemu": state.qemu.partition("\n")[0],
            }
        if self.testbed.clock == "virtual":
            found |= {f"lab disk {role}": model.digest for role, model in sorted(self.models.items())}
        return found

    @contextmanager
    def site(self, stack: Stack, disks: Sequence[Disk], attempt: int, seed: int) -> Iterator[Site]:
        taken = _taken(stack, disks)
        if self.testbed.clock == "virtual" and (reasons := models.reasons_against(taken, self.testbed.memory_bytes)):
            raise LabUnavailable(reasons)
        directory = self.work / str(attempt)
        directory.mkdir(mode=0o700, parents=True)
        guest_number = layout.guest_count(stack, layers.drivers())
        try:
            with self._machine(self.variant(stack), directory, seed) as (running, host):
                usable = []
                for number, disk in enumerate(taken):
                    added = running.add_disk(disk, f"{disk.role}{number}", self.models.get(disk.role))
                    try:
                        for command in added.prepare:
                            host.run(command)
                    except CommandFailed as error:
                        raise VisitFailed(f"a disk of the role {disk.role} could not be made: {error}") from error
                    usable.append(replace(disk, device=added.path))
                host.run(Command(("mkdir", "--parents", "--", _WORK)))
                reaches = [
                    Beside(str(directory / f"guest{number}"), running.forward(lab_port), lab_port)
                    for number, lab_port in enumerate(range(_FIRST_EXPORT, _FIRST_EXPORT + guest_number), start=1)
                ]
                here = LocalHost(self.uuid, self.interruption) if reaches else None
                served = self.served_disks(usable)
                yield Site(host, tuple(usable), _WORK, _UUID, _ATTEMPT, here, tuple(reaches), served, random_rates)
        finally:
            # Guests carry the mark of the run, as the lab machine does, which is gone by now.
            if guest_number:
                LocalHost(self.uuid).end_strays(self.uuid)
            shutil.rmtree(directory, ignore_errors=True)

    def served_disks(self, disks: Sequence[Disk]) -> dict[str, bounds.ServedDisk]:
        """On the virtual clock the modelled disks, by their device nodes; on the real clock none is served."""
        if self.testbed.clock != "virtual":
            return {}
        return {
            disk.device: bounds.ServedDisk(
                disk.device.rpartition("/")[2].removeprefix("disk-"),
                replace(model, write_cache=disk.write_cache or model.write_cache),
                disk.size_bytes,
            )
            for disk in disks
            if disk.device and (model := self.models.get(disk.role)) is not None
        }

    def guests(self, tools: Iterable[str], features: frozenset[str]) -> GuestResources:
        if self.testbed.clock == "virtual":
            return GuestResources((BY_INSTRUCTIONS,))
        taken = self.testbed.memory_bytes + _OVERHEAD_BYTES
        if self.guests_bytes is not None:
            return replace(self._within(tools), taken_bytes=taken, ports=True)
        seen = look_at_guests(self.uuid, self.interruption, self.progress, tools, features)
        if seen.facts is None:
            return seen
        facts = replace(seen.facts, caveats=(*seen.facts.caveats, BESIDE))
        return replace(seen, facts=facts, taken_bytes=taken, ports=True)

    def own_guests(self, facts: Facts) -> GuestResources:
        return GuestResources()  # the layer itself says that there are none in a lab

    def _within(self, tools: Iterable[str]) -> GuestResources:
        variant = self._variant()
        try:
            with self.look(variant) as host:
                facts = self.describe(host.facts(tools, _WORK))
                kvm = host.run(Command(("test", "-e", "/sys/class/misc/kvm")), check=False).exit_code == 0
        except Refused as refused:
            return GuestResources(refused.reasons)
        except HostLost as lost:
            return GuestResources((_unseen(lost),))
        if facts.emulated and not kvm:
            facts = replace(facts, caveats=(*facts.caveats, TWICE))
        spec = self.machine_of(variant)
        image = guests.within(spec.image, spec.engine, "kvm" if kvm else "tcg")
        return GuestResources((), image, facts, emulator.available_memory())

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.monotonic()

    @contextmanager
    def _machine(self, variant: str, directory: Path, seed: int) -> Iterator[tuple[Machine, Host]]:
        running = machine.resume(self._state(variant), self.uuid, directory, seed)
        try:
            yield running, ServedHost(running.channel, _UUID, running.engine, self.interruption)
        except GuestLost as error:
            # The guest beside it, unless what held its disk is gone.
            if (reason := running.lost()) is None:
                raise
            raise HostLost(reason, running.console()) from error
        except HostLost as error:
            raise HostLost(running.lost() or str(error), running.console()) from error
        finally:
            running.close()

    def image_of(self, variant: str) -> image.Image:
        """Raises Refused when it is not built."""
        debian, _, kernel = variant.partition("/")
        return image.find(LabSpec(int(debian), kernel or None, self.features), caches.default())

    def machine_of(self, variant: str) -> MachineSpec:
        return self._state(variant).spec

    def _state(self, variant: str) -> SavedState:
        if variant not in self._saved:
            found = self.image_of(variant)
            if self.testbed.clock == "virtual":
                image.check(found)
            for other in self._saved.values():
                if reason := alike.reason_against_both(found, other.spec.image):
                    raise LabUnavailable(reason)
            clock = self.testbed.clock
            self._saved[variant] = machine.saved(
                MachineSpec(
                    found,
                    Path(engine_path()),
                    clock=clock,
                    cpus=self.testbed.cpus,
                    mips=self.testbed.mips,
                    memory_bytes=self.testbed.memory_bytes + (self.guests_bytes or 0),
                    accel=emulator.accelerator(clock, found, self.uuid),
                    guests=self.guests_bytes is not None,
                ),
                self.uuid,
                self.progress,
                self.interruption,
            )
        return self._saved[variant]


def opened(
    campaign: Campaign, work: Path, uuid: str, interruption: Interruption | None, progress: Callable[[str], None]
) -> LabSites:
    """Raises BadInput for a disk model that is none, LabUnavailable for disks that this lab cannot have."""
    virtual = campaign.testbed.clock == "virtual"
    chosen = {
        role: replace(model, write_cache=spec.write_cache or model.write_cache)
        for role, spec in campaign.disks.items()
        if spec.model is not None or virtual
        for model in (models.find(spec.model or models.usual(role), spec.model_text),)
    }
    reasons = [reason for model in chosen.values() for reason in models.reasons_against_clock(model, virtual)]
    if virtual:
        if all(_needs_another_machine(stack) for stack in campaign.stacks):
            raise LabUnavailable(BY_INSTRUCTIONS)
        each = [(_disks(campaign, stack), _kept_bytes(stack)) for stack in campaign.stacks]
        disks, kept = max(each, key=lambda pair: models.memory_bytes(*pair))
        reasons += models.reasons_against(disks, campaign.testbed.memory_bytes, kept)
    if reasons:
        raise LabUnavailable(reasons)
    return LabSites(
        testbed=campaign.testbed,
        features=lab_features.of_machine(campaign),
        models=chosen,
        work=work,
        uuid=uuid,
        interruption=interruption,
        progress=progress,
        guests_bytes=_guests_bytes(campaign) if guest_places.within(campaign) else None,
    )


def _clock_caveats(testbed: Testbed) -> tuple[str, ...]:
    if testbed.cpus == 1:
        return (EXACT.format(testbed.mips),)
    return (NOT_QUITE.format(cpus=testbed.cpus, mips=testbed.mips), SEVERAL)


def check_models(campaign: Campaign, chosen: Mapping[str, DiskModel]) -> None:
    """By the engine, which knows what has to hold for several values of a model together, and for the disk's size.

    Raises LabUnavailable with every problem.
    """
    host, reasons = LocalHost("disk-models"), []
    for role, model in chosen.items():
        argv = (host.engine, "disk", "check", "--model=-", f"--size={campaign.disks[role].size_bytes}")
        said = host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(model.document))).stdout
        reasons += [f"the disk model {model.name}, for {role}: {line}." for line in said.splitlines()]
    if reasons:
        raise LabUnavailable(reasons)


def random_rates(disk: bounds.ServedDisk, span_bytes: int) -> bounds.Rates:
    """What a model can do under random I/O on so many bytes of a disk. The engine computes for some seconds."""
    document = json.dumps(disk.model.document, sort_keys=True)
    return _random_rates(document, disk.size_bytes, min(span_bytes, disk.size_bytes))


@cache
def _random_rates(document: str, size_bytes: int, span_bytes: int) -> bounds.Rates:
    host = LocalHost("disk-models")
    argv = (host.engine, "disk", "bounds", "--model=-", f"--size={size_bytes}", f"--span={span_bytes}")
    return bounds.parse_rates(host.run(Command(argv, timeout_s=600.0, stdin=document)).stdout)


def _kept_bytes(stack: Stack) -> int:
    """What its layers keep in memory."""
    drivers = layers.drivers()
    calls = [(node.call, drivers[node.call.name]) for node in stack.top.walk()]
    return sum(driver.memory_bytes(call) for call, driver in calls if isinstance(driver, Hungry))


def _needs_another_machine(stack: Stack) -> bool:
    return any(node.call.name in ("vm", "vagrant") for node in stack.top.walk())


def unbuilt(campaign: Campaign) -> list[str]:
    """Of the labs that its stacks need: those that are not there, each with the command to type."""
    sites = opened(campaign, Path(), "", None, lambda _: None)
    reasons: list[str] = []
    for variant in dict.fromkeys(sites.variant(stack) for stack in campaign.stacks):
        try:
            sites.image_of(variant)
        except Refused as refused:
            reasons += refused.reasons
    return reasons


def fitted(campaign: Campaign, marker: str) -> Campaign:
    """`campaign` with the place of its guests in the text of its stacks. Raises BadInput."""
    return guest_places.fitted(campaign, nested=_nests(campaign, marker))


def _nests(campaign: Campaign, marker: str) -> bool:
    """Whether guests within the lab machine of `campaign` would have KVM, as the machine itself has."""
    if campaign.testbed.kind != "lab" or not emulator.nests():
        return False
    wanted = lab_features.of_machine(campaign) | lab_features.of_guests(campaign)
    try:
        found = image.find(LabSpec(campaign.testbed.debian, campaign.testbed.kernel, wanted), caches.default())
        return emulator.accelerator(campaign.testbed.clock, found, marker) == "kvm"
    except Refused:  # what is missing is said when the lab is opened
        return False


def _guests_bytes(campaign: Campaign) -> int:
    """Of the hungriest stack."""
    drivers = layers.drivers()
    return max(skip_reasons.guests_bytes(layout.guest_calls(stack, drivers)) for stack in campaign.stacks)


def look_at_guests(
    uuid: str,
    interruption: Interruption | None,
    progress: Callable[[str], None],
    tools: Iterable[str],
    features: frozenset[str],
) -> GuestResources:
    """Of guests on this machine, whose system is the lab's: so a machine of the lab says what they are."""
    sites = LabSites(Testbed("lab"), features, {}, Path(), uuid, interruption, progress)
    variant = str(sites.testbed.debian)
    try:
        with sites.look(variant) as host:
            facts = sites.describe(host.facts(tools, _WORK))
    except Refused as refused:
        return GuestResources(refused.reasons)
    except HostLost as lost:
        return GuestResources((_unseen(lost),))
    spec = sites.machine_of(variant)
    prepared = guests.prepared(spec.image, spec.engine, spec.accel)
    return GuestResources((), prepared, facts, emulator.available_memory())


def look_at_own_guests(uuid: str, facts: Facts) -> GuestResources:
    """Of guests on this machine from images of the user's own: no more than how they run is known of them."""
    try:
        accel = emulator.bare_accelerator(uuid)
    except Refused as refused:
        return GuestResources(refused.reasons)
    caveats = (*facts.caveats, EMULATED) if accel == "tcg" else facts.caveats
    inside = replace(facts, emulated=accel == "tcg", caveats=caveats)
    return GuestResources((), GuestImage("/of-the-user", accel), inside, emulator.available_memory())


def _unseen(lost: HostLost) -> str:
    """One reason among others: the plan goes on without what guests would say of themselves."""
    return f"The system that guests start from could not be looked at in a machine of its own: {lost}"


def throw_away(store: Store, work: Path, uuid: str, listener: Listener) -> Cleaned:
    """End the machines that a killed run left, remove their files, and strike out what was built in them."""
    processes = tuple(LocalHost(uuid).end_strays(uuid))
    for process in processes:
        listener(Noted(f"ended {process}, left behind by a run that was killed"))
    shutil.rmtree(work, ignore_errors=True)
    attempts = {entry.attempt for entry in store.to_undo() if entry.attempt is not None}
    for attempt in attempts:
        store.discard(attempt, time.time())
    if processes or attempts:
        store.add_event("cleaned", f"threw {len(attempts)} lab machines away", time.time())
    return Cleaned(processes, len(attempts))


def _disks(campaign: Campaign, stack: Stack) -> list[Disk]:
    return [Disk(role, campaign.disks[role].size_bytes) for role, count in stack.disks().items() for _ in range(count)]


def as_there(testbed: Testbed, stack: Stack, disks: Sequence[Disk]) -> tuple[tuple[Disk, ...], str]:
    """The disks that a visit of `stack` takes, by their paths in the machine, and its work directory there."""
    names = [(disk, qemu.serial(f"{disk.role}{number}")) for number, disk in enumerate(_taken(stack, disks))]
    virtual = testbed.clock == "virtual"
    paths = (models.path_in_guest(name) if virtual else qemu.disk_path(name) for _, name in names)
    return tuple(replace(disk, device=path) for (disk, _), path in zip(names, paths, strict=True)), _WORK


def _taken(stack: Stack, disks: Sequence[Disk]) -> list[Disk]:
    """Of the disks of a campaign those that this stack takes."""
    left = stack.disks()
    taken = []
    for disk in disks:
        if left.get(disk.role, 0) > 0:
            left[disk.role] -= 1
            taken.append(disk)
    return taken
