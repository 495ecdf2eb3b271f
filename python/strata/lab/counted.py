"""The number of instructions in a saved state of QEMU.

On the virtual clock a machine's time is a bias and the instructions that it carried out, shifted. While QEMU records
(decision 39) it takes the difference of that number to the last it has seen, first none, as an integer of 32 bits, and
ends when that is negative: which it is after every other 2^31 instructions. So a state that is to be resumed counts
from zero, and has the rest in its bias; its time stays what it was.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from strata.errors import HostLost

# A part of the section "timer" in the stream: its mark (QEMU_VM_SUBSECTION), the length of its name, the name, its
# version; then the fields of icount_vmstate_timers: the bias in nanoseconds, and the instructions. QEMU 10.0:
# migration/vmstate.c, system/cpu-timers.c.
_MARK = b"\x05\x0ctimer/icount" + struct.pack(">I", 1)
_FIELDS = struct.Struct(">qq")


def restart(state: Path, instructions: int, shift: int) -> None:
    """Makes a state in which `instructions` were carried out, of 2^shift ns each, one in which none were.

    Raises HostLost when the state does not say so: it is of a QEMU that writes it otherwise.
    """
    with state.open("r+b") as file, mmap.mmap(file.fileno(), 0) as stream:
        # behind the memory, which could hold anything
        at = stream.rfind(_MARK)
        if at >= 0:
            where = slice(at + len(_MARK), at + len(_MARK) + _FIELDS.size)
            bias, counted = _FIELDS.unpack(stream[where])
            if counted == instructions:
                stream[where] = _FIELDS.pack(bias + (counted << shift), 0)
                return
    raise HostLost("QEMU's saved state does not say how many instructions the machine has carried out.")
