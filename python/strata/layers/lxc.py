"""Plain LXC, its containers as directories on what is below: no daemon, no pool, no images but containers to copy.

Beside the verbs of every engine, the client has those of instances that LXC knows: copy, snapshot, restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.layers._control_groups import control_group_reasons
from strata.layers._driver import Driver
from strata.layers._engine import (
    TOOLS,
    Instance,
    Root,
    begin,
    differences,
    ending,
    inspect,
    instance,
    other_root,
    prove,
    provides,
    text,
    version_reasons,
)
from strata.layers._steps import sh, standard_reasons
from strata.layers._throttle import AT_START, THROTTLE
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

_PROGRAMS = ("lxc-start", "lxc-stop", "lxc-attach", "lxc-copy", "lxc-create", "lxc-destroy", "lxc-info", "lxc-ls")

INFO = LayerInfo(
    name="lxc",
    about="Containers of plain LXC, each a directory on what is below.",
    params=(
        Param("backing", ParamType.CHOICE, "how a container is kept", default="dir", choices=("dir",), positional=True),
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.ENGINE,
    engine=EngineSupport(
        lacks={
            "build": "it builds no images; measure building with podman or docker",
            **dict.fromkeys(
                ("publish", "export", "import"),
                "it has no images and no files of its own for that; measure it with incus or lxd",
            ),
        }
    ),
    tools={**dict.fromkeys((*_PROGRAMS, "lxc-snapshot"), "lxc"), "rsync": "rsync", **TOOLS},
)

# $1 short way to the place, $2 the engine's directory on the stack, $3 name of the place. A template is a program that
# fills the root of a new container: ours unpacks a tar.
_CONFIGURE = r"""
dir=$1 root=$2 name=$3
mkdir -- "$root/containers" && ln -s -- "$root" "$dir/storage" && echo "$name" >"$dir/group" || exit 1
printf '%s\n' 'lxc.net.0.type = empty' 'lxc.apparmor.profile = unconfined' 'lxc.signal.halt = SIGTERM' \
  'lxc.mount.auto = proc:mixed sys:ro' 'lxc.tty.max = 0' >"$dir/lxc.conf" || exit 1
cat >"$dir/unpack" <<'END' && chmod +x "$dir/unpack"
#!/bin/sh
for word; do
  case $word in --rootfs=*) rootfs=${word#*=} ;; --*) ;; *) tar=$word ;; esac
done
exec tar --extract --file "$tar" --directory "$rootfs" --numeric-owner
END
"""

# The control group of a container bears its name. A path that LXC looks up names the place's directory, so what runs
# for a container is known by its arguments too.
_CLIENT = (
    r"""#!/bin/sh
# The LXC of one visit of Strata, and no other.
d=${0%/*}
path=$d/storage/containers
read -r group <"$d/group"
missing() { echo "LXC has no $1 of its own: measure it with Incus or LXD" >&2; exit 65; }
verb=$1; shift
"""
    + THROTTLE
    + AT_START
    + r"""
case $verb in
  load)
    lxc-create -P "$path" -n "$group-image-$2" -f "$d/lxc.conf" -B dir -t "$d/unpack" -- "$1" || exit 1
    sed -n 's/^lxc.rootfs.path *= *\([a-z]*\):.*/\1/p' "$path/$group-image-$2/config" >"$d/backing" ;;
  build) echo "LXC builds no images: measure building with podman or docker" >&2; exit 65 ;;
  forget) exec lxc-destroy -P "$path" -n "$group-image-$1" ;;
  create)
    image=$1 name=$group-$2; shift 2
    lxc-copy -P "$path" -n "$group-image-$image" -p "$path" -N "$name" || exit 1
    {
      while [ "$1" != -- ]; do
        case $1 in
          limit:*) keep_limit "$name" "$1" || exit 1 ;;
          *)
            to=${1#*:} how=rw
            case $to in *:ro) to=${to%:ro} how=ro ;; esac
            echo "lxc.mount.entry = ${1%%:*} ${to#/} none bind,$how,create=dir 0 0" ;;
        esac
        shift
      done
      shift
      echo "lxc.init.cmd = $*"
    } >>"$path/$name/config" ;;
  # It stays as the container's monitor, longer than the command by whose mark it would be ended.
  start)
    env -u STRATA_RUN lxc-start -P "$path" -n "$group-$1" --daemon --logfile "$d/lxc.log" || exit 1
    if has_limits "$group-$1"; then set_limits "$group-$1" "$("$d/client" pid "$1")"; fi ;;
  stop) exec lxc-stop -P "$path" -n "$group-$1" --timeout 10 ;;
  remove)
    forget_limits "$group-$1"
    exec lxc-destroy -P "$path" -n "$group-$1" --force --snapshots ;;
  exec) name=$1; shift; exec lxc-attach -P "$path" -n "$group-$name" --clear-env -- "$@" ;;
  pid) exec lxc-info -P "$path" -n "$group-$1" --pid --no-humanize ;;
  count) lxc-ls -P "$path" -1 --running | grep -c . || [ $? = 1 ] ;;
  reset)
    forget_limits
    for name in $(lxc-ls -P "$path" -1); do
      lxc-destroy -P "$path" -n "$name" --force --snapshots || exit 1
    done ;;
  copy) exec lxc-copy -P "$path" -n "$group-$1" -p "$path" -N "$group-$2" ;;
  # LXC gives its snapshots names of its own and takes the latest for the one that is meant.
  snapshot) exec lxc-snapshot -P "$path" -n "$group-$1" ;;
  restore)
    latest=$(lxc-snapshot -P "$path" -n "$group-$1" --list | awk '$1 ~ /^snap/ { found = $1 } END { print found }')
    exec lxc-snapshot -P "$path" -n "$group-$1" --restore "$latest" ;;
  publish) missing image ;;
  export|import) missing "$verb" ;;
  info)
    printf '{"version": "%s", "backing": "%s", "root": "%s"}\n' "$(lxc-start --version)" \
      "$(cat "$d/backing")" "$(readlink -- "$d/storage")" ;;
"""
    + ending()
)

_OLDEST = (3, 0)


class LxcDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return [
            *standard_reasons(facts, INFO.tools),
            *version_reasons("LXC", facts.tools.get("lxc-start"), _OLDEST),
            *control_group_reasons("lxc", facts, "lxc-start"),
        ]

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return provides(_made(below, place), below[0])

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        made = _made(below, place)
        configure = sh(_CONFIGURE, made.way, made.root, place.name)
        return [
            *begin(made, _CLIENT),
            Step(configure, None, "write the configuration of this lxc"),
            prove(made),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return inspect(_made(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        made, backing = _made(below, place), str(spec["backing"])

        def judge(info: Mapping[str, object], root: Root) -> list[str]:
            wrong = []
            if text(info, "backing") != backing:
                keeps = text(info, "backing") or "nothing known"
                wrong.append(f"lxc: the engine keeps containers by {keeps} instead of {backing}.")
            if text(info, "root") != made.root:
                wrong.append(f"lxc: it keeps containers in {text(info, 'root')}.")
            if "/lxc/containers/" not in root.inside or root.fstype == "overlay":
                wrong.append(other_root(made, root, backing))
            return wrong

        return differences(made, below[0], seen, judge)


def _made(below: Sequence[Provides], place: Place) -> Instance:
    return instance("lxc", below[0], place, _PROGRAMS)


DRIVER = LxcDriver()
