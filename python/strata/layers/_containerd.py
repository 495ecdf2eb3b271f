"""A containerd of one visit: Docker's, or the engine itself."""

from __future__ import annotations

from strata.layers._daemon import UNMARKED
from strata.layers._engine import Instance, start
from strata.model import Step

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "containerd-shim", "ctr", "runc")
"""All of it that may be left running."""

# The names are those of what containerd(...) is asked for; Docker gives the first two.
CONFIGURE = """\
dir=$1 kept=$2 snapshotter=$3 group=$4 size=$5 fs=$6 pool=$7
cat >"$dir/containerd.toml" <<END
version = 2
root = "$kept/containerd"
state = "$dir/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "$dir/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "$kept/opt"
END
ln -s -- "$kept" "$dir/storage"
"""
"""$1 short way to the place, $2 the engine's directory on the stack. What containerd keeps of images and snapshots is
there, the rest is not."""


def start_containerd(made: Instance) -> Step:
    ask = 'ctr --address "$1/containerd.sock" version'
    return start(made, "containerd", ask, *UNMARKED, "containerd", "--config", f"{made.way}/containerd.toml")
