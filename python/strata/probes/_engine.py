"""What the scripts share that try a container engine: an image of this machine's busybox, and containers of it.

$1 is the engine's client (`layers/_engine.py`): the same words for every engine.
"""

from __future__ import annotations

ENGINE = """\
client=$1
box=$notes/box
chmod a+x "$notes" # an engine of another user reads what is in it
# An image named probe, with a file of $1 MiB in it that does not compress.
image() {
  "$client" reset >/dev/null || return 1
  mkdir -p "$box/bin" "$box/dev" "$box/etc" "$box/proc" "$box/sys" "$box/tmp" || return 1
  cp -- "$(command -v busybox)" "$box/bin/busybox" || return 1
  for name in sh cat dd rm sleep sync wc; do ln -s busybox "$box/bin/$name" || return 1; done
  printf '%s\\n' '#!/bin/sh' 'trap exit TERM' 'sleep 2147483 & wait' >"$box/stay" && chmod +x "$box/stay" || return 1
  fill "$box/large" "$1"
  tar --create --file "$box.tar" --owner=0 --group=0 --numeric-owner --directory "$box" . &&
    "$client" load "$box.tar" probe >/dev/null || return 1
  rm -rf -- "$box" "$box.tar"
}
# A running container $1; the rest: words of the client.
container() {
  name=$1; shift
  "$client" create probe "$name" "$@" -- /stay >/dev/null && "$client" start "$name" >/dev/null
}
taken() { "$client" room | awk '$1 != "-" { print $1 }'; }
"""
"""After `SHELL`."""

TOOLS = {"busybox": "busybox-static", "tar": "tar", "awk": "mawk"}
