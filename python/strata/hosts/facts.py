"""One shell script that says what a machine is, and the pure reading of its output. The same for every transport."""

from __future__ import annotations

import re
from collections.abc import Iterable

from strata import ticks
from strata.model import Command, Facts

# Programs that do not answer to --version. Everything else is asked with it.
_VERSION_ARGUMENT = {
    "mkfs.ext4": "-V",
    "mkfs.xfs": "-V",
    "mkfs.f2fs": "-V",
    "dumpe2fs": "-V",
    "chattr": "-V",
    "mkfs.fat": "--help",
    "python3": "-V",
    "udevadm": "--version",
    "sh": "",
}

# Asking fifty programs for their versions takes an emulated processor half a minute.
_TIMEOUT_S = 300.0

_SCRIPT = (
    r"""
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
dir=$1; shift
while [ ! -d "$dir" ] && [ "$dir" != / ]; do dir=$(dirname -- "$dir"); done
echo '@hostname'; uname -n
echo '@kernel'; uname -r
echo '@os'; (. /etc/os-release && echo "$PRETTY_NAME") 2>/dev/null
echo '@cpu_model'; sed -n 's/^model name[^:]*: //p;s/^Model[^:]*: //p' /proc/cpuinfo | head -n 1
echo '@cpus'; nproc
echo '@memory_kb'; sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo
echo '@uid'; id -u
echo '@machine_id'; cat /etc/machine-id 2>/dev/null
echo '@free'; df --output=avail -B1 -- "$dir" | tail -n 1
echo '@filesystems'; sed 's/.*\t//' /proc/filesystems
ls "/lib/modules/$(uname -r)/kernel/fs" 2>/dev/null
echo '@modules'
cat "/lib/modules/$(uname -r)/modules.dep" "/lib/modules/$(uname -r)/modules.builtin" 2>/dev/null |
  sed -n 's|^\([^:]*\).*|\1|; \#/\(md\|block\|fs\|scsi\|nvme\|zfs\|updates\|extra\)/#s|.*/\([^/]*\)\.ko.*|\1|p'
ls /sys/module 2>/dev/null
echo '@schedulers'; cat /sys/block/*/queue/scheduler 2>/dev/null
echo '@cgroups'
while read -r _ point type options _; do
  case $type in
    cgroup)
      echo "$options" | tr , '\n' | grep -xE 'blkio|cpu|cpuacct|cpuset|devices|freezer|memory|pids' | sed 's/^/1:/' ;;
    cgroup2) tr ' ' '\n' <"$point/cgroup.controllers" | sed -n 's/^./2:&/p' ;;
  esac
done </proc/self/mounts 2>/dev/null
echo '@id_maps'
for tool in newuidmap newgidmap; do command -v "$tool" >/dev/null && echo "$tool"; done
for file in subuid subgid; do grep -qsE "^($(id -un)|$(id -u)):" "/etc/$file" && echo "$file"; done
for file in subuid subgid; do
  sed -n 's/^\([^:]*\):.*/\1/p' "/etc/$file" 2>/dev/null | sort -u | while read -r name; do
    # Of users that there are: the files may still name others.
    id -- "$name" >/dev/null 2>&1 && echo "$file:$name"
  done
done
echo '@io_control'
if grep -qsw io /sys/fs/cgroup/cgroup.controllers /sys/fs/cgroup/unified/cgroup.controllers; then echo 2
elif [ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ]; then echo 1; fi
echo '@io_uring_disabled'
off=$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null)
# With 1 it is there for who has CAP_SYS_ADMIN (bit 21), and for a group.
if [ "$off" = 1 ]; then
  able=$(sed -n 's/^CapEff:[[:space:]]*/0x/p' /proc/self/status)
  group=$(cat /proc/sys/kernel/io_uring_group)
  if [ $((${able:-0} >> 21 & 1)) = 1 ] || id -G | tr ' ' '\n' | grep -qxF -e "$group"; then off=0; fi
fi
echo "$off" | grep -x '[12]'
echo '@ticks_per_s'
"""
    + ticks.SHOW
    + r"""echo '@without'
# XFS tells of its quotas here wherever it has them.
if [ -d /proc/fs/xfs ] && [ ! -e /proc/fs/xfs/xqm ]; then echo 'xfs quotas'; fi
# Those of ext4 need a format as well; whether there is one, only some kernels tell.
if [ -d /proc/sys/fs ] && [ ! -e /proc/sys/fs/quota ] || zgrep -qs '^# CONFIG_QFMT_V2 is not set' /proc/config.gz; then
  echo 'ext4 quotas'
fi
for pair; do
  tool=${pair%%=*}; how=${pair#*=}
  case $tool in
    # a module of the system's own Python, whatever python3 comes first in PATH; -I: nothing of the current directory
    python3:*)
      said=present
      # Its own service, or systemd for it, listens there; another is named by its user.
      if [ "$tool" = python3:libvirt ] && [ -z "${LIBVIRT_DEFAULT_URI-}" ] &&
        [ ! -S /run/libvirt/libvirt-sock ] && [ ! -S /run/libvirt/virtqemud-sock ]; then said='nobody listens'; fi
      /usr/bin/python3 -I -c "import ${tool#*:}" 2>/dev/null && { echo "@tool $tool"; echo "$said"; }
      continue ;;
  esac
  path=$(command -v -- "$tool") || continue
  echo "@tool $tool"
  case $tool:$how in
    *:) echo present ;;
    *) "$path" $how </dev/null 2>&1 | head -n 1 ;;
  esac
done
"""
)


def command(tools: Iterable[str], work_dir: str) -> Command:
    pairs = (f"{tool}={_VERSION_ARGUMENT.get(tool, '--version')}" for tool in sorted(set(tools)))
    return Command(("sh", "-c", _SCRIPT, "sh", work_dir, *pairs), timeout_s=_TIMEOUT_S)


def parse(text: str) -> Facts:
    """Facts from the script's output. What the machine did not say is empty or 0 only where that is its meaning."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("@"):
            current = sections.setdefault(line[1:], [])
        else:
            current.append(line)

    def first(name: str) -> str:
        return next((line.strip() for line in sections.get(name, []) if line.strip()), "")

    def number(name: str) -> int:
        return int(text) if (text := first(name)).isdecimal() else 0

    numbers = [int(n) for n in re.findall(r"\d+", first("kernel"))[:3]]
    schedulers = " ".join(sections.get("schedulers", [])).replace("[", " ").replace("]", " ").split()
    return Facts(
        hostname=first("hostname"),
        kernel=(*numbers, 0, 0, 0)[:3],  # type: ignore[arg-type]
        kernel_text=first("kernel"),
        os=first("os"),
        cpu_model=first("cpu_model"),
        cpus=number("cpus") or 1,
        memory_bytes=number("memory_kb") * 1024,
        root=first("uid") == "0",
        filesystems=frozenset(line.strip() for line in sections.get("filesystems", []) if line.strip()),
        tools={
            name.removeprefix("tool "): (" ".join(lines).strip() or "present")
            for name, lines in sections.items()
            if name.startswith("tool ")
        },
        schedulers=frozenset(schedulers),
        free_bytes=number("free"),
        machine_id=first("machine_id"),
        io_control=first("io_control"),
        io_uring_disabled=first("io_uring_disabled"),
        ticks_per_s=number("ticks_per_s") or None,
        cgroups=frozenset(line.strip() for line in sections.get("cgroups", []) if line.strip()),
        id_maps=frozenset(line.strip() for line in sections.get("id_maps", []) if line.strip()),
        without=frozenset(line.strip() for line in sections.get("without", []) if line.strip()),
        modules=frozenset(line.strip().replace("-", "_") for line in sections.get("modules", []) if line.strip()),
    )
