"""Loop devices of our own, file systems on them, throttles under them, and a workload taken from plan to figure."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from strata.model import Call, Kind, Measured, Target, TrialOutput, Value
from strata.workloads import find, workloads

V1 = Path("/sys/fs/cgroup/blkio")
V2 = Path("/sys/fs/cgroup")


def call(name: str, *, content: str | None = None, variant: str | None = None, **given: Value | None) -> Call:
    values: dict[str, Value | None] = {param.name: param.default for param in workloads()[name].info.params}
    assert set(given) <= set(values)
    values |= given
    if content is not None:
        values["content"] = content
    return Call(name, name, values, variant, None if content is None else "my.file")


def tool(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def loop(folder: Path, size: str) -> Iterator[str]:
    image = folder / "disk.img"
    tool("truncate", "-s", size, str(image))
    device = tool("losetup", "--find", "--show", "--direct-io=on", str(image))
    try:
        yield device
    finally:
        tool("losetup", "--detach", device)
        image.unlink()


@contextmanager
def mounted(device: str, folder: Path) -> Iterator[Path]:
    tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    point = folder / "mnt"
    point.mkdir()
    tool("mount", device, str(point))
    try:
        yield point
    finally:
        tool("umount", str(point))


def run(spec: Call, target: Target, scratch: Path, *, group: Path | None = None, prepare: bool = True) -> Measured:
    """As the run does it, without the engine; `group` is a control group that the measured command starts in."""
    scratch.mkdir(exist_ok=True)
    workload = find(spec)
    plan = workload.plan(spec, target, str(scratch), 7)
    for path, content in plan.put.items():
        Path(path).write_text(content)
    for command in plan.prepare if prepare else ():
        subprocess.run(command.argv, check=True, capture_output=True, timeout=command.timeout_s)
    tool("sync", "-f", target.path if target.kind is Kind.DIRECTORY else str(scratch))
    argv: Sequence[str] = plan.measure.argv
    if group is not None:
        argv = ("sh", "-c", 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"', "sh", str(group), *argv)
    started = monotonic()
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=plan.measure.timeout_s)
    wall_s = monotonic() - started
    files = {name: Path(path).read_text() for name, path in plan.collect.items() if Path(path).exists()}
    return workload.read(spec, TrialOutput(done.returncode, wall_s, done.stdout, done.stderr, files))


def throttle_here() -> str | None:
    """Which throttle this kernel offers: "v1", "v2", or None."""
    if (V1 / "blkio.throttle.read_iops_device").exists():
        return "v1"
    controllers = V2 / "cgroup.controllers"
    if controllers.exists() and "io" in controllers.read_text().split():
        return "v2"
    return None


@contextmanager
def throttled(device: str, *, riops: int | None = None, wbps: int | None = None) -> Iterator[Path | None]:
    """A control group in which I/O to `device` is limited; to be joined by what is measured.

    With v1 a limit on writes is set for the whole machine (this device only): what the page cache writes back is not
    counted to the group of the program that wrote it.
    """
    numbers = tool("lsblk", "--nodeps", "--noheadings", "--output", "MAJ:MIN", device).strip()
    name = f"strata-test-{numbers.replace(':', '-')}"
    if throttle_here() == "v1":
        group = V1 / name
        group.mkdir()
        limits = [(group / "blkio.throttle.read_iops_device", riops), (V1 / "blkio.throttle.write_bps_device", wbps)]
        for file, limit in limits:
            if limit is not None:
                file.write_text(f"{numbers} {limit}")
        try:
            yield group
        finally:
            if wbps is not None:
                limits[1][0].write_text(f"{numbers} 0")
            group.rmdir()
    else:
        group = V2 / name
        (V2 / "cgroup.subtree_control").write_text("+io +memory")
        group.mkdir()
        (group / "io.max").write_text(f"{numbers} riops={riops or 'max'} wbps={wbps or 'max'}")
        try:
            yield group
        finally:
            group.rmdir()
