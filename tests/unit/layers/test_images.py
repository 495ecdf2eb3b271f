"""Disk images and QEMU's block layer over them: room, refusals, what is read back, and what can be lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Disk, Kind, Value
from strata.planning import layout

from .layer_cases import PLACE, below, captured, captured_figures, facts, spec

QSD = drivers()["qsd"]


@pytest.mark.parametrize("layer", ["raw", "qcow2"])
def test_a_layer_above_can_rely_on_what_an_image_gives(layer: str) -> None:
    provides = drivers()[layer].provides(spec(layer), below(layer), PLACE)
    assert (provides.kind, provides.name, provides.size_bytes) == (Kind.IMAGE, layer, 1 << 29)
    assert provides.path == f"/run/visit/1/mnt/{PLACE.name}.{layer}"


@pytest.mark.parametrize(
    ("layer", "values", "room", "size"),
    [
        ("raw", {}, 3 << 20, 1 << 20),
        ("qcow2", {"backing": "raw"}, 1 << 30, 1 << 28),
        ("qcow2", {"size": 960 << 20}, 1 << 30, 960 << 20),
        ("raw", {"size": 1 << 30}, None, 1 << 30),
    ],
    ids=str,
)
def test_room(layer: str, values: dict[str, Value], room: int | None, size: int) -> None:
    assert drivers()[layer].provides(spec(layer, values), below(layer, size_bytes=room), PLACE).size_bytes == size


@pytest.mark.parametrize(
    ("layer", "values", "room", "word"),
    [
        ("raw", {"size": 2 << 30}, 1 << 30, "make size= smaller"),
        # of which the file system has a part itself
        ("qcow2", {"size": 1 << 30}, 1 << 30, "keeps some for itself"),
        ("qcow2", {"size": 1 << 30, "backing": "compressed"}, 1 << 30, "and a base image of the same size"),
        ("raw", {}, None, r"write raw\(size"),
        ("raw", {}, 1 << 20, "too small for an image"),
    ],
    ids=str,
)
def test_what_has_no_room(layer: str, values: dict[str, Value], room: int | None, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        drivers()[layer].provides(spec(layer, values), below(layer, size_bytes=room), PLACE)


@pytest.mark.parametrize(
    ("layer", "values", "words"),
    [
        ("raw", {"size": (1 << 20) + 1}, ["not a multiple of 512"]),
        ("qcow2", {"cluster": 96 << 10}, ["power of two"]),
        ("qcow2", {"cluster": 4 << 10, "extended_l2": True}, ["16K or more"]),
        ("qcow2", {"backing": "raw", "prealloc": "full"}, ["add extended_l2"]),
        ("qcow2", {"backing": "raw", "prealloc": "full", "extended_l2": True}, []),
        ("qsd", {"aio": "native"}, ["aio=native with cache=writeback"]),
        ("qsd", {"aio": "native", "cache": "unsafe", "discard": "unmap"}, ["aio=native", "take export=nbd"]),
        ("qsd", {"aio": "native", "cache": "directsync"}, []),
        ("qsd", {"read_iops": 100}, []),
        ("qsd", {"read_iops": 100, "export": "nbd"}, ["qemu-nbd holds no limit"]),
        ("qsd", {"detect_zeroes": "unmap"}, ["without discard=unmap"]),
        ("qsd", {"detect_zeroes": "unmap", "discard": "unmap", "export": "nbd"}, []),
    ],
    ids=str,
)
def test_every_refusal_at_once(layer: str, values: dict[str, Value], words: list[str]) -> None:
    reasons = drivers()[layer].reasons_not_to_run(spec(layer, values), facts())
    assert len(reasons) == len(words)
    for reason, word in zip(reasons, words, strict=True):
        assert word in reason and reason.endswith(".")


def test_what_the_machine_must_have() -> None:
    assert any("cannot mount fuse" in reason for reason in QSD.reasons_not_to_run(spec("qsd"), facts(filesystems=())))
    by_nbd = spec("qsd", {"export": "nbd"})
    assert any("has no nbd" in reason for reason in QSD.reasons_not_to_run(by_nbd, facts(modules=frozenset())))
    assert QSD.reasons_not_to_run(by_nbd, facts(filesystems=())) == []
    for layer in ("qsd", "vm"):
        old = drivers()[layer].reasons_not_to_run(spec(layer, {"aio": "io_uring"}), facts(kernel=(4, 19, 0)))
        assert any("no io_uring" in reason for reason in old)


def served(cache: str) -> list[dict[str, object]]:
    """The nodes and the export that qemu-storage-daemon is started with."""
    argv = QSD.plan_create(spec("qsd", {"cache": cache}), below("qsd", image="qcow2"), PLACE)[2].do.argv
    return [json.loads(word) for word in argv if word.startswith("{")]


@pytest.mark.parametrize(
    ("cache", "direct", "no_flush", "through"),
    [
        ("none", True, False, False),
        ("writeback", False, False, False),
        ("writethrough", False, False, True),
        ("directsync", True, False, True),
        ("unsafe", False, True, False),
    ],
)
def test_a_mode_is_three_switches(cache: str, direct: bool, no_flush: bool, through: bool) -> None:
    file, image, export = served(cache)
    for node in (file, image):
        assert node["cache"] == {"direct": direct, "no-flush": no_flush}
    assert export["writethrough"] is through


def laid_out(expression: str) -> layout.Layout:
    (stack,) = parse_stacks(expression, catalogue())
    disks = [Disk("disk", 1 << 30)]
    return layout.lay_out(stack, drivers(), disks, work_dir="/run/strata", run_uuid="5" * 32, attempt=1)


@pytest.mark.parametrize(
    ("layer", "case", "index", "old", "new", "word"),
    [
        ("raw", "falloc-on-ext4", 0, "regular file", "directory", "is a directory instead of an image"),
        ("raw", "falloc-on-ext4", 1, '"virtual-size": 67108864', '"virtual-size": 512', "512 bytes instead of"),
        ("raw", "falloc-on-ext4", 2, "length=", "size=", "how"),
        ("qcow2", "options-on-btrfs", 1, '"extended-l2": true', '"extended-l2": false', "extended-l2 of"),
        ("qcow2", "options-on-btrfs", 1, '"corrupt": false', '"corrupt": true', "marked as corrupt"),
        ("qcow2", "options-on-btrfs", 3, "C", "-", "no such files"),
        ("qcow2", "clone", 1, "strata-test-2-base", "other", "backing of"),
        ("qcow2", "clone", 1, '"zstd"', '"zlib"', "compression-type of"),
        ("qsd", "none-on-raw", 0, "process=", "pid=", "0 programs serve"),
        ("qsd", "none-on-raw", 0, "flags=02140002", "flags=02100002", "without O_DIRECT"),
        ("qsd", "writeback-on-qcow2", 0, "flags=02100002", "flags=02140002", "with O_DIRECT"),
        ("qsd", "none-on-raw", 0, '"no-flush": false', '"no-flush": true', "was not started as requested"),
        ("qsd", "none-on-raw", 0, "discards=0", "discards=4096", "takes discards"),
        ("qsd", "none-on-raw", 1, "67108864", "0", "0 bytes instead of 67108864"),
        ("qsd", "none-on-raw", 2, "/export", "/other", "instead of what the daemon exports"),
        ("qsd", "none-on-raw", 2, '"dio": true', '"dio": false', "does not use direct I/O"),
    ],
)
def test_one_thing_that_is_not_so(layer: str, case: str, index: int, old: str, new: str, word: str) -> None:
    answers = captured(layer, case)
    found = answers.differences(answers.with_stdout(index, old, new))
    assert any(word in sentence for sentence in found), found
    assert all(sentence.startswith(f"{layer}: ") and sentence.endswith(".") for sentence in found)


def test_what_an_image_takes() -> None:
    assert captured_figures("raw", "falloc-on-ext4") == {
        "raw.logical_bytes": 67108864.0,
        "raw.physical_bytes": 67108864.0,
        "raw.physical_bytes_made": 67108864.0,
        "raw.extents": 1.0,
        "raw.extents_made": 1.0,
    }
    thin = captured_figures("qcow2", "clone")
    assert thin["qcow2.physical_bytes"] < 1 << 20 and thin["qcow2.extents"] >= 1


def test_of_btrfs_an_image_can_have_less() -> None:
    (under,) = below("raw", size_bytes=4 << 30)
    values: dict[str, Value] = {"size": 3880 << 20}
    assert drivers()["raw"].provides(spec("raw", values), [replace(under, filesystem="xfs")], PLACE).size_bytes
    with pytest.raises(BadInput, match="keeps some for itself"):
        drivers()["raw"].provides(spec("raw", values), [replace(under, filesystem="btrfs")], PLACE)


def test_the_clusters_of_a_qcow2_say_how_large_it_can_be() -> None:
    """As qemu-img says of 200G with clusters of 512: "too large for file format"."""
    for values, fits in (
        ({"size": 128 << 30, "cluster": 512}, True),
        ({"size": 200 << 30, "cluster": 512}, False),
        ({"size": 200 << 30, "cluster": 1024}, True),
        ({"size": 64 << 40, "cluster": 16 << 10, "extended_l2": True}, True),
        ({"size": 65 << 40, "cluster": 16 << 10, "extended_l2": True}, False),
    ):
        reasons = drivers()["qcow2"].reasons_not_to_run(spec("qcow2", values), facts())
        assert any("make cluster= larger" in reason for reason in reasons) != fits, values
