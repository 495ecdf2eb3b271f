from __future__ import annotations

import json

import pytest

from strata.errors import WorkloadFailed
from strata.model import Measured, TrialOutput
from strata.workloads import find

from .workload_calls import call

_MIB = 1 << 20


def read(grow: str, *, base: str = "-", made: int = 0, room: int = 0) -> Measured:
    """`made`: the room that the container took as it was made; `room`: as it grew."""
    looks = {"room without": "1000 7", "room before": f"{1000 + made} 8", "room after": f"{1000 + made + room} 8"}
    printed = {"base": base, "grow": grow, **looks}
    phases = [
        {"name": name, "parallel": 1, "wall_s": 2.0, "commands": [{"at_s": 0.0, "took_s": 2.0, "stdout": text}]}
        for name, text in printed.items()
    ]
    spec = call("container/outgrow", most=400 * _MIB)
    files = {"batch.json": json.dumps({"phases": phases, "failure": None})}
    return find(spec).read(spec, TrialOutput(0, 10.0, "", "", files))


def test_refused_at_its_base_size() -> None:
    found = read(f"{240 * _MIB}\ncat: write error: Disk quota exceeded", base=str(256 * _MIB), room=240 * _MIB)
    assert found.metrics == {
        "grown_bandwidth": 120.0,
        "grown_bytes": 240 * _MIB,
        "refused": 1,
        "base_size_bytes": 256 * _MIB,
        "base_size_honoured": 1,
        "storage_path_honoured": 1,
    }
    assert found.notes == ("after 240.0 MiB it was refused: cat: write error: Disk quota exceeded",)
    assert found.bytes_written == 240 * _MIB


def test_beyond_its_base_size_and_elsewhere() -> None:
    found = read(f"{400 * _MIB}\n", base=str(256 * _MIB), room=10 * _MIB)
    assert found.metrics["base_size_honoured"] == 0 and found.metrics["refused"] == 0
    assert found.metrics["storage_path_honoured"] == 0


@pytest.mark.parametrize(
    ("grow", "why"),
    [(f"{100 * _MIB}\nNo space left on device", "what is below was full"), (f"{200 * _MIB}", "give a larger `most`")],
)
def test_nothing_is_known_of_a_base_size_that_was_not_reached(grow: str, why: str) -> None:
    found = read(grow, base=str(256 * _MIB))
    assert "base_size_honoured" not in found.metrics and why in found.notes[-1]


def test_an_engine_that_takes_all_the_room_of_a_container_as_it_makes_it_keeps_to_its_path() -> None:
    refused = f"{240 * _MIB}\nNo space left on device"
    assert read(refused, base=str(256 * _MIB), made=256 * _MIB).metrics["storage_path_honoured"] == 1
    # A copy of the image is not all the room that it may have.
    assert read(refused, base=str(256 * _MIB), made=32 * _MIB).metrics["storage_path_honoured"] == 0
    assert read(f"{4 * _MIB}\n", made=32 * _MIB).metrics["storage_path_honoured"] == 0


def test_without_a_base_size_nothing_is_said_of_one() -> None:
    assert "base_size_bytes" not in read(f"{_MIB}\n", room=_MIB).metrics


def test_no_number_is_a_failure() -> None:
    with pytest.raises(WorkloadFailed, match="does not say"):
        read("sh: out of memory")
