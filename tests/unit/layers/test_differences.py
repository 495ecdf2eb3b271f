"""What is read back from a machine: outputs of a real one, outputs with one thing wrong, and rubbish."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.layers import drivers
from strata.model import Completed, Value

from .layer_cases import ASKS_NOTHING, CAPTURED, LAYERS, PLACE, Captured, below, captured, facts, spec


@pytest.mark.parametrize(("layer", "case"), CAPTURED)
def test_a_real_machine_as_asked(layer: str, case: str) -> None:
    answers = captured(layer, case)
    assert answers.differences() == []
    commands = answers.driver.plan_inspect(answers.spec, answers.below, answers.place)
    assert [command.argv for command in commands] == [seen.argv for seen in answers.seen]


@pytest.mark.parametrize(("layer", "case"), CAPTURED)
def test_an_answer_that_is_missing_or_failed_is_a_difference(layer: str, case: str) -> None:
    answers = captured(layer, case)
    assert answers.differences([]) != []
    for index, answer in enumerate(answers.seen):
        assert answers.differences(answers.seen[:index]) != []
        failed = dataclasses.replace(answer, exit_code=1, stdout="", stderr="no such thing\n")
        assert answers.differences([*answers.seen[:index], failed, *answers.seen[index + 1 :]]) != []


def wrong(layer: str, case: str, index: int, old: str, new: str) -> list[str]:
    answers = captured(layer, case)
    return answers.differences(answers.with_stdout(index, old, new))


@pytest.mark.parametrize(
    ("layer", "case", "index", "old", "new", "word"),
    [
        ("disk", "loop", 0, "536870912", "536870400", "536870400 bytes instead of 536870912"),
        ("disk", "loop", 1, '"dio": true', '"dio": false', "direct I/O"),
        ("disk", "loop", 1, '"ro": false', '"ro": true', "read-only"),
        ("disk", "loop", 1, "0.img", "1.img", "is backed by"),
        ("disk", "loop", 1, "loopdevices", "loops", "no loop device"),
        ("disk", "claimed", 1, "/dev/loop", "/dev/sd", "not the claimed device"),
        ("ext4", "options", 0, "noatime,", "relatime,", "noatime is not in force"),
        ("ext4", "options", 0, "commit=30", "commit=5", "commit=30 is not in force"),
        ("ext4", "options", 0, ",nobarrier", "", "nobarrier is not in force"),
        ("ext4", "options", 0, '"ext4"', '"ext3"', "ext3 instead of ext4"),
        ("ext4", "options", 1, "/dev/loop", "/dev/sd", "instead of the device below"),
        ("ext4", "options", 3, "TYPE=ext4", "TYPE=xfs", "holds xfs instead of ext4"),
        ("ext4", "options", 3, "UUID=", "UUID=f", "has the UUID f"),
        ("ext4", "options", 4, "7:", "fe:", "of device 7:2 instead of the one below, 254:2"),
        ("ext4", "options", 5, "has_journal", "", "no journal"),
        ("ext4", "without-journal", 5, "Filesystem features:", "Filesystem features: has_journal", "a journal"),
        ("xfs", "options", 0, "logbsize=256k", "logbsize=32k", "logbsize=262144 is not in force"),
        ("xfs", "options", 4, ":", ":1", "instead of the one below"),
        ("xfs", "options", 5, "reflink=0", "reflink=1", "reflink=off was asked for"),
        ("xfs", "options", 5, "log      =", "lag      =", "log has None bytes instead of"),
        ("xfs", "options", 5, "blocks=20480", "blocks=16384", "67108864 bytes instead of 83886080"),
        ("btrfs", "raid1", 0, "zstd:3", "lzo", "compress=zstd is not in force"),
        ("btrfs", "raid1", 4, "/data/raid1", "/data/single", "data profile is single instead of raid1"),
        ("btrfs", "raid1", 4, "metadata/raid1", "metadata/dup", "metadata profile is dup instead of raid1"),
        ("btrfs", "raid1", 4, "quotas", "", "Quotas are off"),
        ("btrfs", "raid1", 4, "devices/loop", "devices/vd", "instead of loop"),
        ("btrfs", "plain", 4, "devices/", "quotas\ndevices/", "Quotas are on"),
        ("partition", "gpt", 0, "start=2048", "start=4096", "start is 2097152 bytes instead of 1048576"),
        ("partition", "gpt", 0, "size=", "size=1", "size is"),
        ("partition", "gpt", 0, "size=", "size=x", "size is None bytes"),
        ("partition", "gpt", 0, "parent=/dev/", "parent=/dev/x", "The partition is on /dev/x"),
        ("partition", "gpt", 0, "PTTYPE=gpt", "PTTYPE=dos", "dos instead of gpt"),
        ("partition", "dos", 0, "PTUUID=", "PTUUID=0", "not ours"),
        ("scheduler", "partition", 0, "[bfq]", "bfq [none]", "is 'none' instead of 'bfq'"),
        ("sysctl", "dirty-bytes", 0, "500000000", "0", "parameter vm.dirty_bytes is 0 instead of 500000000"),
        ("existing", "fresh", 0, "directory", "regular file", "regular file"),
        ("existing", "fresh", 1, "65024\n65024", "65024\n65025", "another file system"),
        ("dir", "on-ext4", 0, "directory", "symbolic link", "symbolic link"),
    ],
)
def test_one_thing_that_is_not_so(layer: str, case: str, index: int, old: str, new: str, word: str) -> None:
    found = wrong(layer, case, index, old, new)
    assert any(word in sentence for sentence in found), found
    assert len(found) == 1
    named = f"{layer}: "  # what can go wrong in the middle of a trial names its layer first
    assert all(sentence[0].isupper() or sentence.startswith(("/", named)) or "=" in sentence for sentence in found)
    assert all(sentence.endswith(".") for sentence in found)


def remounted(answers: Captured, *mounts: dict[str, str]) -> list[str]:
    listed = dataclasses.replace(answers.seen[0], stdout=json.dumps({"filesystems": list(mounts)}))
    return answers.differences([listed, *answers.seen[1:]])


def test_something_mounted_over_it() -> None:
    answers = captured("ext4", "options")
    ours = json.loads(answers.seen[0].stdout)["filesystems"][0]
    over = ours | {"source": "tmpfs", "fstype": "tmpfs"}
    assert remounted(answers, ours) == []
    assert remounted(answers, ours, over) == ["Something else is mounted over the file system: tmpfs."]
    assert remounted(answers) != []


@pytest.mark.parametrize(
    ("layer", "values", "shown", "fine"),
    [
        ("ext4", {"commit": 5}, "rw,relatime", True),
        ("ext4", {"commit": 5}, "rw,relatime,commit=6", False),
        ("ext4", {"commit": 6}, "rw,relatime", False),
        ("ext4", {"strictatime": True}, "rw", True),
        ("ext4", {"strictatime": True}, "rw,relatime", False),
        ("ext4", {"barrier": True}, "rw,relatime", True),
        ("ext4", {"barrier": True}, "rw,relatime,nobarrier", False),
        ("ext4", {"dioread_lock": True}, "rw,nodioread_nolock", True),
        ("ext4", {"dioread_lock": True}, "rw,dioread_lock", True),
        ("ext4", {"dioread_lock": True}, "rw", False),
        ("ext4", {"noatime": False}, "rw,relatime", True),
        ("xfs", {"uquota": True}, "rw,usrquota", True),
        ("xfs", {"pquota": True}, "rw,noquota", False),
        ("xfs", {"allocsize": 1 << 20}, "rw,allocsize=1024k", True),
        ("btrfs", {"compress": "zlib"}, "rw,compress=zlib:3", True),
        ("btrfs", {"compress": "lzo"}, "rw,compress=lzo", True),
        ("btrfs", {"compress": "zstd:7"}, "rw,compress=zstd:3", False),
        ("btrfs", {"compress-force": "zstd"}, "rw,compress-force=zstd:3", True),
        ("btrfs", {"compress-force": "zstd"}, "rw,compress=zstd:3", False),
        ("btrfs", {"discard": "sync"}, "rw,discard", True),
        ("btrfs", {"discard": "sync"}, "rw,discard=async", False),
        ("btrfs", {"discard": "async"}, "rw,discard=async", True),
        ("btrfs", {"nodiscard": True}, "rw,discard=async", False),
        ("btrfs", {"thread_pool": 4}, "rw", True),
        ("btrfs", {"thread_pool": 4}, "rw,thread_pool=6", False),
        ("btrfs", {"thread_pool": 12}, "rw", False),
        ("f2fs", {"noinline_data": True}, "rw,noinline_data", True),
        ("f2fs", {"noflush_merge": True}, "rw,flush_merge", False),
        ("f2fs", {"mode": "lfs"}, "rw,mode=lfs,active_logs=6", True),
        ("f2fs", {"mode": "lfs"}, "rw,mode=adaptive", False),
    ],
    ids=str,
)
def test_how_kernels_show_options(layer: str, values: dict[str, Value], shown: str, fine: bool) -> None:
    driver, call = drivers()[layer], spec(layer, values)
    mounted = {"source": "/dev/loop0", "fstype": layer, "options": shown, "maj:min": "7:0"}
    texts = [
        json.dumps({"filesystems": [mounted]}),
        "/dev/loop0\n",
        "/dev/loop0\n",
        f"TYPE={layer}\nUUID={PLACE.uuid}\n",
        *(() if layer == "btrfs" else ("7:0\n",)),
        {"ext4": "Filesystem features: has_journal\n", "btrfs": "devices/loop0\n"}.get(layer, "meta-data=\n"),
        *(("[/dev/loop0].write_io_errs 0\n", "") if layer == "btrfs" else ()),
    ]
    seen = [Completed(("x",), 0, text, "", 0.0) for text in texts]
    assert driver.reasons_not_to_run(call, facts()) == []
    assert (driver.differences(call, below(layer), PLACE, seen) == []) is fine


# ---------------------------------------------------------------- rubbish

json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["filesystems", "loopdevices", "source", "fstype", "options", "maj:min", "name", "dio"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
).map(json.dumps)
lines = st.lists(
    st.sampled_from(
        ["TYPE=", "UUID=ext4", "start=9", "size=" + "9" * 5000, "devices/", "[", "]", "=", "a=b=c", "log  ="]
    )
    | st.text(max_size=8),
    max_size=6,
).map("\n".join)
answers_of_any_kind = st.lists(
    st.builds(
        Completed,
        st.just(("x",)),
        st.sampled_from([0, 0, 0, 1, 127]),
        st.text(max_size=30) | json_like | lines,
        st.text(max_size=30),
        st.just(0.0),
    ),
    max_size=6,
)


@pytest.mark.parametrize("layer", sorted(set(LAYERS) - ASKS_NOTHING))
@given(seen=answers_of_any_kind)
def test_rubbish_is_a_difference_and_never_an_error(layer: str, seen: list[Completed]) -> None:
    required: dict[str, dict[str, Value]] = {
        "scheduler": {"name": "bfq"}, "existing": {"path": "/srv"}, "md": {"level": "raid1"}, "dm": {"target": "zero"},
        "fill": {"share": 0.5}, "kernel": {"version": "6.1"}, "debian": {"release": 12},
        "tenants": {"count": 3}, "limit": {"read_iops": 100}, "sysctl": {"name": "vm.swappiness", "value": 10},
    }  # fmt: skip
    call = spec(layer, required.get(layer))
    found = drivers()[layer].differences(call, below(layer), PLACE, seen)
    assert found and all(isinstance(sentence, str) and sentence for sentence in found)
