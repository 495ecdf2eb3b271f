"""A disk of the operator's: a sparse file of ours on a loop device, or a device that was claimed by its stable id."""

from __future__ import annotations

import json
from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._loop import ATTACH, DETACH, SHOW
from strata.layers._steps import output, remove_link, run, said, sh
from strata.model import Call, Command, Completed, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="disk",
    about="A disk by its role: a sparse loop file that Strata makes, or a device that you claim.",
    params=(
        Param(
            "role", ParamType.TEXT, "the role: any name that the campaign gives disks", positional=True, required=True
        ),
    ),
    accepts=frozenset({Kind.GRANT}),
    provides=Kind.BLOCK,
    tools={"losetup": "mount", "truncate": "coreutils", "blockdev": "util-linux"},
)


class DiskDriver(Driver):
    info = INFO

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        grant = below[0]
        return Provides(Kind.BLOCK, f"{place.dir}/device", grant.size_bytes, ours=grant.ours)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        grant, link = below[0], f"{place.dir}/device"
        if not grant.ours:
            return [Step(run("ln", "-s", "--", grant.path, link), remove_link(link), "name the claimed device")]
        return [
            Step(
                run("truncate", f"--size={grant.size_bytes}", "--", grant.path),
                run("rm", "-f", "--", grant.path),
                "make a sparse file for the disk",
            ),
            Step(sh(ATTACH, grant.path, link), sh(DETACH, grant.path, link), "attach a loop device"),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        link = f"{place.dir}/device"
        size = run("blockdev", "--getsize64", link)
        if not below[0].ours:
            return [size, run("readlink", "-f", "--", link), run("readlink", "-f", "--", below[0].path)]
        return [size, sh(SHOW, link), run("readlink", "-f", "--", below[0].path)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        grant = below[0]
        size = output(seen, 0)
        if size is None:
            return [f"The disk {spec['role']} is not there: {said(seen, 0)}."]
        wrong = []
        if grant.size_bytes is not None and size.stdout.strip() != str(grant.size_bytes):
            wrong.append(f"The disk {spec['role']} has {size.stdout.strip()} bytes instead of {grant.size_bytes}.")
        return wrong + (_loop_differences(grant.path, seen) if grant.ours else _claim_differences(grant.path, seen))


def _claim_differences(path: str, seen: Sequence[Completed]) -> list[str]:
    used, claimed = output(seen, 1), output(seen, 2)
    if used is None or claimed is None or used.stdout != claimed.stdout:
        return [f"The device in use is not the claimed device {path}."]
    return []


def _loop_differences(path: str, seen: Sequence[Completed]) -> list[str]:
    listed = output(seen, 1)
    try:
        loop = json.loads(listed.stdout if listed else "")["loopdevices"][0]
        name, file, direct, read_only = (loop["name"], loop["back-file"], loop["dio"], loop["ro"])
    except (ValueError, LookupError, TypeError):
        why = "losetup does not name it" if listed else said(seen, 1)
        return [f"There is no loop device of {path}: {why}."]
    wrong = []
    resolved = output(seen, 2)
    if resolved is None or file != resolved.stdout.rstrip("\n"):
        wrong.append(f"{name} is backed by {file} instead of {path}.")
    if direct is not True:
        wrong.append(
            f"{name} does not use direct I/O, so the page cache would serve {path}; "
            "put the run directory on a file system with direct I/O."
        )
    if read_only is not False:
        wrong.append(f"{name} is read-only.")
    return wrong


DRIVER = DiskDriver()
