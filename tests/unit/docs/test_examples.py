"""Every example of the documents can be planned, on a machine that has everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strata import layers, workloads
from strata.cli import written
from strata.model import Facts, GuestImage
from strata.planning import guest_places, user_directory
from strata.planning import plan as planning
from strata.planning.resources import GuestResources, Resources
from strata.planning.user_directory import UserDirectory
from strata.run import session

from .test_documents import COMMANDS, TYPED, Fence, continues, read_campaign

EXAMPLES = [(fence, argv) for fence, argv in TYPED if argv[1] in ("plan", "run") and not continues(argv[2:])]


class Everything(frozenset[str]):
    """Of kernel modules, file systems and the like: each that is asked for is there."""

    def __contains__(self, name: object) -> bool:
        return True


MACHINE = Facts(
    hostname="h",
    kernel=(6, 12, 0),
    kernel_text="6.12.0",
    os="Debian GNU/Linux 13",
    cpu_model="c",
    cpus=2,
    memory_bytes=16 << 30,
    root=True,
    filesystems=Everything(),
    tools=dict.fromkeys(planning.tools(layers.drivers().values(), workloads.workloads().values()), "99")
    | {"fio": "fio-3.39"},
    schedulers=Everything({"none", "mq-deadline", "bfq"}),
    free_bytes=1 << 40,
    modules=Everything(),
    cgroups=Everything(),
    id_maps=Everything(),
    io_control="2",
)


def planned(fence: Fence, argv: list[str]) -> planning.Plan:
    command = COMMANDS[argv[1]]
    said: dict[str, Any] = command.make_context(argv[1], argv[2:]).params
    where = written.Where(said["on"], said["clock"], said["debian"], said["kernel"])
    campaign = read_campaign(said["what"], said["workload"], fence, said["profile"])
    campaign = guest_places.fitted(
        written._with_disks(written._placed(campaign, where), said["size"], where), nested=False
    )
    given = session.devices(said["device"], said["wipe"], campaign.testbed)
    claimed = [replace(disk, size_bytes=1 << 40) for disk in given.claimed]
    own = {
        path: UserDirectory((), 1 << 40, "ext4") for path in filter(None, map(user_directory.path_of, campaign.stacks))
    }
    guests = GuestResources((), GuestImage("/guests"), MACHINE, 64 << 30, ports=campaign.testbed.kind == "lab")
    return planning.make(
        campaign.stacks,
        [(call, workloads.find(call)) for call in campaign.workloads],
        layers.drivers(),
        Resources(
            MACHINE,
            planning.disks_for(campaign.stacks, campaign.disks, claimed),
            campaign.memory_bytes,
            own,
            guests=guests,
        ),
    )


@pytest.mark.parametrize(("fence", "argv"), EXAMPLES, ids=[" ".join(argv[1:])[:90] for _, argv in EXAMPLES])
def test_every_example_can_be_planned(fence: Fence, argv: list[str]) -> None:
    made = planned(fence, argv)
    assert made.runnable and not made.skipped, dict(made.skipped)


def test_guests_and_tenants_are_among_the_examples() -> None:
    texts = [" ".join(argv) for _, argv in EXAMPLES]
    assert sum("| vm" in text for text in texts) >= 3 and sum("tenants(" in text for text in texts) >= 2
