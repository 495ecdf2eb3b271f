#!/usr/bin/env bash
# Refuses subjects of commits above 72 characters. Older commits keep theirs. Without git there is nothing to check.
set -euo pipefail
FIRST_CHECKED=2026-11-25T13:05:00Z
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then exit 0; fi
long=$(git log --no-merges --since="$FIRST_CHECKED" --format='%h %s' | awk '{ subject = substr($0, index($0, " ") + 1) } length(subject) > 72')
if [ -n "$long" ]; then
  printf 'These commits have subjects above 72 characters; shorten each with `git commit --amend` or a rebase:\n%s\n' "$long" >&2
  exit 1
fi
