"""Claims on machines that no test machine is: answers of the tools, as captured, for what cannot be built here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.fake_host import FakeHost

from strata.errors import CommandFailed, Refused
from strata.model import Command, Completed, Disk
from strata.run import claims

GIB = 1 << 30

Answer = str | CommandFailed | Callable[[Command], str]

BY_ID = "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"


def entry(path: str, kind: str = "disk", number: str = "8:16", **more: Any) -> dict[str, Any]:
    plain = {"name": path, "path": path, "kname": path, "pkname": None, "type": kind, "ro": False, "wwn": None}
    return {**plain, "maj:min": number, "mountpoints": [None], **more}


def state(path: str, number: str = "8:16", **more: Any) -> str:
    """What `strata-engine device` says."""
    plain = {"path": path, "real_path": path, "major_minor": number, "kernel_name": path.removeprefix("/dev/")}
    alone = {"exclusive": True, "exclusive_error": None, "openers": [], "unseen_processes": 0}
    content = {"empty": True, "found": [], "unread": None, "bytes_read": 1 << 25}
    identity = f"{number} {more.get('disk_sequence', 7) or '-'} {GIB} 0"
    held = {"size_bytes": GIB, "disk_sequence": 7, "identity": identity, "content": content}
    return json.dumps({**plain, **alone, **held, **more})


def blockdevices(*entries: dict[str, Any]) -> str:
    return json.dumps({"blockdevices": list(entries)})


class Machine(FakeHost):
    """A machine with /dev/sdb, free and blank; `answers` changes what a program says, by a part of its command."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        super().__init__()
        self.answers = {
            "strata-engine device": state("/dev/sdb"),
            "lsblk --all": blockdevices(entry("/dev/sdb")),
            "lsblk --json --paths --nodeps": blockdevices(),
            "losetup --json --list": "",
            "wipefs --no-act": '{"signatures": []}',
            "sh -c": "",
            **answers,
        }

    def run(self, command: Command, *, check: bool = True) -> Completed:
        super().run(command, check=check)
        line = " ".join(command.argv)
        # the longest part is the most particular
        for part in sorted(self.answers, key=len, reverse=True):
            if part in line:
                answer = self.answers[part]
                if isinstance(answer, CommandFailed):
                    if check:
                        raise answer
                    return Completed(command.argv, answer.status or 1, answer.stdout, answer.stderr, 0.0)
                text = answer if isinstance(answer, str) else answer(command)
                return Completed(command.argv, 0, text, "", 0.0)
        raise AssertionError(f"nobody expected {line}")


def failed(stderr: str = "", exit_code: int = 1) -> CommandFailed:
    return CommandFailed(("program",), exit_code, "", stderr)


def claim(answers: Mapping[str, Answer], *names: str, wipe: tuple[str, ...] = ()) -> list[Disk]:
    return claims.claim(Machine(answers), [Disk("hdd", 0, name) for name in names or (BY_ID,)], wipe)


def reasons(answers: Mapping[str, Answer], *names: str, wipe: tuple[str, ...] = (BY_ID,)) -> tuple[str, ...]:
    """By default with --wipe, for it must excuse none of this."""
    with pytest.raises(Refused) as refused:
        claim(answers, *names, wipe=wipe)
    return refused.value.reasons


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for, instead of waiting."""
    waited: list[float] = []
    monkeypatch.setattr("strata.run.claims.time.sleep", waited.append)
    return waited


def test_a_free_device_is_claimed_as_its_node() -> None:
    assert claim({}) == [Disk("hdd", GIB, "/dev/sdb")]


def test_looking_changes_nothing() -> None:
    machine = Machine({})
    claims.claim(machine, [Disk("hdd", 0, BY_ID)], ())
    programs = {command.argv[0] for command in machine.commands}
    assert programs == {"strata-engine", "lsblk", "losetup", "timeout", "sh"}
    assert all("--no-act" in command.argv for command in machine.commands if "wipefs" in command.argv)
    assert not machine.files


# ------------------------------------------------------------ use that cannot be built on every machine


def test_swap_is_refused() -> None:
    swap = {"lsblk --all": blockdevices(entry("/dev/sdb", mountpoints=["[SWAP]"]))}
    assert reasons(swap) == (f"{BY_ID} is swap; turn it off with swapoff, if it may be overwritten.",)


@pytest.mark.parametrize("kind", ["lvm", "raid1", "crypt", "mpath", "bcache"])
def test_what_something_holds_is_refused(kind: str) -> None:
    above = entry("/dev/mapper/above", kind, "253:0", kname="/dev/dm-0", mountpoints=["/srv"])
    taken = state("/dev/sdb", exclusive=False, exclusive_error="Device or resource busy")
    tree = blockdevices(entry("/dev/sdb", children=[above]))
    assert reasons({"lsblk --all": tree, "strata-engine device": taken}) == (
        f"{BY_ID} is held by /dev/mapper/above; take that apart, if it may be overwritten.",
        f"/dev/mapper/above on {BY_ID} is mounted at /srv; unmount it, if it may be overwritten.",
    )


def test_so_is_a_device_with_a_partition_that_something_holds() -> None:
    """The partition is a member of an array; the disk itself shows nothing."""
    array = entry("/dev/md0", "raid1", "9:0")
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb", children=[array])
    busy = {"exclusive": False, "exclusive_error": "Device or resource busy"}
    answers = {
        "lsblk --all": blockdevices(entry("/dev/sdb", children=[part])),
        f"strata-engine device {BY_ID}": state("/dev/sdb", **busy),
        "strata-engine device /dev/sdb1": state("/dev/sdb1", "8:17", **busy),
    }
    assert reasons(answers) == (
        f"/dev/sdb1 on {BY_ID} is held by /dev/md0; take that apart, if it may be overwritten.",
    )


def test_what_only_the_exclusive_open_shows_is_refused(pauses: list[float]) -> None:
    """A member of an imported pool: no mount, no holder, no process."""
    taken = state("/dev/sdb", exclusive=False, exclusive_error="Device or resource busy")
    (reason,) = reasons({"strata-engine device": taken})
    assert reason.startswith(f"{BY_ID} cannot be had alone (Device or resource busy), so something uses it;")
    assert pauses  # it was looked at again


@pytest.mark.parametrize("passing", [
    {"openers": [{"pid": 7, "command": "(udev-worker)"}]},
    {"exclusive": False, "exclusive_error": "Device or resource busy"},
])  # fmt: skip
def test_what_is_open_for_a_moment_is_waited_for(passing: dict[str, Any], pauses: list[float]) -> None:
    looks = iter([state("/dev/sdb", **passing), state("/dev/sdb", **passing), state("/dev/sdb")])
    answers: dict[str, Answer] = {
        "strata-engine device": lambda command: next(looks),
        "strata-engine device --content": state("/dev/sdb"),
    }
    assert claim(answers) == [Disk("hdd", GIB, "/dev/sdb")]
    assert len(pauses) == 2


def test_what_is_mounted_is_not_waited_for(pauses: list[float]) -> None:
    reasons({"lsblk --all": blockdevices(entry("/dev/sdb", mountpoints=["/srv"]))})
    assert pauses == []


@pytest.mark.parametrize(
    ("exported", "told"), [("/dev/sdb", BY_ID), ("/dev/sdb1", f"/dev/sdb1 on {BY_ID}"), ("/dev/sdc", None)]
)
def test_an_exported_device_is_refused(exported: str, told: str | None) -> None:
    """The NVMe target opens what it exports without claiming it."""
    file = "/sys/kernel/config/nvmet/subsystems/test/namespaces/1/device_path"
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb")
    answers = {
        "lsblk --all": blockdevices(entry("/dev/sdb", children=[part])),
        "strata-engine device /dev/sdb1": state("/dev/sdb1", "8:17"),
        "/sys/kernel/config": f"{file}\t{exported}\n",
    }
    if told is None:
        assert claim(answers)
    else:
        assert reasons(answers) == (f"{told} is exported ({file}); take that export down, if it may be overwritten.",)


def test_a_loop_device_over_a_device_mapper_device_is_seen_under_either_name() -> None:
    """The kernel calls dm-3 what everybody else calls vg-data."""
    loop = {"name": "/dev/loop0", "back-file": "/dev/dm-3", "back-ino": 5, "back-maj:min": "0:6"}
    answers = {
        "strata-engine device": state("/dev/dm-3", "253:3"),
        "lsblk --all": blockdevices(entry("/dev/mapper/vg-data", "lvm", "253:3", kname="/dev/dm-3")),
        "losetup --json --list": json.dumps({"loopdevices": [loop]}),
    }
    assert reasons(answers) == (
        f"{BY_ID} carries the loop device /dev/loop0; detach that first, if it may be overwritten.",
    )


def test_two_ways_to_one_disk_are_refused() -> None:
    answers = {
        "lsblk --all": blockdevices(entry("/dev/sdb", wwn="0x5000c500a1b2c3d4")),
        "lsblk --json --paths --nodeps": blockdevices(
            {"path": "/dev/sda", "wwn": None},
            {"path": "/dev/sdb", "wwn": "0x5000c500a1b2c3d4"},
            {"path": "/dev/sdd", "wwn": "0x5000c500a1b2c3d4"},
        ),
    }
    (reason,) = reasons(answers)
    assert f"{BY_ID} is the same disk as /dev/sdd (WWN 0x5000c500a1b2c3d4)" in reason


def test_whoever_cannot_see_what_others_have_open_may_not_claim() -> None:
    denied = state("/dev/sdb", exclusive=False, exclusive_error="Permission denied", unseen_processes=41)
    assert reasons({"strata-engine device": denied}) == (
        f"{BY_ID}: 41 processes do not show what they have open; run Strata as root.",
    )


def test_a_read_only_device_is_refused() -> None:
    (reason,) = reasons({"lsblk --all": blockdevices(entry("/dev/sdb", ro=True))})
    assert "is read-only" in reason


# ------------------------------------------------------------ what lies beside, below and above it


def test_a_partition_of_a_disk_that_is_open_is_refused() -> None:
    """Whoever has the whole disk open may write to every partition."""
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb")
    answers = {
        f"strata-engine device {BY_ID}": state("/dev/sdb1", "8:17"),
        "strata-engine device /dev/sdb1": state("/dev/sdb1", "8:17"),
        "strata-engine device /dev/sdb": state("/dev/sdb", openers=[{"pid": 9, "command": "qemu"}]),
        "lsblk --all": blockdevices(part),
    }
    assert reasons(answers) == (f"the disk /dev/sdb of {BY_ID} is open in qemu (process 9); end that first.",)


def test_a_partition_of_a_disk_that_is_not_open_is_claimed() -> None:
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb")
    answers = {
        "strata-engine device": state("/dev/sdb1", "8:17"),
        "strata-engine device /dev/sdb": state("/dev/sdb"),
        "lsblk --all": blockdevices(part),
    }
    assert claim(answers) == [Disk("hdd", GIB, "/dev/sdb1")]


def test_what_a_partition_carries_is_refused() -> None:
    """Even when the table is gone from the disk: the kernel still knows the partition."""
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb")
    answers = {
        "lsblk --all": blockdevices(entry("/dev/sdb", children=[part])),
        "strata-engine device /dev/sdb1": state("/dev/sdb1", "8:17"),
        "wipefs --no-act --json -- /dev/sdb1": '{"signatures": [{"type": "crypto_LUKS"}]}',
    }
    assert reasons(answers, wipe=()) == (
        f"{BY_ID} carries a LUKS volume; if nothing on it is needed any more, add --wipe {BY_ID}.",
    )
    assert claim(answers, wipe=(BY_ID,))


def on_loops(*loops: dict[str, Any]) -> dict[str, Answer]:
    """/srv/disk.img attached as /dev/loop0, and `loops` beside it."""
    return {
        "losetup --noheadings": "/dev/loop0",
        "strata-engine device": state("/dev/loop0", "7:0"),
        "lsblk --all": blockdevices(entry("/dev/loop0", "loop", "7:0")),
        "losetup --json --list": json.dumps({"loopdevices": [attached("/dev/loop0", "/srv/disk.img"), *loops]}),
    }


def attached(loop: str, file: str, inode: int = 5) -> dict[str, Any]:
    return {"name": loop, "back-file": file, "back-ino": inode, "back-maj:min": "254:0"}


def test_a_file_in_use_by_one_loop_device_is_claimed() -> None:
    assert claim(on_loops(attached("/dev/loop1", "/srv/other.img", 6)), "/srv/disk.img") == [
        Disk("hdd", GIB, "/dev/loop0")
    ]


def test_a_file_that_two_loop_devices_share_is_refused() -> None:
    """By another name, so that only the inode tells."""
    answers = on_loops(attached("/dev/loop1", "/srv/link.img"))
    assert reasons(answers, "/srv/disk.img") == (
        "/srv/disk.img shares its backing file with /dev/loop1; detach that first, if it may be overwritten.",
    )


def test_a_loop_device_over_a_disk_is_refused() -> None:
    loop = attached("/dev/loop0", "/dev/sdb")
    answers = {**on_loops(), "losetup --json --list": json.dumps({"loopdevices": [loop]})}
    assert reasons(answers, "/srv/disk.img") == (
        "/srv/disk.img is a loop device over /dev/sdb; claim that device itself.",
    )


def test_one_device_under_two_names_is_refused() -> None:
    other = "/dev/disk/by-id/ata-DISK_1"
    assert reasons({}, BY_ID, other) == (f"{other} and {BY_ID} lie on the same device; give each device once.",)


def test_a_disk_and_its_partition_are_refused_together() -> None:
    part = entry("/dev/sdb1", "part", "8:17", pkname="/dev/sdb")
    other = f"{BY_ID}-part1"
    trees = {f"{BY_ID}": entry("/dev/sdb", children=[part]), other: part}
    looked = iter([trees[BY_ID], trees[other]])
    answers: dict[str, Answer] = {
        "lsblk --all": lambda command: blockdevices(next(looked)),
        f"strata-engine device {other}": state("/dev/sdb1", "8:17"),
        "strata-engine device /dev/sdb1": state("/dev/sdb1", "8:17"),
    }
    assert reasons(answers, BY_ID, other) == (f"{other} and {BY_ID} lie on the same device; give each device once.",)


def test_disks_that_nobody_gave_are_passed_over_and_every_refusal_is_told() -> None:
    own = Disk("spare", GIB)
    given = [own, Disk("hdd", 0, "/dev/sdz"), Disk("hdd", 0, "serial:none"), Disk("hdd", 0, BY_ID)]
    assert claims.claim(Machine({}), [own, given[-1]], ()) == [own, Disk("hdd", GIB, "/dev/sdb")]
    answers = {
        **by_serial("S1"),
        'if [ "$l" -ef "$1" ]': "",
        "losetup --noheadings --output BACK-FILE": "",
        f"strata-engine device {BY_ID}": state("/dev/sdb", size_bytes=0),
    }
    with pytest.raises(Refused) as told:
        claims.claim(Machine(answers), given, ())
    unstable, unknown, empty = told.value.reasons
    assert "/dev/sdz may mean another disk tomorrow" in unstable and "the serial 'none'" in unknown
    assert f"{BY_ID} has no size" in empty


@pytest.mark.parametrize(("planned", "refused"), [(0, False), (GIB, False), (GIB + 512, True)])
def test_a_device_of_another_size_than_planned_is_refused(planned: int, refused: bool) -> None:
    disk = Disk("hdd", planned, BY_ID)
    if not refused:
        assert claims.claim(Machine({}), [disk], ()) == [Disk("hdd", GIB, "/dev/sdb")]
        return
    with pytest.raises(Refused) as told:
        claims.claim(Machine({}), [disk], (BY_ID,))
    (reason,) = told.value.reasons
    assert reason == (
        f"{BY_ID} holds {GIB} bytes and held {planned} when this run was planned; "
        "it may be another disk now: look at it, then start the run again."
    )


def test_a_device_without_a_size_is_refused() -> None:
    """A card reader without a card."""
    assert reasons({"strata-engine device": state("/dev/sdb", size_bytes=0)}) == (
        f"{BY_ID} has no size: nothing is in it or attached to it; attach or insert it first.",
    )


# ------------------------------------------------------------ names


def by_serial(*serials: str | None) -> dict[str, Answer]:
    devices = [{"path": f"/dev/sd{'abc'[i]}", "serial": serial} for i, serial in enumerate(serials)]
    return {"lsblk --json --paths --nodeps --output PATH,serial": blockdevices(*devices)}


def test_a_serial_names_the_one_device_that_has_it() -> None:
    assert claim(by_serial(None, "S1", "S2"), "serial:S1") == [Disk("hdd", GIB, "/dev/sdb")]


@pytest.mark.parametrize(("serials", "count"), [(("S2", "S3"), 0), (("S1", "S1"), 2), (("S1x", "xS1"), 0)])
def test_a_serial_of_none_or_several_is_refused(serials: tuple[str, ...], count: int) -> None:
    (reason,) = reasons(by_serial(*serials), "serial:S1")
    assert reason.startswith(f"{count} devices have the serial 'S1', and one is wanted;")


def test_no_serial_is_not_the_serial_of_devices_without_one() -> None:
    (reason,) = reasons(by_serial("", None), "serial:")
    assert reason.startswith("0 devices have the serial ''")


def test_a_wwn_names_the_one_device_that_has_it() -> None:
    devices = blockdevices({"path": "/dev/sda", "wwn": "0x1"}, {"path": "/dev/sdb", "wwn": "0x2"})
    assert claim({"lsblk --json --paths --nodeps --output PATH,wwn": devices}, "wwn:0x2") == [
        Disk("hdd", GIB, "/dev/sdb")
    ]


def test_a_file_in_shared_memory_is_a_file() -> None:
    """It lies below /dev, and is no device."""
    with pytest.raises(Refused, match=r"backing file of one loop device \(0 found\)"):
        claims.find(Machine({"losetup --noheadings": ""}), "/dev/shm/disk.img")


# ------------------------------------------------------------ a check that fails is not a check that found nothing


CHECKS = ("strata-engine device", "lsblk --all", "losetup --json --list", "wipefs --no-act", "/sys/kernel/config")


@pytest.mark.parametrize("part", CHECKS)
def test_a_check_that_fails_refuses(part: str) -> None:
    told = reasons({part: failed("Input/output error")}, wipe=())
    assert len(told) == 1
    assert "cannot be examined" in told[0] or "cannot be claimed" in told[0]
    assert told[0].endswith(".")


@pytest.mark.parametrize(("part", "seconds"), [("strata-engine device --content", 4), ("wipefs --no-act", 30)])
def test_a_device_that_does_not_answer_is_refused(part: str, seconds: int) -> None:
    answers: dict[str, Answer] = {part: failed(exit_code=124)}  # of timeout(1)
    assert reasons(answers, wipe=()) == (
        f"{BY_ID} does not answer: reading it did not end in {seconds} s; see dmesg and `dmsetup info`.",
    )
    assert claim(answers, wipe=(BY_ID,)), "its content is not asked for"


@pytest.mark.parametrize("part", ["strata-engine device", "lsblk --all", "wipefs --no-act"])
def test_a_check_that_says_nothing_understandable_refuses(part: str) -> None:
    for nonsense in ("wipefs: no such option", "{}", "[]", '{"blockdevices": []}'):
        (told,) = reasons({part: nonsense}, wipe=())
        assert "cannot be examined" in told


def test_a_device_that_changed_while_it_was_looked_at_is_refused() -> None:
    (told,) = reasons({"lsblk --all": blockdevices(entry("/dev/sdb", number="8:32"))})
    assert "became another device while it was looked at" in told


def test_a_loop_device_whose_openers_cannot_be_listed_is_refused() -> None:
    loop = {"name": "/dev/loop0", "back-file": "/srv/disk.img", "back-ino": 12, "back-maj:min": "  254:0 "}
    answers: dict[str, Answer] = {
        "strata-engine device": state("/dev/loop0", "7:0"),
        "lsblk --all": blockdevices(entry("/dev/loop0", "loop", "7:0")),
        "losetup --json --list": json.dumps({"loopdevices": [loop]}),
        "/proc/swaps": "",
    }
    assert claim({**answers, "find -L /proc": ""})
    # 65024 is 254:0; the same inode number on another file system is another file
    assert claim({**answers, "find -L /proc": "65025 /proc/9/fd/3\n"})
    (told,) = reasons({**answers, "find -L /proc": "65024 /proc/9/fd/3\n65024 /proc/9/fd/4\n65024 /proc/11/fd/0\n"})
    assert f"the backing file of {BY_ID} is open in process 9, process 11" in told
    (told,) = reasons({**answers, "find -L /proc": "", "/proc/swaps": "65024\n"})
    assert f"the backing file of {BY_ID} is swap; turn it off with swapoff" in told
    (told,) = reasons({**answers, "find -L /proc": failed("sh: find: not found", 127)})
    assert "cannot be examined" in told


# ------------------------------------------------------------ wiping


DISK = Disk("hdd", GIB, "/dev/sdb", identity=f"8:16 7 {GIB} 0")
HELD = replace(DISK, device=BY_ID)


def test_a_wiped_device_is_named_by_its_identity() -> None:
    machine = Machine({"strata-engine blank": '{"bytes_written": 1}'})
    claims.wipe(machine, DISK)
    changes = [command.argv for command in machine.commands if "blank" in command.argv]
    assert changes == [("strata-engine", "blank", "--wipe", "--identity", f"8:16 7 {GIB} 0", "--", "/dev/sdb")]


def test_what_was_taken_meanwhile_is_not_wiped() -> None:
    for taken in (
        {"lsblk --all": blockdevices(entry("/dev/sdb", children=[entry("/dev/dm-0", "crypt", "253:0")]))},
        {"strata-engine device": state("/dev/sdb", exclusive=False, exclusive_error="Device or resource busy")},
        {"lsblk --all": failed("lsblk: /dev/sdb: not a block device")},
    ):
        machine = Machine(taken)
        with pytest.raises((Refused, CommandFailed)):
            claims.wipe(machine, DISK)
        assert not [command for command in machine.commands if "blank" in command.argv]


# ------------------------------------------------------------ data without a signature


def holding(**content: Any) -> dict[str, Answer]:
    plain = {"empty": False, "found": [], "unread": None, "bytes_read": 1 << 20}
    return {"strata-engine device --content": state("/dev/sdb", content={**plain, **content})}


def test_data_without_a_signature_is_refused_with_its_places() -> None:
    boot, end = {"offset_bytes": 1 << 20, "bytes": "eb 3c 90 4d"}, {"offset_bytes": GIB - 1024, "bytes": "48 2b 00 04"}
    text = {"offset_bytes": 0, "bytes": b"# Disk Desc".hex()}
    (reason,) = reasons(holding(found=[text, boot, end]), wipe=())
    assert reason == (
        f"{BY_ID} holds data that no known signature explains: bytes other than zero at "
        "byte 0, 0 B from its start (23 20 44 69 73 6b 20 44 65 73 63, '# Disk Desc') and "
        "byte 1048576, 1.0 MiB from its start (eb 3c 90 4d) and "
        "byte 1073740800, 1.0 KiB before its end (48 2b 00 04). "
        f"Earlier runs of Strata leave such data too; if nothing on it is needed any more, add --wipe {BY_ID}."
    )


def test_a_device_too_slow_to_be_read_is_refused() -> None:
    (reason,) = reasons(holding(unread="it is too slow: 1 MiB were read in the time allowed"), wipe=())
    assert reason.startswith(f"{BY_ID} cannot be shown to be empty: it is too slow: 1 MiB were read")


def test_wipe_excuses_data_and_so_does_a_run_that_holds_the_device() -> None:
    full = holding(found=[{"offset_bytes": 0, "bytes": "01"}])
    (disk,) = claim(full, wipe=(BY_ID,))
    assert disk.identity == f"8:16 7 {GIB} 0"
    again = claims.claim(Machine(full), [Disk("hdd", GIB, BY_ID, identity=disk.identity)], ())
    assert again == [disk]


def test_where_disks_have_no_number_of_their_own_no_content_is_excused() -> None:
    content = {"empty": False, "found": [{"offset_bytes": 0, "bytes": "01"}], "unread": None, "bytes_read": 1}
    old = {
        "strata-engine device": state("/dev/sdb", disk_sequence=None),
        "strata-engine device --content": state("/dev/sdb", disk_sequence=None, content=content),
    }
    (disk,) = claim(old, wipe=(BY_ID,))
    with pytest.raises(Refused, match=r"this kernel has no diskseq \(Linux 5.15 has\)"):
        claims.claim(Machine(old), [Disk("hdd", GIB, BY_ID, identity=disk.identity)], ())


@pytest.mark.parametrize("other", [{"disk_sequence": 8}, {"number": "8:32"}])
def test_another_device_under_the_name_of_one_that_the_run_holds_is_refused(other: dict[str, Any]) -> None:
    found = state("/dev/sdb", **other)
    answers = {
        "strata-engine device": found,
        "lsblk --all": blockdevices(entry("/dev/sdb", number=other.get("number", "8:16"))),
    }
    held = Disk("hdd", GIB, BY_ID, identity=f"8:16 7 {GIB} 0")
    with pytest.raises(Refused, match="is not the device any more that this run began to use"):
        claims.claim(Machine(answers), [held], ())


def test_a_device_that_cannot_discard_is_left_as_it_is() -> None:
    machine = Machine({"lsblk --bytes --nodeps": "0\n"})
    claims.discard(machine, HELD, "/dev/sdb")
    assert not [command for command in machine.commands if "blank" in command.argv]


def test_one_that_says_it_can_and_does_not_is_refused_with_the_reason() -> None:
    machine = Machine({"lsblk --bytes --nodeps": "4096\n", "strata-engine blank": failed("strata-engine: it failed")})
    with pytest.raises(Refused, match=r"^it failed\.$"):
        claims.discard(machine, HELD, "/dev/sdb")


def test_a_discarded_device_is_named_by_its_identity() -> None:
    machine = Machine({"lsblk --bytes --nodeps": "4096\n", "strata-engine blank": "{}"})
    claims.discard(machine, HELD, "/dev/sdb")
    (command,) = [command for command in machine.commands if "blank" in command.argv]
    assert command.argv == ("strata-engine", "blank", "--discard", "--identity", HELD.identity, "--", "/dev/sdb")
