"""A disk of the operator's: a sparse file of ours on a loop device, or a device that was claimed by its stable id."""

from __future__ import annotations

import json
from collections.abc import Sequence

from strata.layers._steps import output, remove_link, run, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

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

# Another process may take the free loop device between our finding it and our binding it; then try the next one.
# A loop device keeps the I/O scheduler of whoever had its number before: every disk starts with none, the kernel's own
# choice for a new one.
_ATTACH = """\
for pause in 0.1 0.2 0.4 0.8 ''; do
  if device=$(losetup --find --show --direct-io=on --partscan -- "$1"); then
    echo none > "/sys/block/${device##*/}/queue/scheduler"
    ln -s -- "$device" "$2"; exit
  fi
  [ -n "$pause" ] && sleep "$pause"
done
exit 1"""

# The link goes first: a link that is there never names a loop device which somebody else may have taken over.
# losetup --detach succeeds even if something holds the device; the kernel then detaches when that lets go. So it is
# asked for once and then waited for: by a second time the device may be somebody else's.
_DETACH = """\
attached() {
  if [ -e "$1" ]; then losetup --noheadings --output NAME --associated "$1"; return; fi
  grep -lxF -- "$(readlink -m -- "$1") (deleted)" /sys/block/loop*/loop/backing_file 2>/dev/null |
    sed 's|/sys/block/\\(.*\\)/loop/backing_file|/dev/\\1|'
}
rm -f -- "$2"
for device in $(attached "$1"); do losetup --detach "$device"; done
for pause in 0 0.05 0.1 0.2 0.4 0.8 1; do
  sleep "$pause"
  devices=$(attached "$1") || exit 1
  if [ -z "$devices" ]; then exit 0; fi
done
echo "something still holds" $devices "of $1: end or unmount it, then clean up again" >&2
exit 1"""

# losetup knows a loop device by its own name only, not through a link.
_SHOW = 'losetup --list --json --output NAME,BACK-FILE,DIO,RO -- "$(readlink -f -- "$1")"'


class DiskDriver:
    info = INFO

    def arity_reasons(self, spec: Call, inputs: int) -> list[str]:
        return []

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools)

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
            Step(sh(_ATTACH, grant.path, link), sh(_DETACH, grant.path, link), "attach a loop device"),
        ]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        link = f"{place.dir}/device"
        size = run("blockdev", "--getsize64", link)
        if not below[0].ours:
            return [size, run("readlink", "-f", "--", link), run("readlink", "-f", "--", below[0].path)]
        return [size, sh(_SHOW, link), run("readlink", "-f", "--", below[0].path)]

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
