"""A machine with a user's own engines and network, in namespaces of one test, and a comparison of its state.

The machine is this one, but a visit that damages its network or its files damages nothing that is real: links, routes
and firewall rules are those of a network namespace, mounts those of a mount namespace, and whatever is written below
the directories in `KEPT` lands in a layer of an overlay that goes with the namespaces. Control groups and sysctls that
are not of the network are the real ones.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

STRATA = Path(sys.executable).with_name("strata")

KEPT = ("/etc", "/opt", "/run", "/var/cache", "/var/lib", "/var/log")
"""Everything that an engine of the user's may keep outside of homes: /var/lib/docker, /run/containers, /etc/cni ..."""

BRIDGES = ("docker0", "podman0", "cni-podman0", "lxcbr0", "lxdbr0", "incusbr0", "virbr0")
"""What engines call their own bridges."""

# $1 a directory, the rest: directories to be kept as they are. Prints a line when everything is there.
_MAKE = r"""
set -eu
folder=$1; shift
# Mounts of other tests, which come and go, and whose devices these copies would keep busy.
cut -d ' ' -f 5 /proc/self/mountinfo | tac | while IFS= read -r point; do
  case $point in "${folder%/*}"/*) umount --lazy "$(printf '%b' "$point")" ;; esac
done
mount -t tmpfs tmpfs "$folder"
for kept; do
  mkdir -p "$folder/new$kept" "$folder/work$kept"
  mount -t overlay overlay -o "lowerdir=$kept,upperdir=$folder/new$kept,workdir=$folder/work$kept" "$kept"
done
mount -t tmpfs tmpfs /dev/shm
mkdir "$folder/home"
echo ready
exec sleep 100000
"""

# The rest: names of bridges. Without addresses that the kernel makes by itself, which it does some time later.
_NETWORK = r"""
set -eu
echo 1 >/proc/sys/net/ipv6/conf/default/addr_gen_mode
number=17
ip link set lo up
for bridge; do
  ip link add "$bridge" type bridge
  ip link set "$bridge" up
  ip address add "172.$number.0.1/16" dev "$bridge"
  ip address add "fd00:$number::1/64" dev "$bridge" nodad
  ip link add "port$number" type veth peer name "peer$number"
  ip link set "port$number" master "$bridge" up
  ip link set "peer$number" up
  ip route add "10.$number.0.0/24" via "172.$number.0.2" dev "$bridge"
  ip rule add from "10.$number.0.0/24" table "$number"
  number=$((number + 1))
done
nft add table inet users '{ chain forward { type filter hook forward priority 0; policy drop; }; }'
nft add rule inet users forward iifname docker0 accept
for program in iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy; do
  "$program" -N USERS || continue  # not every kernel has the older tables
  "$program" -A FORWARD -i docker0 -j USERS
done
"""

# $1 the directory. One fact a line, its kind first.
_STATE = r"""
each() { sed "s|^|$1: |"; }
ip -oneline link | each link
ip -oneline address | each address
ip route show table all | each route
ip -6 route show table all | each route
ip rule | each rule
ip -6 rule | each rule
nft list ruleset | each nftables
for program in iptables-legacy-save ip6tables-legacy-save iptables-nft-save ip6tables-nft-save; do
  "$program" | sed '/^#/d; s/\[[0-9]*:[0-9]*\]//' | each "$program"
done
cut -d ' ' -f 4- /proc/self/mountinfo | each mount
find /sys/fs/cgroup -type d | each group
for setting in cgroup.subtree_control cgroup.clone_children notify_on_release release_agent memory.use_hierarchy; do
  for group in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ ! -e "$group/$setting" ] || sed "s|^|setting: $group/$setting |" "$group/$setting"
  done
done
grep --recursive --no-messages --binary-files=text '' /proc/sys | each sysctl
cat /sys/kernel/security/apparmor/profiles 2>/dev/null | each profile
ls -A /run/netns 2>/dev/null | each namespace
ls -A /dev/shm | each memory
find "$1/new" "$1/home" -type d -printf '%y %P\n' -o -printf '%y %P, %s bytes, changed %t\n' | each file
"""

# What the kernel counts or draws again, what may stay, and the control groups of other runs.
_PASSING = re.compile(
    r"sysctl: /proc/sys/("
    r"fs/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota/|binfmt_misc/)"
    r"|kernel/(ns_last_pid|random/|pty/nr|perf_event_max_sample_rate|tainted|sched_domain/|latencytop)"
    r"|net/netfilter/nf_conntrack_count|vm/stat_refresh)"
    r"|profile: (docker|containers)-default"  # decision 42: the user's engine may have come to use it
    r"|file: . run/blkid"  # libblkid's cache of devices, which any mkfs renews
    r"|file: . run/strata(/lock|/holder|$)"  # the lock of the machine, and who had it last: they stay until it restarts
    r"|group: .*(/strata-|[./]strata-[0-9a-f]{6}-|process_api)"
)


@dataclass(frozen=True)
class UsersMachine:
    folder: Path
    process: int  # it holds the namespaces

    def argv(self, *words: str | Path) -> list[str]:
        """A command line that runs on this machine."""
        enter = ("nsenter", f"--target={self.process}", "--net", "--mount", "env", f"HOME={self.folder}/home")
        return [*enter, *(str(word) for word in words)]

    def output(self, *words: str | Path) -> str:
        done = subprocess.run(self.argv(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def state(self) -> Counter[str]:
        """One line for each fact that a visit must not change."""
        lines = self.output("sh", "-c", _STATE, "sh", self.folder).splitlines()
        return Counter(line for line in lines if not _PASSING.match(line))

    def changes(self, before: Counter[str]) -> str:
        """What of the state is gone (-) and what is new (+), as lines; "" when nothing changed."""
        after = self.state()
        gone, new = before - after, after - before
        return "\n".join([f"- {line}" for line in sorted(gone)] + [f"+ {line}" for line in sorted(new)])


@contextmanager
def make_users_machine(runs: Path) -> Iterator[UsersMachine]:
    """The machine, cleaned at the end of the runs in the directory `runs` that a test did not bring to their end."""
    for program in ("ip", "nft", "iptables-legacy"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; scripts/os-packages.sh test installs it")
    folder = Path(mkdtemp(prefix="users-machine-"))
    kept = [path for path in KEPT if Path(path).is_dir()]
    make = ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", _MAKE, "sh", folder, *kept)
    with subprocess.Popen(make, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
            machine = UsersMachine(folder, holder.pid)
            machine.output("sh", "-c", _NETWORK, "sh", *BRIDGES)
            yield machine
            for database in runs.glob("**/strata.db"):
                if any((database.parent / "work").glob("*")):
                    subprocess.run(machine.argv(STRATA, "clean", database.parent), capture_output=True)
        finally:
            holder.kill()
    folder.rmdir()
