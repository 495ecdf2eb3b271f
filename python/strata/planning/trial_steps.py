"""Everything that one trial does to a machine, in order. Pure: what runs, what `plan --commands` shows and what the
store keeps of a trial come from here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from strata.gate import PART
from strata.model import Command, Kind, Provides, Step, Target, TrialPlan
from strata.planning import machine_metrics

# The engine gets this much longer than the workload's own limit before the host gives up on the engine.
_GRACE_S = 60.0
_SAMPLE_INTERVAL = "100ms"

# Writing out may take long: a page cache full of small random writes, on a slow disk. A full write cache of a modelled
# disk takes about a minute, and Linux gives up on a flush that a disk does not answer in about that time.
_WRITE_OUT_S = 1800.0

# drop_caches drops clean pages only: what is dirty would stay, serve reads and be written during the trial. It leaves
# `c_min` bytes in the ARC of ZFS, a 32nd of the memory; where the stack has ZFS that is set to 32 MiB, the least there
# is (zfs_arc_min, zfs(4)), until they are dropped. ZFS before 2.3 gives no more than 10,000 pages at a time
# (zfs_arc_shrinker_limit). A zfs_arc_min of 0 is ZFS's own choice, but setting it changes nothing: `c_min` goes first.
# $1 own: of the user's own directory, whose other file systems are not ours to write out. The rest: as below.
_FORGET = """\
own=$1; shift
[ "$own" = own ] || sync
cd /sys/module/zfs/parameters 2>/dev/null && zfs=
for path; do
  case $path in /dev/zvol/*) zfs=yes ;; esac
  [ "$(stat --file-system --format=%T -- "$path" 2>/dev/null)" != zfs ] || zfs=yes
done
if [ -n "$zfs" ] && [ -w zfs_arc_min ] && [ -w zfs_arc_shrinker_limit ]; then
  least=$(cat zfs_arc_min); limit=$(cat zfs_arc_shrinker_limit)
  chosen=$(sed -n 's/^c_min  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats)
  trap 'echo "$chosen" >zfs_arc_min; echo "$least" >zfs_arc_min; echo "$limit" >zfs_arc_shrinker_limit' EXIT
  echo 0 >zfs_arc_shrinker_limit; echo 33554432 >zfs_arc_min
fi
echo 3 >/proc/sys/vm/drop_caches"""

# $1 file. What `forget` sets for a moment, and what is in force instead of a 0: a kill in that moment leaves it.
_NOTE_ARC = """\
cd /sys/module/zfs/parameters 2>/dev/null && [ -w zfs_arc_min ] && [ -w zfs_arc_shrinker_limit ] || exit 0
{ sed -n 's/^c_min  *[0-9]*  *//p' /proc/spl/kstat/zfs/arcstats; cat zfs_arc_min zfs_arc_shrinker_limit; } >"$1.new" &&
  mv -- "$1.new" "$1\""""

_RESTORE_ARC = """\
[ -s "$1" ] && cd /sys/module/zfs/parameters 2>/dev/null || exit 0
{ read -r chosen; read -r least; read -r limit; } <"$1"
echo "$chosen" >zfs_arc_min && echo "$least" >zfs_arc_min && echo "$limit" >zfs_arc_shrinker_limit"""

# $@ is what holds data of the stack on one machine, top to bottom. udev reads a device whenever a program that wrote to
# it closes it; it takes in what was closed before it answers `settle`, and probes in the background otherwise.
# fsync(2) of a block device writes out its pages and flushes the cache of the disk; `blockdev --flushbufs` sends no
# flush. The device is opened for reading, so udev does not look at it again. What is not there holds nothing.
# syncfs(2) of ZFS writes its log alone; only root may make a pool write the rest.
# Prints a line for each problem.
_QUIESCE = """\
if [ -S /run/udev/control ]; then
  udevadm settle --timeout=60 || echo "udev was still at work after 60 s and may read the devices during the trial"
fi
for path; do
  [ -e "$path" ] || continue
  if [ -b "$path" ]; then sync -- "$path"; else sync --file-system -- "$path"; fi 2>&1
  if [ "$(stat --file-system --format=%T -- "$path")" = zfs ] && [ "$(id -u)" = 0 ]; then
    pool=$(df --output=source -- "$path" | tail -n 1)
    zpool sync "${pool%%/*}" 2>&1
  fi
done
:"""


_WRITE = 'printf %s "$2" >"$1"'
_ADD = 'printf %s "$2" >>"$1"'
# The kernel takes no word of a command that has more than 128 KiB, and a character has 4 bytes at most.
_WORD = 30_000


def forget(holders: Sequence[str], *, on_existing: bool = False) -> Command:
    """Memory forgets what it keeps of the disks; only root may. `holders`: as for `quiesce`."""
    return Command(("sh", "-c", _FORGET, "sh", "own" if on_existing else "ours", *dict.fromkeys(holders)), _WRITE_OUT_S)


def note_arc(directory: str) -> Step:
    """Before the first `forget` on a machine that stays and whose ZFS holds data of the stack."""
    note, restore = (Command(("sh", "-c", script, "sh", f"{directory}/arc")) for script in (_NOTE_ARC, _RESTORE_ARC))
    return Step(note, restore, "note the limits of the ARC to put back")


@dataclass(frozen=True, slots=True)
class TrialSteps:
    """The fields are in the order in which they are carried out."""

    make: tuple[Command, ...]  # the directories, and what the cleanup begins with
    put: Mapping[str, str]  # path -> content
    prepare: tuple[Command, ...]
    rehearse: tuple[Command, ...]  # what is measured, without being measured: a cache is warm after it
    flush: tuple[Command, ...]  # what was prepared goes out of the page cache,
    quiesce: Command  # with what earlier trials left, out of the caches of all layers and disks,
    forget: Command  # and out of memory; only root may
    measure: Command  # the engine, and under it the workload: the only one on the clock
    samples: str  # path of what the engine writes
    remove: tuple[Command, ...]
    gate: str = ""  # where the load says when it began and ended (gate.py); "": all that was sampled is of the load
    inside: tuple[str, ...] = ()  # what precedes a command that sees the files of a trial (trial_files.py)

    def until_measured(self) -> list[tuple[str, ...]]:
        """All but the removal, as typed."""
        return [*self.prepared(), *(c.argv for c in (self.quiesce, self.forget, self.measure))]

    def prepared(self) -> list[tuple[str, ...]]:
        """All until the data are written out, as typed: a file that is written is a command too."""
        written = [
            command.argv for path, content in self.put.items() for command in write_commands(self.inside, path, content)
        ]
        commands = (*self.prepare, *self.rehearse, *self.flush)
        return [*(c.argv for c in self.make), *written, *(c.argv for c in commands)]

    def typed(self) -> list[tuple[str, ...]]:
        return [*self.until_measured(), *(c.argv for c in self.remove)]


def target_on(top: Provides) -> Target:
    """What a workload gets of a stack: a fresh directory, or the device."""
    if top.kind in (Kind.DIRECTORY, Kind.CONTAINER):
        return Target(Kind.DIRECTORY, f"{top.path}/strata-trial", top.size_bytes, top.on_existing)
    return Target(top.kind, top.path, top.size_bytes, top.on_existing)


def trial_steps(
    engine: str,
    devices: Iterable[tuple[str, str]],
    plan: TrialPlan,
    target: Target,
    scratch: str,
    rehearsals: int = 0,
    inside: tuple[str, ...] = (),
    pid_file: str | None = None,
    holders: Sequence[str] = (),
    gate: str = "",
) -> TrialSteps:
    """`devices`: (layer, path) of what is sampled; their names in the samples are d0, d1 ... `pid_file`: of the guest's
    QEMU, where the trial is a command that goes into it. `holders`: what holds data of the stack, top to bottom.

    `inside`: what precedes the commands of a trial in a container. The engine samples from outside: in there `scratch`
    is another directory of that name.

    `gate`: a directory that is not there yet, where the load of a trial by itself says when it begins and ends, if it
    can. A command in a container does not see it.
    """
    make, remove = directories(target, scratch, inside)
    if (begun := cleanup(plan, inside)) is not None:
        make, remove = (*make, begun.do), (*filter(None, [begun.undo]), *remove)
    samples = f"{scratch}/samples.jsonl"
    all_holders = (target.path, *holders) if target.kind is Kind.BLOCK else holders
    sampled = [part for i, (_, path) in enumerate(devices) for part in ("--device", f"d{i}={path}")]
    sampled += ["--process", f"{machine_metrics.OWN_QEMU}={pid_file}"] if pid_file else []
    load, gated = plan.measure, bool(gate) and plan.gated is not None and not inside
    argv = load.argv
    if gated and plan.gated is not None:
        argv = ("sh", "-c", PART, "sh", gate, "alone", *plan.gated.argv)
    measure = (
        *(engine, "sample", "--out", samples, "--interval", _SAMPLE_INTERVAL),
        *("--timeout", f"{load.timeout_s:g}s", *sampled, "--", *inside, *argv),
    )
    return TrialSteps(
        make=make,
        put=plan.put,
        prepare=_within(inside, *plan.prepare),
        rehearse=_within(inside, *_rehearsal(plan, rehearsals)),
        flush=_within(inside, *flush(target)),
        quiesce=quiesce(all_holders),
        forget=forget(all_holders, on_existing=target.on_existing),
        measure=Command(measure, load.timeout_s + _GRACE_S, load.stdin),
        gate=gate if gated else "",
        samples=samples,
        remove=remove,
        inside=inside if target.kind is Kind.DIRECTORY else (),  # a guest of another system has no files of a trial
    )


def _rehearsal(plan: TrialPlan, times: int) -> tuple[Command, ...]:
    """What it left is removed: fio appends to its logs, and would count every second once more. What has a cleanup is
    done once: it finds its place as it was."""
    if not times or plan.cleanup is not None:
        return ()
    once = (plan.measure, *(plan.prepare if plan.uses_up else ()))
    return (*once * times, Command(("rm", "--force", "--", *plan.collect.values())))


def directories(
    target: Target, scratch: str, inside: tuple[str, ...] = ()
) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """What makes them, and what removes the target's; what is left in `scratch` goes with the visit."""
    fresh = [target.path] if target.kind is Kind.DIRECTORY else []
    make = [Command((*inside, "mkdir", "--", path)) for path in fresh]
    if fresh and inside:
        # One of that name in a container; what else precedes commands leads to the one that is there by then.
        make.append(Command((*inside, "mkdir", "--parents", "--", scratch)))
    remove = [Command((*inside, "rm", "--recursive", "--force", "--one-file-system", "--", path)) for path in fresh]
    return (Command(("mkdir", "--", scratch)), *make), tuple(remove)


def cleanup(plan: TrialPlan, inside: tuple[str, ...] = ()) -> Step | None:
    """Where the workload runs. What is changed in a container goes with it, and needs no undo after a kill."""
    step = plan.cleanup
    if step is None:
        return None
    undo = None if step.undo is None else _within(inside, step.undo)[0]
    return replace(step, do=_within(inside, step.do)[0], undo=undo)


def _within(inside: tuple[str, ...], *commands: Command) -> tuple[Command, ...]:
    return tuple(replace(command, argv=(*inside, *command.argv)) for command in commands)


def flush(target: Target) -> tuple[Command, ...]:
    """Of the file system that a directory is on, as it is seen from where the workload runs."""
    if target.kind is Kind.DIRECTORY:
        return (Command(("sync", "--file-system", target.path), _WRITE_OUT_S),)
    return ()


def write_commands(inside: tuple[str, ...], path: str, content: str) -> Iterator[Command]:
    """What makes or replaces a file in a container; as typed, anywhere."""
    for start in range(0, max(len(content), 1), _WORD):
        script = _ADD if start else _WRITE
        yield Command((*inside, "sh", "-c", script, "sh", path, content[start : start + _WORD]))


def quiesce(holders: Sequence[str]) -> Command:
    """Wait for udev and empty the write caches of `holders`, from the top of a stack to its disks: what an upper one
    writes out dirties those below. It succeeds where one cannot be emptied, and prints a line about it."""
    return Command(("sh", "-c", _QUIESCE, "sh", *dict.fromkeys(holders)), _WRITE_OUT_S)
