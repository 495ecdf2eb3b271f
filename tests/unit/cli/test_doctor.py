"""What `strata doctor` says of a machine."""

from __future__ import annotations

import json

import pytest

from strata import layers, workloads
from strata.cli import doctor
from strata.model import Facts
from strata.planning import plan as planning

OWN = "vm(image=/PATH, key=/PATH, os={linux, windows})"
TOOLS = planning.tools(layers.drivers().values(), workloads.workloads().values())


class Machine:
    """Has all programs but `without`."""

    def __init__(self, *without: str) -> None:
        self.tools = dict.fromkeys(TOOLS - set(without), "99")

    def __call__(self, uuid: str) -> Machine:
        return self

    def facts(self, tools: set[str], directory: str) -> Facts:
        assert tools == TOOLS
        return Facts(
            hostname="h",
            kernel=(6, 12, 0),
            kernel_text="6.12.0",
            os="Debian",
            cpu_model="c",
            cpus=2,
            memory_bytes=8 << 30,
            root=True,
            filesystems=frozenset({"ext4"}),
            tools=self.tools | {"fio": "fio-3.39"},
            schedulers=frozenset({"none"}),
            free_bytes=1 << 30,
        )


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *without: str, as_json: bool) -> str:
    monkeypatch.setattr(doctor, "LocalHost", Machine(*without))
    doctor.doctor(as_json)
    return capsys.readouterr().out


def test_of_a_guest_from_an_image_of_the_user_s_own_it_says_what_is_here_and_what_only_they_can_bring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.strip() for line in told(monkeypatch, capsys, as_json=False).splitlines()]
    here = lines.index(f"yes  {OWN}")
    assert lines[here + 1] == "Here: qemu-system-x86_64, qemu-img, ssh."
    for word in ("ssh server", "fio", "Windows", "virtio drivers", "bus=sata"):
        assert word in lines[here + 2]


def test_what_is_missing_for_it_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = json.loads(told(monkeypatch, capsys, "qemu-img", as_json=True))["brought"][OWN]
    assert own["here"] == ["qemu-system-x86_64", "ssh"] and "You bring the image" in own["you"]
    assert own["reasons"] == ["The program qemu-img is not installed; install the Debian package qemu-utils."]
