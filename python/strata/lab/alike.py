"""Whether two labs differ in their kernel alone, so that what is measured on both says something of it. Pure."""

from __future__ import annotations

from strata.lab.image import Image

# Packages whose versions go with the kernel. The programs of ZFS go with its modules.
_OF_THE_KERNEL = ("linux-", "zfs", "libzfs", "libzpool", "libnvpair", "libuutil")


def reason_against_both(one: Image, other: Image) -> str | None:
    """Why two labs cannot be compared for their kernels; None where they can, and for two releases, whose programs
    are meant to differ."""
    if one.spec.debian != other.spec.debian:
        return None
    both = [name for name in one.packages if name in other.packages and not name.startswith(_OF_THE_KERNEL)]
    differ = sorted(name for name in both if one.packages[name] != other.packages[name])
    if not differ:
        return None
    first, more = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    return (
        f"the labs of kernel {one.kernel_version} and {other.kernel_version} differ in more than the kernel: {first} "
        f"{one.packages[first]} and {other.packages[first]}{more}; type `strata lab remove {one.directory.name} "
        f"{other.directory.name}`, `{one.spec.command}` and `{other.spec.command}`."
    )
