"""Parquet files that claim more than they hold, or would unpack to more than any memory, are refused before polars."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path

import polars
import pytest
from benchmarks.research import replay

from strata import parquet

# ---------------------------------------------------------------- Thrift's compact protocol, written


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def value(thing: object) -> tuple[int, bytes]:
    """Its kind, and how it is written."""
    if isinstance(thing, int):
        return 6, varint(thing << 1 ^ thing >> 63)
    if isinstance(thing, bytes):
        return 8, varint(len(thing)) + thing
    if isinstance(thing, list):
        kinds = {value(each)[0] for each in thing} or {12}
        head = bytes([0xF0 | kinds.pop()]) + varint(len(thing))
        return 9, head + b"".join(value(each)[1] for each in thing)
    assert isinstance(thing, dict)
    return 12, fields(thing)


def fields(thing: Mapping[int, object]) -> bytes:
    out = b""
    for number, each in sorted(thing.items()):
        kind, text = value(each)
        out += bytes([kind]) + varint(number << 1) + text
    return out + b"\0"


# ---------------------------------------------------------------- a file of one column


def page(numbers: int, **changes: int) -> bytes:
    """The header of a page of so many plain 64-bit floats, and the page."""
    body = struct.pack("<d", 1.5) * numbers
    about = {1: changes.get("claimed", numbers), 2: changes.get("encoding", 0), 3: 3, 4: 3}
    return fields({1: 0, 2: changes.get("unpacked", len(body)), 3: changes.get("packed", len(body)), 5: about}) + body


def file(
    pages: bytes,
    rows: int = 2,
    *,
    column: Mapping[int, object] | None = None,
    about: Mapping[int, object] | None = None,
    footer: Mapping[int, object] | None = None,
) -> bytes:
    described = {1: 5, 2: [0], 3: [b"value"], 4: 0, 5: rows, 6: len(pages), 7: len(pages), 9: 4, **(about or {})}
    whole = {
        1: 1,
        2: [{4: b"root", 5: 1}, {1: 5, 3: 0, 4: b"value", **(column or {})}],
        3: rows,
        4: [{1: [{2: 4, 3: described}], 2: len(pages), 3: rows}],
        **(footer or {}),
    }
    text = fields(whole)
    return b"PAR1" + pages + text + struct.pack("<I", len(text)) + b"PAR1"


def test_what_polars_writes_and_what_is_written_here_pass() -> None:
    assert parquet.check(file(page(2))) == parquet.Table(2, {"value": parquet.Physical.DOUBLE})
    assert polars.read_parquet(io.BytesIO(file(page(2))))["value"].to_list() == [1.5, 1.5]
    frame = polars.DataFrame({"a": ["x", None] * 50_000, "b": [1, None] * 50_000, "c": [True, None] * 50_000})
    for compression in ("zstd", "uncompressed"):
        packed = io.BytesIO()
        frame.write_parquet(packed, compression=compression, row_group_size=30_000)
        assert parquet.check(packed.getvalue()).rows == 100_000
        again = polars.read_parquet(io.BytesIO(parquet.without_arrow_schema(packed.getvalue())))
        assert again.equals(frame)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (file(page(2), 1 << 40), "claims 1099511627776 rows"),
        (file(page(2), 1000), "claims 2 values|claims 1000 values"),
        (file(page(2, unpacked=1 << 31)), "unpack to 2147483648"),
        (file(page(2, unpacked=-1)), "no count"),
        (file(page(2, packed=1 << 40)), "a page claims 1099511627776 bytes"),
        (file(page(2, claimed=1 << 40)), "values in 2 rows"),
        (
            file(page(2, encoding=7)),
            "encoded in a way",
        ),  # a text may repeat the one before
        (file(page(2), about={4: 2}), "packed in a way"),
        (file(page(2), about={9: 1 << 40}), "outside of the file"),
        (file(page(2), about={1: 1}), "packed in a way"),
        (file(page(2), column={5: 2}), "flat table"),
        (file(page(2), column={3: 2}), "flat table"),
        (file(page(2), column={1: 3}), "does not write"),
        (file(page(2), column={4: b"\xff"}), "does not write"),
        (file(page(2), footer={3: 3}), "claims 3 rows and has 2"),
        (file(page(2), footer={4: [{1: [{1: b"/etc/passwd", 2: 4, 3: {}}], 2: 4, 3: 2}]}), "in another file"),
        (file(page(2), footer={4: [{1: [], 2: 4, 3: 2}]}), "all columns"),
        (b"PAR1" + b"\x19" * 400 + struct.pack("<I", 400) + b"PAR1", "cut off|nested"),
        (b"PAR1" + b"\x1c" * 400 + struct.pack("<I", 400) + b"PAR1", "nested too deep"),
        (b"PAR1" + struct.pack("<I", 0xFFFFFFFF) + b"PAR1", "footer claims"),
        (b"", "not a Parquet file"),
    ],
)
def test_a_file_that_claims_more_than_it_holds_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parquet.check(data)


def test_every_cut_of_a_file_is_refused_or_passes() -> None:
    data = file(page(2))
    for at in range(4, len(data) - 8):
        for changed in (data[:at] + data[at + 1 :], data[:at] + b"\xff" + data[at + 1 :]):
            try:
                parquet.check(changed)
            except ValueError:
                continue


def test_a_data_set_that_unpacks_to_more_than_any_memory_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.parquet"
    bomb.write_bytes(file(page(2, unpacked=1 << 40)))
    with pytest.raises(SystemExit, match="is no data set"):
        replay.main([str(bomb)])
