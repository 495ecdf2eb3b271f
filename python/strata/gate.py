"""Where the loads of several tenants begin: each says that it is ready, and waits for the instant that all are told.

A gate is a directory of each tenant. A program that has to start before its load can begin (a server, a set of files
that is looked through) passes it by itself, with `GATE`, `BEGIN` and `END` or as crates/engine/src/gate.rs does, and
finds it by the variable STRATA_GATE; for any other `PART` does. The files: `ready` (made by the load), `go` (the
instant, in ms of Unix time by the clock there; "never": give up), `began` and `ended` (when the load did, likewise),
`pass` (a script of `GATE`), and `gone` (when the program has ended: its exit code).
"""

from __future__ import annotations

import shlex

GATE = """\
gate() {
  [ -n "${STRATA_GATE:-}" ] || return 0
  : >"$STRATA_GATE/ready" || exit 1
  until [ -e "$STRATA_GATE/go" ]; do sleep 0.05; done
  read -r at <"$STRATA_GATE/go"
  [ "$at" != never ] || exit 1
  # What sleep takes to start itself, long on a busy machine, is not to be in the time: the end of the wait is watched.
  while left=$((at - $(date +%s%3N))); [ "$left" -gt 0 ]; do
    if [ "$left" -gt 500 ]; then left=$((left - 400)); sleep "$(printf %d.%03d $((left / 1000)) $((left % 1000)))"; fi
  done
  # Several may pass it, some of them later: the first says when it began, the last when it ended.
  [ -s "$STRATA_GATE/began" ] || date +%s%3N >"$STRATA_GATE/began"
}
passed() { [ -z "${STRATA_GATE:-}" ] || date +%s%3N >"$STRATA_GATE/ended"; }
"""
"""Functions of the shell: `gate` right before the load, `passed` right after it. Without a gate they do nothing."""

# Of one line and without the characters that end a value of fio's. fio redirects what they end with to a file of its
# own; nothing gets there.
_PASS = '[ -z "$STRATA_GATE" ] || sh "$STRATA_GATE/pass" {} && exit 0 || exit 1 || :'
BEGIN, END = _PASS.format("gate"), _PASS.format("passed")
"""The same for a program that carries out a command of the shell right before its load, and one right after it."""

# $1 the gate, which is made; $2 yes: the command passes it itself; alone: it does, and waits for nobody; the rest: the
# command. A user who may not enter the directories above it (PostgreSQL's) reaches it by the open descriptor.
PART = (
    GATE
    + "pass="
    # fio does not mind that such a command fails: all of it is ended.
    + shlex.quote(GATE + '("$1") || kill -TERM "$(cat "$STRATA_GATE/pid")"')
    + """
own=$2; mkdir -m 0777 -- "$1" && chmod 0777 -- "$1" && exec 9<"$1" || exit 1
STRATA_GATE=/proc/self/fd/9
[ "$own" != alone ] || { echo 0 >"$1/go" && own=yes; } || exit 1
shift 2
child= stopping=
trap 'stopping=yes; [ -z "$child" ] || kill -TERM "$child"' TERM
echo $$ >"$STRATA_GATE/pid"
if [ "$own" = yes ]; then
  export STRATA_GATE
  printf %s "$pass" >"$STRATA_GATE/pass" || exit 1
else
  gate
fi
"$@" &
child=$!
[ -z "$stopping" ] || kill -TERM "$child"
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
[ -s /proc/self/fd/9/ended ] || passed
exit "$code"
"""
)
"""One tenant's command, or the only one, behind its gate. `pid` is the process to tell that it shall end: this shell,
which tells it."""

GONE = """\
gone() {
  mkdir -p -- "$1/gate" && echo "$2" >"$1/gate/gone.new" && mv -- "$1/gate/gone.new" "$1/gate/gone"
}
"""
"""For whoever waits for `PART`, however it ended: $1 the directory of the trial, $2 the exit code."""
