"""Labs of two kernels are compared only where nothing but the kernel differs."""

from __future__ import annotations

from pathlib import Path

from strata.lab.alike import reason_against_both
from strata.lab.image import Image
from strata.lab.spec import LabSpec

OLD, NEW = LabSpec(13, "6.1"), LabSpec(13, "6.12")


def of(spec: LabSpec, **packages: str) -> Image:
    here = Path("/labs") / f"{spec.kernel}"
    return Image(spec, here, here, here, here, f"{spec.kernel}.0", here, here, here, "key", packages, "hash")


def test_what_the_kernel_brings_may_differ_and_what_one_has_more() -> None:
    one = of(OLD, fio="3.39-1", lvm2="2.03.31-2", zfsutils="2.1")
    assert reason_against_both(one, of(NEW, fio="3.39-1", lvm2="2.03.31-2", zfsutils="2.3", qemu="10")) is None


def test_another_release_has_other_programs() -> None:
    assert reason_against_both(of(OLD, fio="3.39-1"), of(LabSpec(12), fio="3.33-3")) is None


def test_other_programs_are_named_with_what_to_type() -> None:
    reason = reason_against_both(of(OLD, fio="3.39-1", lvm2="1"), of(NEW, fio="3.40-1", lvm2="2"))
    assert reason is not None
    assert "fio 3.39-1 and 3.40-1 and 1 more" in reason
    assert "`strata lab remove 6.1 6.12`, `strata lab build --debian 13 --kernel 6.1` and" in reason
