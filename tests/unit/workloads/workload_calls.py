"""Calls as the campaign would resolve them, and trial outputs captured from a real fio."""

from __future__ import annotations

from pathlib import Path

from strata.model import Call, Facts, TrialOutput, Value
from strata.workloads import workloads

CAPTURED = Path(__file__).parent / "fio_output"
FACTS = Facts(
    hostname="h",
    kernel=(6, 1, 0),
    kernel_text="6.1.0",
    os="Debian 12",
    cpu_model="cpu",
    cpus=2,
    memory_bytes=1 << 30,
    root=True,
    filesystems=frozenset(),
    tools={"fio": "fio-3.33"}
    | dict.fromkeys(("pg_ctlcluster", "sysbench", "unshare", "setpriv", "awk"), "1")
    | dict.fromkeys(("mmdebstrap", "strata-packages"), "1")
    | dict.fromkeys(("qemu-system-x86_64", "qemu-img", "apt-get"), "1"),
    schedulers=frozenset(),
    free_bytes=1 << 30,
)


def call(name: str, *, variant: str | None = None, content: str | None = None, **given: Value | None) -> Call:
    """A call with every param of `name`, the defaults in; `content` and a path for a path family."""
    known = {param.name: param.default for param in workloads()[name].info.params}
    assert set(given) <= set(known), f"{name} knows no {set(given) - set(known)}"
    values: dict[str, Value | None] = {**known, **given}
    path = None
    if content is not None:
        values["content"] = content
        path = "my.file"
    return Call(name, name, values, variant, path)


def captured(name: str, *, exit_code: int = 0) -> TrialOutput:
    """What fio left, as stored in fio_output/."""

    def text(suffix: str) -> str | None:
        path = CAPTURED / f"{name}.{suffix}"
        return path.read_text() if path.exists() else None

    files = {"fio.json": text("json"), "iops.log": text("iops.log"), "bw.log": text("bw.log")}
    return TrialOutput(
        exit_code=exit_code,
        wall_s=4.2,
        stdout="",
        stderr=text("stderr") or "",
        files={key: value for key, value in files.items() if value is not None},
    )
