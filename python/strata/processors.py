"""The processor that QEMU is told to be, and what carries out its instructions: of lab machines and of guests.

An emulated processor must not say that it copies strings of bytes fast (ERMS, FSRM, FSRS): the kernel then copies and
clears memory by `rep movsb` and `rep stosb`, which QEMU carries out byte by byte, each as long as an instruction. Of a
processor that says nothing it takes eight bytes and more at a time (arch/x86/lib/memcpy_64.S, copy_user_64.S,
clear_page_64.S). See decision 38 and benchmarks/emulated_copies.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Accel = Literal["kvm", "tcg"]

ACCELERATOR: Mapping[Accel, str] = MappingProxyType({"kvm": "kvm", "tcg": "tcg,thread=multi"})
"""QEMU's `-accel` on the real clock."""

WITHHELD: Mapping[Accel, tuple[str, ...]] = MappingProxyType({"kvm": (), "tcg": ("erms", "fsrm", "fsrs")})
"""Features that the processor does not say it has, by QEMU's names."""

CPU: Mapping[Accel, str] = MappingProxyType({accel: ",-".join(("max", *names)) for accel, names in WITHHELD.items()})
"""QEMU's `-cpu`."""
