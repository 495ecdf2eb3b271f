"""debian-installer on an image: what QEMU is told, and what is made of what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import WorkloadFailed
from strata.model import Kind, Target, TrialOutput
from strata.workloads import find

from .workload_calls import FACTS, call

SPEC = call("guest/debian-installer", debian="12")
INSTALLER = find(SPEC)
TOOLS = dict.fromkeys(INSTALLER.info.tools, "1")
SAID = "install_s 1200.50\nmirror_s 3.20\naccel kvm\nboot_s 31.07\n"


def test_paths_are_written_as_qemu_and_its_shell_want_them() -> None:
    plan = INSTALLER.plan(SPEC, Target(Kind.IMAGE, "/a,b/c.qcow2", None), "/s, t", 1)
    argv = plan.measure.argv
    assert "/a,,b/c.qcow2" in argv and "/s, t" in argv and "/s,, t" in argv
    (network,) = [word for word in argv if word.startswith("user,")]
    assert "restrict=on" in network and network.endswith("-cmd:sh '/s,, t/server' '/s,, t'")


def test_the_installer_is_told_the_release_and_where_its_mirror_is() -> None:
    answers = INSTALLER.plan(SPEC, Target(Kind.BLOCK, "/dev/x", None), "/s", 1).put["/s/preseed.cfg"]
    assert "mirror/suite string bookworm\n" in answers and "mirror/http/hostname string 10.0.2.100\n" in answers


def test_its_times_are_its_figures() -> None:
    measured = INSTALLER.read(SPEC, TrialOutput(0, 1300.0, SAID, "", {}))
    assert measured.metrics == {"install_s": 1200.5, "boot_s": 31.07, "mirror_s": 3.2}
    assert measured.notes == ()


def test_the_network_on_the_clock_and_emulation_are_said() -> None:
    said = SAID.replace("mirror_s 3.20", "mirror_s 300.00").replace("kvm", "tcg")
    fetched, emulated = INSTALLER.read(SPEC, TrialOutput(0, 1300.0, said, "", {})).notes
    assert "5 min went into fetching" in fetched and "without KVM" in emulated


def test_a_failed_installation_is_told_by_the_end_of_its_console() -> None:
    output = TrialOutput(1, 9.0, "", "the installer failed; the end of its console:\nNo disk drive was detected.\n", {})
    with pytest.raises(WorkloadFailed, match=r"exit code 1: the installer failed.*No disk drive"):
        INSTALLER.read(SPEC, output)


def test_what_is_missing_is_said_at_once() -> None:
    assert INSTALLER.reasons_not_to_run(SPEC, replace(FACTS, tools=TOOLS)) == []
    large = call("guest/debian-installer", memory=FACTS.memory_bytes + 1)
    reasons = INSTALLER.reasons_not_to_run(large, replace(FACTS, tools={}))
    assert len(reasons) == len(TOOLS) + 1
    assert "install qemu-system-x86" in reasons[0] and "give less" in reasons[-1]
