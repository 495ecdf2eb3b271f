"""A containerd of one visit: Docker's, or the engine itself."""

from __future__ import annotations

from strata.layers._engine import Instance, start
from strata.model import Step

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "containerd-shim", "ctr", "runc")
"""All of it that may be left running."""

# $1 place, $2 the engine's directory on the stack. What it keeps of images and snapshots is there, the rest is not.
CONFIGURE = """\
dir=$1 root=$2
cat >"$dir/containerd.toml" <<END
version = 2
root = "$root/containerd"
state = "$dir/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "$root/opt"
END
ln -s -- "$root" "$dir/storage"
"""


def start_containerd(made: Instance) -> Step:
    ask = 'ctr --address "$1/containerd.sock" version'
    return start(made, "containerd", ask, "containerd", "--config", f"{made.way}/containerd.toml")
