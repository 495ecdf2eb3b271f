"""What every container engine as a layer shares: a private instance with a directory on the stack, a client program
by which a workload uses it whatever it is, the proof of its driver, and its end.

The layer gives `Provides.path`: an executable `client`, the whole contract with workloads. Its verbs (IMAGE and NAME
are plain words of the workload; an instance sees no others):

    client load TAR IMAGE                          a root file system as a tar becomes an image
    client build CONTEXT IMAGE                     by the Dockerfile there
    client forget IMAGE
    client create IMAGE NAME [SRC:DST]... -- CMD   a container, with directories of the host's in it
    client start|stop|remove NAME
    client exec NAME CMD...                        in a running container
    client pid NAME                                of its first process
    client count                                   how many containers run
    client reset                                   every container and image goes
    client room                                    bytes and inodes taken by everything; "-" where nobody counts
    client info                                    what the engine says of itself and its driver, as JSON

Nothing of the user's engine is read or touched: root, state, sockets, locks and configuration are the visit's own.
Containers lie in a control group named after the place, and every program of the engine names the place's directory in
its arguments. By these two the undo finds what is left after kill -9; both are unique on the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.errors import BadInput
from strata.layers._steps import output, run, said, sh
from strata.model import Command, Completed, Facts, Kind, Place, Provides, Step

TOOLS = {
    "findmnt": "util-linux",
    "umount": "mount",
    "find": "findutils",
    "tar": "tar",
    "busybox": "busybox-static",
}

# $1 file, $2 its text, $3 mode.
_WRITE = 'printf %s "$2" >"$1" && chmod "$3" -- "$1"'

# Functions that the ends of all engines share. Set before: name (the control group), dir (the place), root (on the
# stack), programs (names of the engine's own programs, " a b ").
_FUNCTIONS = r"""
groups() { find /sys/fs/cgroup -depth -type d \( -path "*/$name" -o -path "*/$name/*" \) 2>/dev/null; }
ours() {
  for group in $(groups); do cat "$group/cgroup.procs" 2>/dev/null; done
  for process in $(grep -lF -e "$dir" /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${process%/cmdline}
    case $programs in *" $(cat "$process/comm" 2>/dev/null) "*) echo "${process#/proc/}" ;; esac
  done
}
end_all() {
  for pause in 0 0.05 0.1 0.2 0.4 0.8 1.6 3.2 6.4; do
    sleep "$pause"
    left=$(ours | sort -u)
    [ -n "$left" ] || return 0
    kill -KILL $left 2>/dev/null
  done
  echo "these processes of the engine were killed and still live: $(echo $left); see what they wait for" >&2
  return 1
}
mounts() {
  while read -r _ _ _ _ point _; do
    point=$(printf '%b' "$point")
    case $point in "$root"|"$root"/*|"$dir"/*) printf '%s\n' "$point" ;; esac
  done </proc/self/mountinfo | tac
}
unmount_all() {
  mounts | while IFS= read -r point; do umount -- "$point" || exit 1; done
}
leave_groups() {
  groups | while IFS= read -r group; do rmdir -- "$group" 2>/dev/null || [ ! -d "$group" ] || exit 1; done
}
remove_root() {
  [ -e "$root" ] || return 0
  if [ "$(stat --file-system --format=%T -- "$root")" = btrfs ]; then
    find "$root" -depth -inum 256 -type d | while IFS= read -r volume; do
      btrfs property set -f -ts "$volume" ro false 2>/dev/null
      btrfs --quiet subvolume delete -- "$volume" >/dev/null || exit 1
    done || return 1
  fi
  if [ -e "$root" ]; then rm -rf --one-file-system -- "$root"; fi
}
"""

# $1 name, $2 place, $3 the engine's directory on the stack, $4 programs. The engine itself was asked to stop before.
_END = (
    "name=$1 dir=$2 root=$3 programs=$4\n"
    + _FUNCTIONS
    + "end_all && unmount_all && leave_groups && remove_root"
)  # fmt: skip

# $1 place, $2 cgroup name. One container, to see where its root comes from; everything of it goes again.
_PROVE = r"""
dir=$1; client=$dir/client; box=$dir/probe
mkdir -p "$box/bin" && cp -- "$(command -v busybox)" "$box/bin/busybox" && ln -s busybox "$box/bin/sh" || exit 1
tar --create --file "$dir/probe.tar" --directory "$box" . || exit 1
"$client" load "$dir/probe.tar" probe && "$client" create probe probe -- /bin/sh -c \
  'trap "exit 0" TERM; /bin/busybox sleep 2147483 & wait' >/dev/null && "$client" start probe >/dev/null || exit 1
awk '$5 == "/"' "/proc/$("$client" pid probe)/mountinfo" >"$dir/proof"
status=$?
"$client" stop probe >/dev/null && "$client" remove probe >/dev/null && "$client" forget probe >/dev/null || exit 1
rm -rf -- "$box" "$dir/probe.tar"
exit $status"""

# $1 how long to wait at most, the rest: a command that succeeds once the daemon answers. $2 its log.
_AWAIT = r"""
log=$1; shift
for pause in 0.05 0.1 0.1 0.2 0.2 0.4 0.4 0.8 0.8 1 1 1 2 2 2 4 4 4 8 8 8 8 16 16 16 32; do
  sleep "$pause"
  "$@" >/dev/null 2>&1 && exit 0
done
"$@" >/dev/null
tail -n 5 -- "$log" >&2
exit 1"""


ARRANGE = r"""
    image=$1 name=$2 command=; shift 2
    for word; do
      shift
      if [ -n "$command" ]; then set -- "$@" "$word"
      elif [ "$word" = -- ]; then command=yes; set -- "$@" "$image"
      else set -- "$@" --volume "$word"; fi
    done
"""
"""For the verb create of engines with Docker's command line: "$@" becomes the volumes, the image and its command."""

ROOM = r"""
    sync --file-system "$d/storage"
    df --block-size=1 --output=used,iused "$d/storage" | tail -n 1
"""
"""For the verb room of engines that keep everything in a directory."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A private engine of one visit."""

    engine: str  # "podman"
    place: Place
    root: str  # its directory on the stack
    programs: tuple[str, ...]  # all that may be left running; the kernel knows the first 15 letters of each

    @property
    def client(self) -> str:
        return f"{self.place.dir}/client"

    @property
    def words(self) -> tuple[str, str, str, str]:
        """What the scripts of the end take."""
        names = " ".join(program[:15] for program in self.programs)
        return (self.place.name, self.place.dir, self.root, f" {names} ")


def instance(engine: str, below: Provides, place: Place, programs: Sequence[str]) -> Instance:
    return Instance(engine, place, f"{below.path}/{engine}", tuple(programs))


def provides(made: Instance, below: Provides) -> Provides:
    return Provides(
        Kind.ENGINE,
        made.client,
        below.size_bytes,
        ours=below.ours,
        mount=below.mount,
        name=made.engine,
        filesystem=below.filesystem,
    )


def make_root(made: Instance) -> Step:
    """The directory on the stack. Undone with all of the engine: its processes, mounts, control groups and files."""
    return Step(
        run("mkdir", "--", made.root),
        sh(_END, *made.words, timeout_s=3600.0),
        f"make a directory for {made.engine}",
    )


def write(path: str, text: str, why: str, mode: str = "0644") -> Step:
    """A file in the directory of the place, with which it goes."""
    return Step(sh(_WRITE, path, text, mode), None, why)


def write_client(made: Instance, text: str) -> Step:
    return write(made.client, text, f"write the client of this {made.engine}", "0755")


def prove(made: Instance) -> Step:
    """Undone with the engine."""
    return Step(sh(_PROVE, made.place.dir, timeout_s=600.0), None, "start a container to see what its root is")


def await_answer(made: Instance, log: str, *command: str) -> Command:
    return sh(_AWAIT, log, *command, timeout_s=300.0)


def inspect(made: Instance) -> list[Command]:
    """What the engine says, what the kernel said of the root of a container, and where the engine's directory is."""
    return [
        run(made.client, "info"),
        run("cat", "--", f"{made.place.dir}/proof"),
        run("findmnt", "--noheadings", "--output", "TARGET", "--target", made.root),
    ]


@dataclass(frozen=True, slots=True)
class Root:
    """What the root of a container is a mount of. Source: proc(5), mountinfo."""

    inside: str  # the directory of the file system that is mounted
    fstype: str
    source: str
    options: Mapping[str, str]


def root_of(seen: Sequence[Completed]) -> Root | str:
    """Or a sentence that says what is wrong."""
    answer = output(seen, 1)
    if answer is None:
        return f"Nothing says what the root of a container was: {said(seen, 1)}."
    lines = answer.stdout.splitlines()
    words = re.split(r" - ", lines[-1], maxsplit=1) if lines else []
    left, right = (words[0].split(), words[1].split()) if len(words) == 2 else ([], [])
    if len(left) < 5 or len(right) < 3:
        return "What the kernel said of the root of a container cannot be read; report this as a bug."
    pairs = (option.partition("=") for option in right[2].split(","))
    return Root(left[3], right[0], right[1], {name: value for name, _, value in pairs})


def info_of(made: Instance, seen: Sequence[Completed]) -> dict[str, object] | str:
    """What the engine said of itself as a JSON object; or a sentence that says what is wrong."""
    answer = output(seen, 0)
    if answer is None:
        return f"{made.engine}: the engine does not answer: {said(seen, 0)}."
    try:
        found = json.loads(answer.stdout)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return f"{made.engine}: what the engine says of itself cannot be read; report this as a bug."
    return found


def place_differences(made: Instance, below: Provides, seen: Sequence[Completed]) -> list[str]:
    """The engine's directory must still be on what was built, and not on what lies under an unmounted mount point."""
    answer = output(seen, 2)
    if answer is None:
        return [f"{made.engine}: its directory {made.root} is not there: {said(seen, 2)}."]
    found = answer.stdout.strip()
    if (
        below.mount is not None
        and found != below.mount
        and not found.startswith(f"{made.root}/")
        and found != made.root
    ):
        return [f"{made.engine}: its directory is on {found} instead of {below.mount}."]
    return []


def text(found: Mapping[str, object], *path: str) -> str:
    """A text deep inside a JSON object; "" when it is not there."""
    inner: object = found
    for name in path:
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, str) else ""


def version_reasons(program: str, said_version: str | None, oldest: tuple[int, int]) -> list[str]:
    """Too old, as its version text says; one that is missing or says nothing of the kind is not too old."""
    found = re.search(r"\b(\d+)\.(\d+)", said_version or "")
    if found is None or (int(found[1]), int(found[2])) >= oldest:
        return []
    return [f"{program} {found[0]} is older than {oldest[0]}.{oldest[1]}; install a newer one."]


def no_filesystem(what: str, filesystem: str, facts: Facts) -> str:
    return f"The kernel {facts.kernel_text} has no {filesystem}, which {what} needs; boot a kernel that has it."


def needs_filesystem(engine: str, driver: str, below: Provides, wanted: str) -> None:
    """Raises BadInput where what is below is known to be another file system than the driver works on."""
    if below.filesystem is not None and below.filesystem != wanted:
        raise BadInput(
            f"{engine}({driver}) needs {wanted} below it, and that is {below.filesystem}; "
            f"put it on {wanted} or choose another driver."
        )
