"""What of storage stands on a machine: compared before and after a visit it shows what a layer left behind.

Only on a machine that nobody else uses: elsewhere others come and go meanwhile.
"""

from __future__ import annotations

from strata.hosts.base import Host
from strata.model import Command

# Every line is one thing that somebody made. Programs that are not there made nothing.
_LIST = r"""
sed 's/^\([^ ]*\) \([^ ]*\) \([^ ]*\) .*/mount \2 of \1 (\3)/' /proc/mounts
sed -n 's/^\(md[^ ]*\) : .*/array \1/p' /proc/mdstat 2>/dev/null
dmsetup ls 2>/dev/null | sed -n 's/^\([^\t]*\)\t.*/device-mapper device \1/p'
losetup --list --noheadings --output NAME 2>/dev/null | sed 's/^/loop device /'
vgs --devicesfile '' --noheadings -o vg_name 2>/dev/null | sed 's/^ */volume group /'
ls /sys/fs/bcache 2>/dev/null | sed -n 's/^\(.*-.*\)$/bcache set \1/p'
ls /sys/kernel/config/nullb 2>/dev/null | sed -n '/^features$/d; s/^/null_blk device /p'
[ -e /proc/spl/kstat/zfs ] && zpool list -H -o name 2>/dev/null | sed 's/^/pool /'
cat /proc/[0-9]*/comm 2>/dev/null | sed -nE 's/^(qemu-storage-da|qemu-nbd|nbdfuse)$/program \1/p'
exit 0
"""


def look(host: Host) -> frozenset[str]:
    said = host.run(Command(("sh", "-c", _LIST), timeout_s=60.0)).stdout
    return frozenset(line for line in said.splitlines() if line)
