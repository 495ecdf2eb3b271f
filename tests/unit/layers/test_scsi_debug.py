"""scsi_debug: a source whose disks share one module's knobs."""

from __future__ import annotations

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.model import Kind, Value
from strata.planning.layout import lay_out

from .layer_cases import PLACE, captured, facts, spec

DRIVER = drivers()["scsi_debug"]


@pytest.mark.parametrize(
    ("values", "changes", "word"),
    [
        ({"size": (1 << 20) + 512}, {}, "not in whole MiB"),
        ({"blocksize": 1536}, {}, "power of two"),
        ({"size": 8 << 30}, {}, "make size= smaller"),
        ({"delay": 1.5}, {}, "less than a second"),
        ({}, {"kernel": (5, 8, 0)}, "Linux 5.9 or newer"),
        ({}, {"modules": frozenset()}, "no scsi_debug"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_for(values: dict[str, Value], changes: dict[str, object], word: str) -> None:
    (reason,) = DRIVER.reasons_not_to_run(spec("scsi_debug", values), facts(**changes))
    assert word in reason and reason.endswith(".")


def test_the_disks_of_a_stack_have_one_owner_and_a_host_each() -> None:
    (stack,) = parse_stacks("2*scsi_debug(size=2G, delay=1ms) | md(raid1) | xfs", catalogue())
    assert stack.disks() == {}
    layout = lay_out(stack, drivers(), (), work_dir="/run/strata", run_uuid="5" * 32, attempt=1)
    first, second = layout.layers[:2]
    assert first.provides.kind is Kind.BLOCK and first.provides.size_bytes == 2 << 30
    assert (first.provides.path, second.provides.path) == (
        "/run/strata/55555555-1/0/device",
        "/run/strata/55555555-1/1/device",
    )
    load, add = (
        [step.do.argv for step in DRIVER.plan_create(layer.node.call, [], layer.place)] for layer in (first, second)
    )
    assert load[0][-6:] == add[0][-6:] and load[1] != add[1]


def test_the_name_fits_what_a_scsi_disk_can_say() -> None:
    load, _ = DRIVER.plan_create(spec("scsi_debug"), [], PLACE)
    assert load.do.argv[4] == "strata-a1b2c3" and len(load.do.argv[4]) <= 16
    assert load.undo is not None and load.undo.argv[-1] == "strata-a1b2c3"


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("ndelay=1000000", "ndelay=2000", "ndelay is 2000"),
        ("bytes=268435456", "bytes=512", "bytes is 512"),
        ("strata-5f8e1c", "scsi_debug", "inq_product is scsi_debug instead of strata-5f8e1c"),
        ("lbpu=1", "lbpu=0", "lbpu is 0"),
    ],
    ids=str,
)
def test_one_thing_that_is_not_so(old: str, new: str, word: str) -> None:
    answers = captured("scsi_debug", "delayed")
    (found,) = answers.differences(answers.with_stdout(1, old, new))
    assert word in found and found.startswith("scsi_debug: ") and found.endswith(".")
