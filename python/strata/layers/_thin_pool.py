"""The thin pool that an engine has its containers in, as the clients of engines see it."""

from __future__ import annotations

ROOM = r"""    if [ -n "$pool" ]; then
      dmsetup status "$pool" | awk '{ split($6, used, "/"); print used[1] }' | {
        read -r blocks
        dmsetup table "$pool" | awk -v blocks="$blocks" '{ print blocks * $6 * 512, "-" }'
      }
      exit
    fi
"""
"""For the verb room, before what counts a directory: what the pool gave out. Set before: pool, its name or ""."""
