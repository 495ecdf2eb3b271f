"""The thin pool that an engine has its containers in, as the clients of engines see it."""

from __future__ import annotations

ROOM = r"""    if [ -n "$pool" ]; then
      # The status commits what the pool has changed, and so what it has freed.
      status=$(dmsetup status "$pool") && [ -n "$status" ] || exit 1
      [ "$verb" = room ] || exit 0
      blocks=$(echo "$status" | awk '{ split($6, used, "/"); print used[1] }')
      dmsetup table "$pool" | awk -v blocks="$blocks" '{ print blocks * $6 * 512, "-" }'
      exit
    fi
"""
"""For the verbs settle and room, before what counts a directory: what the pool gave out. Set before: pool, its name
or ""."""
