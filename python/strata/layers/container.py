"""A container that runs: what runs on a directory runs in it, on its root or on a volume.

Its programs are this machine's own, from a /usr that it may only read: the same fio measures inside and outside. What
is limited is what its control group is: with version 1 of those reads and direct writes, not what the kernel writes
back out of the page cache later.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.errors import BadInput
from strata.layers import _limits
from strata.layers._device import fields
from strata.layers._driver import Driver
from strata.layers._steps import output, said, sh, standard_reasons
from strata.model import (
    Call,
    Command,
    Completed,
    EngineSupport,
    Facts,
    Kind,
    LayerInfo,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)

DATA = "/data"
_NAME = "box"
_PATH = "PATH=/strata:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_TOOLS = {"tar": "tar", "busybox": "busybox-static", "find": "findutils"}
_LIMIT_TOOLS = {"awk": "mawk", "findmnt": "util-linux"}  # of the clients' words for limits

INFO = LayerInfo(
    name="container",
    about="A running container of the engine below; workloads run inside it, with this machine's own programs.",
    params=(
        Param(
            "on",
            ParamType.CHOICE,
            "where their data lie: on the container's root, or on a directory of the stack as its volume",
            default="root",
            choices=("root", "volume"),
            positional=True,
        ),
        *_limits.params("the engine, or by the container's control group where the engine has no option for it"),
    ),
    accepts=frozenset({Kind.ENGINE}),
    provides=Kind.CONTAINER,
    tools={**_TOOLS, **_LIMIT_TOOLS},
    engine=EngineSupport(asks_by=_limits.asks()),
)

# $1 client, $2 place, $3 scratch, $4 root or volume, the rest: limits. In the container the scratch directory is
# another than outside, where root works. The volume lies beside what the engine keeps.
_START = """\
client=$1 dir=$2 scratch=$3 on=$4; shift 4
root=$dir/root
mkdir -- "$root" && cd "$root" || exit 1
mkdir bin data dev etc proc strata sys tmp usr var || exit 1
rmdir bin
for link in bin lib lib32 lib64 sbin; do
  if [ -L "/$link" ]; then ln -s "usr/$link" "$link"; elif [ -d "/$link" ]; then cp -a "/$link" "$link"; fi || exit 1
done
for file in group ld.so.cache passwd; do
  if [ -e "/etc/$file" ]; then cp -- "/etc/$file" etc; fi || exit 1
done
[ ! -d /etc/alternatives ] || cp -a /etc/alternatives etc || exit 1
cp -- "$(command -v strata-engine)" strata/strata-engine && cp -- "$(command -v busybox)" strata/busybox || exit 1
printf '%s\\n' '#!/strata/busybox sh' 'trap exit TERM' '/strata/busybox sleep 2147483 & wait' >stay || exit 1
chmod +x stay || exit 1
tar --create --file "$dir/root.tar" . && "$client" load "$dir/root.tar" box >/dev/null || exit 1
cd / && rm -rf -- "$root" "$dir/root.tar" || exit 1
mkdir -- "$dir/scratch" && set -- "$@" "/usr:/usr:ro" "$dir/scratch:$scratch" || exit 1
if [ "$on" = volume ]; then
  volume=$(readlink -f -- "${client%/*}/storage")/strata-volume
  mkdir -- "$volume" && set -- "$@" "$volume:/data" || exit 1
fi
"$client" create box box "$@" -- /stay >/dev/null && "$client" start box"""

_STOP = 'if [ -x "$1" ]; then "$1" remove box >/dev/null 2>&1; fi; exit 0'

# $1 client. Ends all but the first process and its sleep, and prints what that was. An orphan becomes a child of the
# first process, so only what it is tells it from that sleep.
_SWEEP = r"""
first=$("$1" pid box) && [ "$first" -gt 0 ] || exit 0
space=$(readlink "/proc/$first/ns/pid")
if [ "$space" = "$(readlink /proc/self/ns/pid)" ]; then
  echo "the engine says that process $first is the container's first, and that is in none; nothing is ended" >&2; exit 1
fi
space=$(echo "$space" | sed 's/[][]/\\&/g')
for pause in 0 0.1 0.2 0.4 0.8 1.6 3.2; do
  sleep "$pause"
  left=
  for link in $(find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/ns/pid' -lname "$space" 2>/dev/null); do
    process=${link#/proc/} process=${process%%/*}
    words=$(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null)
    case $words in ""|*"sleep 2147483 ") continue ;; esac
    [ "$process" != "$first" ] || continue
    left="$left $process"; cat "/proc/$process/comm"
  done
  [ -n "$left" ] || exit 0
  kill -KILL $left
done
exit 1"""

# $1 client.
_LOOK = 'pid=$("$1" pid box) && [ "$pid" -gt 0 ] && cat "/proc/$pid/mountinfo"'


class ContainerDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        asked = _limits.asked(spec)
        reasons = standard_reasons(facts, {**_TOOLS, **(_LIMIT_TOOLS if asked else {})})
        if asked and not facts.io_control:
            reasons.append(
                f"The kernel {facts.kernel_text} limits no I/O here (neither io of cgroup version 2 nor blkio.throttle "
                f"of version 1), so no engine can; leave {', '.join(asked)} out, or boot a kernel with "
                "CONFIG_BLK_DEV_THROTTLING."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        if spec["on"] == "volume" and below[0].thin_pool is not None:
            raise BadInput(
                "container(volume) needs a directory for the volume, and an engine on a thin pool has none; "
                "measure on its root."
            )
        inside = (below[0].path, "exec", _NAME, "/usr/bin/env", _PATH)
        sweep = sh(_SWEEP, below[0].path, timeout_s=120.0)
        return Provides(Kind.CONTAINER, DATA, below[0].size_bytes, ours=below[0].ours, inside=inside, sweep=sweep)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        start = sh(_START, below[0].path, place.dir, place.scratch, str(spec["on"]), *_limits.words(spec))
        # The engine would end it too; asked for here, its end is timed.
        return [Step(start, sh(_STOP, below[0].path), "start the container")]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        limits = [Command((below[0].path, "limits", _NAME))] if _limits.asked(spec) else []
        return [sh(_LOOK, below[0].path), *limits]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        mounts = output(seen, 0)
        if mounts is None:
            return [f"container: it does not run any more: {said(seen, 0)}."]
        points = {fields[4] for line in mounts.stdout.splitlines() if len(fields := line.split()) > 4}
        if "/" not in points:
            return ["container: what it has mounted cannot be read; report this as a bug."]
        if (DATA in points) is not (spec["on"] == "volume"):
            return [f"container: {DATA} is {'' if DATA in points else 'not '}a mount of its own."]
        return _unlimited(spec, seen)


def _unlimited(spec: Call, seen: Sequence[Completed]) -> list[str]:
    """What the kernel holds, of every device that it holds it for."""
    asked = _limits.asked(spec)
    if asked and output(seen, 1) is None:
        return [f"container: its limits cannot be read: {said(seen, 1)}."]
    held = fields(seen, 1) if asked else {}
    return [
        f"container: {name} is {' and '.join(now) or 'not limited'} instead of {value}."
        for name, value in asked.items()
        if set(now := held.get(name.replace("_", "-"), [])) != {str(value)}
    ]


DRIVER = ContainerDriver()
