"""What several drivers build plans from: commands, steps and their undos, and sentences for reasons.

Every undo here succeeds when its step never ran, ran half way or was undone before, and fails with a sentence when
the thing is still there. None of them touches anything that this visit cannot be shown to have made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.model import Command, Completed, Facts, Step

_REMOVE_LINK = 'rm -f -- "$1"'

_REMOVE_MOUNT_POINT = 'if [ -d "$1" ]; then rmdir -- "$1"; fi'

# A tree is removed without crossing into another file system: rm then says so and fails, which is what we want.
_REMOVE_TREE = 'if [ -e "$1" ]; then rm -rf --one-file-system -- "$1"; fi'

# $1 mount point, the rest: devices, any of which the kernel may name as the source (btrfs names one of many).
# Reads the mount table, not the directory: a file system that was shut down answers no stat.
_UNMOUNT = """\
mnt=$1; shift
seen=$(findmnt --noheadings --nofsroot --output SOURCE --mountpoint "$mnt") || exit 0
for device; do
  if [ "$(readlink -f -- "$seen")" = "$(readlink -f -- "$device")" ]; then umount -- "$mnt"; exit; fi
done
echo "$mnt holds a mount of $seen that this visit did not make: unmount it, then clean up again" >&2
exit 1"""

# $1 UUID that only we use, the rest: devices. A device that is not there (any more) holds nothing of ours. Signatures
# go one by one: its owner may have put a partition table or a LUKS header beside what was left of ours.
_WIPE = """\
uuid=$1; shift
for device; do
  [ -b "$device" ] || continue
  found=$(wipefs --noheadings --output OFFSET,UUID -- "$device") || exit 1
  for offset in $(echo "$found" | grep -iwF -- "$uuid" | cut -d ' ' -f 1); do
    wipefs --quiet --offset "$offset" -- "$device" || exit 1
  done
done"""


# $1 mount point, the rest: the command that mounts there.
_MOUNT_AGAIN = """\
if findmnt --mountpoint "$1" >/dev/null; then exit 0; fi
shift; exec "$@\""""


def sh(script: str, *args: str, timeout_s: float = 600.0) -> Command:
    """A POSIX shell script with its arguments as $1, $2 ...: nothing is ever pasted into the script."""
    return Command(("sh", "-c", script, "sh", *args), timeout_s=timeout_s)


def run(*argv: str, timeout_s: float = 600.0) -> Command:
    return Command(argv, timeout_s=timeout_s)


def remove_link(path: str) -> Command:
    return sh(_REMOVE_LINK, path)


def wipe(uuid: str, devices: Sequence[str]) -> Command:
    """Erase the signatures of what was made with `uuid`, and of nothing else."""
    return sh(_WIPE, uuid, *devices)


def make_directory(path: str, why: str) -> Step:
    """A directory that must not be there yet; undone with everything in it, on that file system only."""
    return Step(run("mkdir", "--", path), sh(_REMOVE_TREE, path), why)


def make_mount_point(path: str) -> Step:
    return Step(run("mkdir", "--", path), sh(_REMOVE_MOUNT_POINT, path), "make the mount point")


def mount(fstype: str, devices: Sequence[str], mount_point: str, options: Sequence[str]) -> list[Step]:
    """Make the mount point and mount `devices[0]` there."""
    chosen = ("-o", ",".join(options)) if options else ()
    command = ("mount", "-t", fstype, *chosen, "--", devices[0], mount_point)
    return [
        make_mount_point(mount_point),
        Step(
            run(*command),
            sh(_UNMOUNT, mount_point, *devices),
            f"mount the {fstype} file system",
            again=sh(_MOUNT_AGAIN, mount_point, *command),
        ),
    ]


def standard_reasons(facts: Facts, tools: Mapping[str, str], filesystem: str | None = None) -> list[str]:
    """What every driver asks of a machine: root, programs, a kernel that can mount the file system."""
    reasons = [] if facts.root else ["Building a stack needs root; run Strata as root."]
    reasons += [
        f"The program {tool} is not installed; install the Debian package {package}."
        for tool, package in tools.items()
        if tool not in facts.tools
    ]
    if filesystem is not None and filesystem not in facts.filesystems:
        reasons.append(
            f"The kernel {facts.kernel_text} cannot mount {filesystem}; "
            f"boot a kernel that has {filesystem} built in or as a module."
        )
    return reasons


def output(seen: Sequence[Completed], index: int) -> Completed | None:
    """The output of one inspecting command; None when it is missing or the command failed."""
    return seen[index] if index < len(seen) and seen[index].exit_code == 0 else None


def said(seen: Sequence[Completed], index: int) -> str:
    """Why there is no output, for people."""
    if index >= len(seen):
        return "it was not asked"
    lines = (seen[index].stderr.strip() or seen[index].stdout.strip()).splitlines()
    return lines[-1].strip() if lines else f"exit code {seen[index].exit_code}"
