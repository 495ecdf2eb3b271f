"""What every container engine as a layer shares: a private instance with a directory on the stack, a client program
by which a workload uses it whatever it is, the proof of its driver, and its end.

The layer gives `Provides.path`: an executable `client`, the whole contract with workloads. Its verbs (IMAGE and NAME
are plain words of the workload; an instance sees no others):

    client load TAR IMAGE                          a root file system as a tar becomes an image
    client ready IMAGE                             before builds upon it, for an engine that others build for
    client build CONTEXT IMAGE                     by the Dockerfile there
    client forget IMAGE
    client create IMAGE NAME [SRC:DST[:ro]]... -- CMD   a container, with directories of the host's in it; one that it
                                                   may write to (no :ro) is new and empty, and nobody works in it later
    client start|stop|remove NAME                  remove: the engine itself has nothing of it left to delete later
    client exec NAME CMD...                        in a running container
    client pid NAME                                of its first process
    client count                                   how many containers run
    client reset                                   every container and image goes
    client settle                                  returns when nothing of what was removed is left on the stack
    client room                                    bytes and inodes taken by everything, once all that was written and
                                                   removed has reached the stack; "-" where nobody counts
    client base                                    bytes that a container's root may have; "-" where none are set
    client info                                    what the engine says of itself and its driver, as JSON

Three more are in `_throttle.py`.
An engine may be that of a user who is not trusted (`_rootless.py`): what its containers may write to is then that
user's, who can put a link to anything there. Root writes, reads and starts nothing in it: what a container is to find
goes in through :ro or `exec`, and what it leaves comes out of the output of `exec`.
Nothing of the user's engine is read or touched: root, state, sockets, locks and configuration are the visit's own.
Every program of the engine runs in a network namespace of the visit, because an engine also changes the network that it
starts in: Docker deletes the bridge docker0 when it starts without one (docs/decisions/0042).
Containers lie in a control group named after the place, and every program of the engine names the place's directory in
its arguments. By these two the undo finds what is left after kill -9; both are unique on the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from strata.errors import BadInput
from strata.layers._engine_end import END, LEFT
from strata.layers._filesystem import XFS_SMALLEST_BYTES
from strata.layers._steps import output, run, said, sh
from strata.layers._throttle import OPTIONS, VERBS
from strata.model import Call, Command, Completed, Facts, Kind, Place, Provides, Snapshots, Step
from strata.units import human_size

TOOLS = {
    "findmnt": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "umount": "mount",
    "find": "findutils",
    "tar": "tar",
    "busybox": "busybox-static",
}

# $1 file, $2 its text.
NO_INSTANCES = dict.fromkeys(
    ("copy", "snapshot", "restore", "publish", "export", "import"),
    "it keeps containers of images and no instances; measure that with incus, lxd or lxc",
)
"""`EngineSupport.lacks` of engines whose containers are thrown away."""

_WRITE = 'printf %s "$2" >"$1" && chmod 0755 -- "$1"'

# $1 the place. A mount keeps the network namespace while no program is in it; the undo unmounts it with all that lies
# in the place, and the namespace ends with the last program of the engine.
_SET_APART = (
    LEFT + 'left_by_engines >"$1/there" && : >"$1/network" && unshare --net="$1/network" busybox ip link set lo up'
)

_SHELL = "#!/bin/sh\n"

# $1 where it leads to, $2 the link.
_UNLINK = 'if [ "$(readlink -- "$2")" = "$1" ]; then rm -f -- "$2"; fi'

# $1 place, $2 short way to it, the rest: names of programs, in the order in which they are asked to stop.
_STOP = r"""
dir=$1 way=$2; shift 2
for program; do
  for pause in 0.05 0.1 0.2 0.4 0.8 1.6 3.2 6.4 12.8 25.6 ''; do
    left=
    for process in $(grep -lF -e "$dir/" -e "$way/" /proc/[0-9]*/cmdline 2>/dev/null); do
      process=${process%/cmdline}
      if [ "$(cat "$process/comm" 2>/dev/null)" = "$program" ]; then left="$left ${process#/proc/}"; fi
    done
    [ -n "$left" ] && [ -n "$pause" ] || break
    [ "$pause" = 0.05 ] && kill -TERM $left 2>/dev/null
    sleep "$pause"
  done
done"""

# $1 the place, $2 name of the daemon, $3 a script that succeeds once it answers, with the place as its $1, then the
# daemon in a session of its own and in the network of the visit. It has UNMARKED right before it, for it is to live
# longer than this command: until it has the arguments by which it can be found, it is found by the mark. The current
# directory goes with this command.
_START = r"""
dir=$1 log=$1/$2.log ask=$3; shift 3
cd /
setsid nsenter --net="$dir/network" "$@" </dev/null >"$log" 2>&1 &
daemon=$!
for pause in 0.1 0.1 0.1 0.2 0.2 0.4 0.4 0.8 0.8 1 1 1 2 2 2 4 4 4 8 8 8 8 16 16 16 32 32; do
  sleep "$pause"
  if sh -c "$ask" sh "$dir" >/dev/null 2>&1; then exit 0; fi
  kill -0 "$daemon" 2>/dev/null || break
done
sh -c "$ask" sh "$dir" >/dev/null
tail -n 5 -- "$log" | cut -c 1-1000 >&2
exit 1"""

# $1 place. One container, to see where its root comes from; everything of it goes again.
_PROVE = r"""
dir=$1; client=$dir/client; box=$dir/probe
mkdir -p "$box/bin" "$box/dev" "$box/etc" "$box/proc" "$box/sys" || exit 1
cp -- "$(command -v busybox)" "$box/bin/busybox" && ln -s busybox "$box/bin/sh" || exit 1
printf '%s\n' '#!/bin/sh' 'trap exit TERM' '/bin/busybox sleep 2147483 & wait' >"$box/stay" || exit 1
chmod +x "$box/stay" && tar --create --file "$dir/probe.tar" --directory "$box" . || exit 1
"$client" load "$dir/probe.tar" probe && "$client" create probe probe -- /stay >/dev/null &&
  "$client" start probe >/dev/null || exit 1
mounted=$(awk '$5 == "/"' "/proc/$("$client" pid probe)/mountinfo")
status=$?
loop=$(printf '%s\n' "$mounted" | sed -n 's|.* - [^ ]* /dev/\(loop[0-9]*\) .*|\1|p')
{
  [ -z "$loop" ] || sed 's/^/backing /' "/sys/block/$loop/loop/backing_file"
  printf '%s\n' "$mounted"
} >"$dir/proof"
"$client" stop probe >/dev/null && "$client" remove probe >/dev/null && "$client" forget probe >/dev/null || exit 1
rm -rf -- "$box" "$dir/probe.tar"
exit $status"""

ARRANGE = (
    r"""
    image=$1 name=$2 command=; shift 2
    for word; do
      shift
      if [ -n "$command" ]; then set -- "$@" "$word"
      elif [ "$word" = -- ]; then command=yes; set -- "$@" "$image"
"""
    + OPTIONS
    + r"""
      else set -- "$@" --volume "$word"; fi
    done
"""
)
"""For the verb create of engines with Docker's command line: "$@" becomes options, the image and its command."""

_BASE = r"""
  base) if [ -s "$d/base" ]; then cat -- "$d/base"; else echo -; fi ;;
"""
"""The verb base: a file holds it."""

_SYNC = r"""
    # What a container wrote may not have left the file system that it has on a volume or a loop device of its own.
    [ "$verb" = settle ] || sync
"""

_ROOM = r"""
    sync --file-system "$d/storage" || exit 1
    filesystem=$(stat --file-system --format=%T "$d/storage/.")
    case $filesystem in
      btrfs)
        # Subvolumes are deleted in the background, which this command starts.
        btrfs filesystem sync "$d/storage/." >/dev/null || exit 1
        number=0
        while deleted=$(btrfs subvolume list -d "$d/storage/.") || exit 1; [ -n "$deleted" ]; do
          number=$((number + 1))
          [ "$number" -lt 12000 ] || { echo "btrfs has not deleted these subvolumes: $deleted" >&2; exit 1; }
          sleep 0.05
        done ;;
      zfs)
        source=$(findmnt --noheadings --nofsroot --output SOURCE --target "$d/storage/." | tail -n 1)
        zpool sync "${source%%/*}" && zpool wait -t free "${source%%/*}" || exit 1 ;;
    esac
    [ "$verb" = room ] || exit 0
    if [ "$filesystem" = zfs ]; then
      # Each container is a data set of its own: what one has says nothing of the others.
      zfs list -Hp -o used "${source%%/*}" | awk '{ print $1, "-" }'
      exit
    fi
    df --block-size=1 --output=used,iused "$d/storage" | tail -n 1
"""
"""For the verbs settle and room of engines that keep everything in a directory."""


def ending(room: str = "") -> str:
    """The last verbs of every client. `room`: what settles and counts before the directory is counted."""
    unknown = """
  ready) ;;
  *) echo "this client does not know '$verb'" >&2; exit 64 ;;
esac
"""
    return "  settle|room)" + _SYNC + room + _ROOM + "    ;;\n" + _BASE + VERBS + unknown


@dataclass(frozen=True, slots=True)
class Instance:
    """A private engine of one visit."""

    engine: str  # "podman"
    place: Place
    root: str  # its directory on the stack
    programs: tuple[str, ...]  # all that may be left running; the kernel knows the first 15 letters of each
    pool: str = ""  # a thin pool that its containers have volumes in, by the name of device mapper

    @property
    def way(self) -> str:
        """A short symlink to the place: the path of a socket has 107 bytes at most."""
        return f"/run/{self.place.name}"

    @property
    def client(self) -> str:
        return f"{self.way}/client"

    @property
    def words(self) -> tuple[str, ...]:
        """What the scripts of the end take."""
        names = " ".join(program[:15] for program in self.programs)
        return (self.place.name, self.place.dir, self.root, f" {names} ", self.pool)


def instance(engine: str, below: Provides, place: Place, programs: Sequence[str]) -> Instance:
    return Instance(engine, place, f"{below.path}/{engine}", tuple(programs))


def provides(made: Instance, below: Provides, driver: str = "") -> Provides:
    """`driver`: how it keeps containers. Where that is in volumes of their own, no snapshot of what is below has them:
    in a thin pool, as subvolumes of btrfs, as data sets of ZFS."""
    beside = below.thin_pool is not None or driver in _BESIDE
    none = partial(_no_snapshot, made.engine)
    return Provides(
        Kind.ENGINE,
        made.client,
        below.size_bytes,
        ours=below.ours,
        mount=below.mount,
        name=made.engine,
        filesystem=below.filesystem,
        quotas=below.quotas,
        thin_pool=below.thin_pool,
        can={"snapshot": none} if beside else {},
        snapshots=Snapshots(none, run("true"), run("true")) if beside else None,
    )


_BESIDE = frozenset({"btrfs", "zfs"})


def _no_snapshot(engine: str, _: int) -> list[Step]:
    raise BadInput(
        f"{engine} keeps its containers in volumes of their own, and a snapshot of what is below has none of them; "
        "take snapshot out, or measure what the engine itself can (instance/snapshot)."
    )


def begin(made: Instance, client: str) -> list[Step]:
    """The short way to the place, the directory on the stack, the network namespace, and the client, which enters it.

    The client is a script of the shell that starts with `#!/bin/sh`; both go with the place.
    Undone with all of the engine: its processes, mounts, control groups and files."""
    end = sh(END, *made.words, timeout_s=3600.0)
    way = sh(_UNLINK, made.place.dir, made.way)
    # Podman, LXC and buildah have no daemon: what they change they change from the client. LXC's programs also find its
    # containers by abstract sockets, which every network namespace has its own of.
    entering = f"#!/usr/bin/env -S nsenter --net={made.way}/network sh\n" + client.removeprefix(_SHELL)
    return [
        # Undone last: what still runs would make a directory of that name.
        Step(run("ln", "-s", "--", made.place.dir, made.way), way, "create a short symlink for its sockets"),
        Step(run("mkdir", "--", made.root), end, f"make a directory for {made.engine}"),
        Step(sh(_SET_APART, made.place.dir), None, "make a network namespace for its programs"),
        Step(sh(_WRITE, f"{made.place.dir}/client", entering), None, f"write the client of this {made.engine}"),
    ]


def prove(made: Instance) -> Step:
    """Undone with the engine."""
    return Step(sh(_PROVE, made.way, timeout_s=600.0), None, "start a container to see what its root is")


def start(made: Instance, daemon: str, ask: str, *argv: str) -> Step:
    """Start a daemon in the network namespace of the visit, with UNMARKED right before its program, and wait until the
    script `ask` succeeds, which gets the short way to the place as its $1.

    Undone by asking it to stop; what does not is ended with the rest of the engine."""
    return Step(
        sh(_START, made.way, daemon, ask, *argv, timeout_s=300.0),
        sh(_STOP, made.place.dir, made.way, daemon[:15], timeout_s=120.0),
        f"start {daemon}",
    )


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
    backing: str = ""  # of a loop device: its file


def in_pool(root: Root, below: Provides) -> bool:
    """Whether it is a data set of the pool that is below, and no other's."""
    return root.fstype == "zfs" and root.inside == "/" and root.source.startswith(f"{below.name}/")


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
    inside, source, shown = (_plain(word) for word in (left[3], right[1], right[2]))
    pairs = (option.partition("=") for option in shown.split(","))
    backing = next((line.removeprefix("backing ") for line in lines if line.startswith("backing ")), "")
    return Root(inside, right[0], source, {name: value for name, _, value in pairs}, backing)


def _plain(word: str) -> str:
    """Of mountinfo, which writes blanks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


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


def differences(
    made: Instance,
    below: Provides,
    seen: Sequence[Completed],
    judge: Callable[[Mapping[str, object], Root], list[str]],
) -> list[str]:
    """What is not as requested: where the engine keeps its things, then what `judge` finds in what the engine says of
    itself and in what the kernel says of the root of a container."""
    wrong = place_differences(made, below, seen)
    info, root = info_of(made, seen), root_of(seen)
    if isinstance(info, str):
        return [*wrong, info]
    if isinstance(root, str):
        return [*wrong, root]
    return wrong + judge(info, root)


def other_root(made: Instance, root: Root, driver: str) -> str:
    """That the root of a container is not what the driver makes: the engine fell back to another one."""
    return (
        f"{made.engine}: the root of a container is {root.fstype} from {root.source}{root.inside}, "
        f"which is not what {driver} makes."
    )


def text(found: Mapping[str, object], *path: str) -> str:
    """A text deep inside a JSON object; "" when it is not there."""
    inner: object = found
    for name in path:
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, str) else ""


def tools_for(tools: Mapping[str, str], used_by: Mapping[str, bool]) -> dict[str, str]:
    """Of all programs of a layer those that these arguments need; `used_by`: of those that not all do, whether."""
    return {name: package for name, package in tools.items() if used_by.get(name, True)}


def version_reasons(program: str, said_version: str | None, oldest: tuple[int, int]) -> list[str]:
    """Too old, as its version text says; one that is missing or says nothing of the kind is not too old."""
    found = re.search(r"\b(\d+)\.(\d+)", said_version or "")
    if found is None or (int(found[1]), int(found[2])) >= oldest:
        return []
    return [f"{program} {found[0]} is older than {oldest[0]}.{oldest[1]}; install a newer one."]


def no_filesystem(what: str, filesystem: str, facts: Facts) -> str:
    return f"The kernel {facts.kernel_text} has no {filesystem}, which {what} needs; boot a kernel that has it."


def needs_quotas(engine: str, driver: str, below: Provides, wanted: str = "xfs(pquota)") -> None:
    """Raises BadInput where the driver keeps a container to a size by quotas of the file system below it, `wanted`, and
    these are known not to be there, or are those of the user."""
    no_limits_on_existing(engine, below)
    filesystem = wanted.partition("(")[0]
    if below.filesystem not in (None, filesystem):
        raise BadInput(
            f"{engine}({driver}) keeps a container to a size by the quotas of {filesystem} alone, and below it is "
            f"{below.filesystem}; leave out base_size, or put it on {wanted}."
        )
    if below.quotas is False:
        raise BadInput(
            f"{engine}({driver}) keeps a container to a size by the quotas of {filesystem}, which are off below it; "
            f"write {wanted} there, or leave out base_size."
        )


def no_limits_on_existing(engine: str, below: Provides) -> None:
    """Raises BadInput in a directory of the user's: a quota is of the whole file system, and goes by numbers that
    projects of the user's may have."""
    if below.kind is Kind.DIRECTORY and not below.ours:
        raise BadInput(
            f"{engine}(base_size=) sets quotas of the file system below it, which is your own; leave out base_size, or "
            "put it on a file system that Strata makes."
        )


def no_size(engine: str, driver: str) -> str:
    return (
        f"{engine}({driver}) cannot keep a container to a size: it refuses the option; leave out base_size, or choose "
        "another driver."
    )


def root_reasons(spec: Call, usual: str | None = None) -> list[str]:
    """Of a container's root that is a file system of its own (`fs`, `base_size`). `usual`: the one that the engine
    chooses where none is asked for."""
    size = spec["base_size"]
    if (spec["fs"] or usual) != "xfs" or size is None or int(size) >= XFS_SMALLEST_BYTES:
        return []
    least = human_size(XFS_SMALLEST_BYTES)
    return [f"{spec.text}: xfs is not made on less than {least}; make base_size= larger, or choose fs=ext4."]


def needs_filesystem(engine: str, driver: str, below: Provides, wanted: str) -> None:
    """Raises BadInput where what is below is known to be another file system than the driver works on.

    The ZFS drivers make datasets beside what they are given: that has to be a pool of ours.
    """
    if below.held:
        _no_snapshot(f"{engine}({driver})", 1)
    if wanted == "zfs" and below.filesystem in (None, "zfs") and (below.name is None or not below.ours):
        raise BadInput(f"{engine}({driver}) makes datasets in the pool below it; put it right on zfs(...).")
    if below.filesystem is not None and below.filesystem != wanted:
        raise BadInput(
            f"{engine}({driver}) needs {wanted} below it, and that is {below.filesystem}; "
            f"put it on {wanted} or choose another driver."
        )
