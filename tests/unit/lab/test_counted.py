"""The number of instructions in a saved state of QEMU is read, and set to none; its time stays."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from strata.errors import HostLost
from strata.lab import counted

MARK = b"\x05\x0ctimer/icount\x00\x00\x00\x01"
# What a machine's memory could hold: the same bytes, with other numbers.
MEMORY = b"QEVM" + bytes(1000) + MARK + struct.pack(">qq", 7, 7) + bytes(1000)


def stream(bias: int, instructions: int) -> bytes:
    return MEMORY + b"timer" + bytes(24) + MARK + struct.pack(">qq", bias, instructions) + b"\x05\x11timer/icount/warp"


@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("instructions", [1, 2**31, 2**32 - 1, 16_901_075_575])
def test_a_state_counts_from_zero_at_the_same_time(tmp_path: Path, instructions: int, shift: int) -> None:
    state = tmp_path / "state"
    state.write_bytes(stream(123_808_762, instructions))
    counted.restart(state, instructions, shift)
    assert state.read_bytes() == stream(123_808_762 + (instructions << shift), 0)


@pytest.mark.parametrize("written", [stream(5, 41), MEMORY[:900]])
def test_a_state_that_says_otherwise_is_left_as_it_is(tmp_path: Path, written: bytes) -> None:
    state = tmp_path / "state"
    state.write_bytes(written)
    with pytest.raises(HostLost, match="does not say how many instructions"):
        counted.restart(state, 42, 0)
    assert state.read_bytes() == written
