"""Which layer's device failed, from the kernel's log."""

from __future__ import annotations

from tests.fake_host import FakeHost

from strata.model import Command, Completed
from strata.run import kernel_log

# as Linux 6.12 prints them
LOG = """\
[   10.100000] EXT4-fs (vda): mounted filesystem
[   12.500000] Buffer I/O error on dev dm-0, logical block 12, lost async page write
[   12.600000] I/O error, dev dm-0, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2
[   12.700000] EXT4-fs error (device dm-0): ext4_journal_check_start:84: comm fio: Detected aborted journal
[   13.000000] md/raid1:md127: Disk failure on vdb, disabling device.
[   13.100000] I/O error, dev sdz, sector 0 op 0x0:(READ)
"""
LAYERS = {"dm-0": "dm(flakey)", "vdb": "disk"}


def test_each_device_that_failed_is_named_once_with_its_layer() -> None:
    first, second = kernel_log.sentences(LOG, 11.0, LAYERS)
    assert "dm-0" in first and "dm(flakey)" in first and "3 lines" in first and "lost async page write" in first
    assert "vdb" in second and "disk" in second


def test_what_was_said_before_is_not_of_this_trial() -> None:
    assert kernel_log.sentences(LOG, 12.9, LAYERS) == kernel_log.sentences(LOG, 11.0, {"vdb": "disk"})


def test_devices_are_found_by_where_their_links_lead() -> None:
    def respond(command: Command) -> str | None:
        if command.argv[0] == "dmesg":
            return LOG
        return {"/w/0/device": "/dev/vdb\n", "/dev/mapper/x": "/dev/dm-0\n"}.get(command.argv[-1])

    host = FakeHost(respond=respond)
    host.files["/proc/uptime"] = "11.00 20.00\n"
    layers = [("disk", "/w/0/device"), ("dm(flakey)", "/dev/mapper/x"), ("ext4", "/w/2/mnt")]
    assert len(kernel_log.io_errors(host, kernel_log.uptime_s(host), layers)) == 2
    assert kernel_log.io_errors(host, None, layers) == []


def test_the_lowest_device_that_cannot_be_read_is_named() -> None:
    class Broken(FakeHost):
        def run(self, command: Command, *, check: bool = True) -> Completed:
            failing = "if=/dev/mapper/x" in command.argv or "if=/dev/vg/y" in command.argv
            return Completed(command.argv, int(failing), "", "dd: Input/output error\n" if failing else "", 0.0)

    devices = [("disk", "/w/0/device"), ("dm", "/dev/mapper/x"), ("lvm", "/dev/vg/y")]
    (said,) = kernel_log.unreadable(Broken(), devices)
    assert "/dev/mapper/x" in said and "layer dm" in said and "Input/output error" in said
    assert kernel_log.unreadable(Broken(), devices[:1]) == []


def test_what_was_killed_for_want_of_memory_is_named() -> None:
    log = """\
[   12.500000] strata-engine invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[   12.600000] Out of memory: Killed process 311 (strata-engine) total-vm:9kB, anon-rss:8kB, file-rss:0kB, UID:0
"""
    (said,) = kernel_log.sentences(log, 11.0, {})
    assert "strata-engine (process 311)" in said and "no memory left" in said
    assert kernel_log.sentences(log, 12.7, {}) == []
