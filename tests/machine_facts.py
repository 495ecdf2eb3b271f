"""What an ordinary machine says of itself, with every program installed: for tests that plan on one."""

from __future__ import annotations

from strata import layers, workloads
from strata.model import Facts
from strata.planning import plan as planning

FACTS = Facts(
    hostname="h",
    kernel=(6, 18, 0),
    kernel_text="6.18.0",
    os="Debian",
    cpu_model="c",
    cpus=2,
    memory_bytes=8 << 30,
    root=True,
    filesystems=frozenset({"ext4", "xfs", "btrfs"}),
    tools=dict.fromkeys(planning.tools(layers.drivers().values(), workloads.workloads().values()), "99")
    | {"fio": "fio-3.33"},
    schedulers=frozenset({"none", "bfq"}),
    free_bytes=100 << 30,
)
