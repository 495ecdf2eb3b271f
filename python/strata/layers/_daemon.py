"""A program that a layer leaves running between the steps of a visit, and that its undo ends.

It runs without the mark by which strays are ended (docs/decisions/0005), so it needs another: the argument that names
its file of a process number. That file lies in the layer's own place, so no program of anybody else's names it; and the
argument is there from the program's first moment, when nothing has been written to the file yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.layers._steps import sh
from strata.model import Command

UNMARKED = ("env", "--unset=STRATA_RUN")
"""What to put before a program that is to outlive the command that starts it."""

# $1 the argument. Not on grep's command line: it would find itself.
FIND = """\
found() { printf %s "$1" | grep -lsxzF -f - /proc/[0-9]*/cmdline | sed 's|/proc/\\([0-9]*\\)/.*|\\1|'; }
"""
"""A function of the shell: the numbers of the processes that have exactly this argument."""

SHOWN = """\
shown() {
  echo "process=$1"
  tr '\\000' '\\n' < "/proc/$1/cmdline" | sed 's/^/argument=/'
  file=$(readlink -f -- "$2")
  for open in /proc/"$1"/fd/*; do
    if [ "$(readlink -- "$open")" = "$file" ]; then
      sed -n 's/^flags:[^0-9]*/flags=/p' "/proc/$1/fdinfo/${open##*/}"
    fi
  done
}
"""
"""A function of the shell: what runs as the process $1, and how it has the file or device $2 open, as NAME=VALUE."""

_O_DIRECT = 0o40000 | 0o200000  # on x86, and on ARM; there the other one is said of directories only


def direct_differences(asked: str, path: str, *, direct: bool, state: Mapping[str, Sequence[str]]) -> list[str]:
    """Whether the program that `SHOWN` told of passes the page cache by with `path`. `asked`: the argument of the layer
    that says so, as "qsd(cache=none)"."""
    flags = state.get("flags", [])
    layer = asked.partition("(")[0]
    if not flags:
        return [f"{layer}: the program that is to serve {path} does not have it open."]
    passes = {bool(int(each, 8) & _O_DIRECT) for each in flags if each.isdecimal() and not set(each) & set("89")}
    if passes != {direct}:
        return [f"{layer}: {path} is open {'without' if direct else 'with'} O_DIRECT, which is not {asked}."]
    return []


# $1 the argument's name and `=`, $2 the file of the process number, $3 seconds that it may take to write out what it
# holds, the rest: more to remove. In pieces: this script must not find itself.
_END = (
    FIND
    + """\
argument=$1$2 file=$2 most=$(($3 * 20)); shift 3
asked= waited=0
while processes=$(found "$argument") && [ -n "$processes" ]; do
  if [ -z "$asked" ]; then asked=yes; kill $processes 2>/dev/null; fi
  if [ "$waited" -ge "$most" ]; then
    kill -9 $processes 2>/dev/null; sleep 2
    if [ -n "$(found "$argument")" ]; then echo "$processes was killed and still lives" >&2; exit 1; fi
  fi
  sleep 0.05; waited=$((waited + 1))
done
rm -f -- "$file" "$@\""""
)


def end(option: str, number_file: str, *also: str, within_s: int = 120) -> Command:
    """End the program that was started with `{option}={number_file}`, wait until it has gone, and remove that file
    and `also`."""
    return sh(_END, f"{option}=", number_file, str(within_s), *also, timeout_s=within_s + 60.0)
