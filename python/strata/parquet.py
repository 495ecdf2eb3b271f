"""What a Parquet file claims about itself, checked before polars reads it.

A file from a stranger may claim any number of rows and any size once unpacked; polars believes it, and a failed
allocation ends the whole process. So the footer and every page header are read here first (Thrift's compact protocol,
https://parquet.apache.org/docs/file-format/), and only flat tables in the encodings that Strata's own files have pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, BinaryIO

# A trial of a whole day leaves about 100 series with one point a second: 9 million rows.
_MAX_FILE_BYTES = 256 << 20
_MAX_ROWS = 10_000_000
_MAX_UNPACKED_BYTES = 1 << 30

_MAGIC = b"PAR1"
_MAX_FOOTER_BYTES = 1 << 20
_MAX_PAGE_HEADER_BYTES = 64 << 10
_MAX_DEPTH = 12  # a footer has 7 levels
_MAX_COLUMNS = 1000

_CODECS = {0, 6}  # none, zstd
# Plain, dictionary (two numbers), run lengths: what the last two unpack to is bounded by the rows, which are counted.
_ENCODINGS = {0, 2, 3, 8}
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3


class Physical(IntEnum):
    """The physical types of Parquet that Strata writes."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    FLOAT = 4
    DOUBLE = 5
    TEXT = 6


@dataclass(frozen=True, slots=True)
class Table:
    """What was checked: all pages together hold no more than this."""

    rows: int
    columns: Mapping[str, Physical]


def read(source: BinaryIO) -> bytes:
    """The whole of a file, with bounds. Raises ValueError when it is longer than any that Strata writes."""
    data = source.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"it has more than {_MAX_FILE_BYTES >> 20} MiB")
    return data


def check(data: bytes, *, max_rows: int = _MAX_ROWS, max_bytes: int = _MAX_UNPACKED_BYTES) -> Table:
    """The table that `data` holds: at most `max_rows` rows and `max_bytes` once unpacked. Raises ValueError with the
    reason why it is none that Strata would write."""
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise ValueError("it is not a Parquet file")
    length = int.from_bytes(data[-8:-4], "little")
    if not 0 < length <= min(_MAX_FOOTER_BYTES, len(data) - 12):
        raise ValueError(f"its footer claims {length} bytes")
    footer = _struct(_Bytes(data, len(data) - 8 - length, len(data) - 8), 0)
    columns = _columns(_list(footer, 2))
    rows = _number(footer, 3)
    if rows > max_rows:
        raise ValueError(f"it claims {rows} rows, more than {max_rows}")
    unpacked, counted = 0, 0
    for group in _list(footer, 4):
        group_rows = _number(group, 3)
        counted += group_rows
        chunks = _list(group, 1)
        if len(chunks) != len(columns):
            raise ValueError("a row group does not have all columns")
        for chunk, physical in zip(chunks, columns.values(), strict=True):
            unpacked += _chunk(data, chunk, physical, group_rows, max_bytes)
            if unpacked > max_bytes:
                raise ValueError(f"it unpacks to more than {max_bytes} bytes")
    if counted != rows:
        raise ValueError(f"it claims {rows} rows and has {counted}")
    return Table(rows, columns)


def without_arrow_schema(data: bytes) -> bytes:
    """The same file, read by the types of its columns alone: the key under which writers add a second description of
    them, in a format that is not checked here, is renamed."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start] + data[start:].replace(b"ARROW:schema", b"arrow.schema")


def _columns(elements: Sequence[Any]) -> dict[str, Physical]:
    if not elements or len(elements) - 1 > _MAX_COLUMNS or _number(elements[0], 5) != len(elements) - 1:
        raise ValueError("its columns are not a flat table")
    found = {}
    for element in elements[1:]:
        name, repetition = element.get(4), element.get(3)
        if not isinstance(name, bytes) or element.get(5) or repetition not in (0, 1):
            raise ValueError("its columns are not a flat table")
        try:
            found[name.decode()] = Physical(_number(element, 1))
        except ValueError as error:
            raise ValueError("it has a column of a type that Strata does not write") from error
    if len(found) != len(elements) - 1:
        raise ValueError("two of its columns have the same name")
    return found


def _chunk(data: bytes, chunk: Any, physical: Physical, rows: int, max_bytes: int) -> int:
    """How many bytes one column of one row group unpacks to."""
    about = chunk.get(3) if isinstance(chunk, dict) else None
    if not isinstance(about, dict) or chunk.get(1) is not None:
        raise ValueError("a column lies in another file")
    if _number(about, 1) != physical or _number(about, 4) not in _CODECS:
        raise ValueError("a column is packed in a way that Strata does not use")
    starts = [offset for offset in (about.get(9), about.get(11)) if isinstance(offset, int) and offset > 0]
    length = _number(about, 7)
    if not starts or min(starts) + length > len(data):
        raise ValueError("a column lies outside of the file")
    at, end = min(starts), min(starts) + length
    unpacked, values = 0, 0
    while at < end:
        source = _Bytes(data, at, min(end, at + _MAX_PAGE_HEADER_BYTES))
        header = _struct(source, 0)
        packed_bytes, page_bytes = _number(header, 3), _number(header, 2)
        at = source.at + packed_bytes
        unpacked += page_bytes
        if at > end or unpacked > max_bytes:
            raise ValueError(f"a page claims {packed_bytes} bytes that unpack to {page_bytes}")
        values += _page_values(header, page_bytes)
    if values != rows or _number(about, 5) != rows:
        raise ValueError(f"a column claims {values} values in {rows} rows")
    return unpacked


def _page_values(header: Mapping[int, Any], page_bytes: int) -> int:
    """How many rows a page stands for."""
    kind = _number(header, 1)
    fields = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
    about = header.get(fields.get(kind, -1))
    if not isinstance(about, dict):
        raise ValueError("it has a page of an unknown kind")
    values = _number(about, 1)
    if _number(about, 4 if kind == _DATA_PAGE_V2 else 2) not in _ENCODINGS:
        raise ValueError("a page is encoded in a way that Strata does not use")
    if kind != _DICTIONARY_PAGE:
        return values
    if values > page_bytes:
        raise ValueError(f"a dictionary claims {values} values in {page_bytes} bytes")
    return 0


# ------------------------------------------------------------ Thrift's compact protocol


class _Bytes:
    """A part of `data` that is read from its start; reading past its end raises ValueError."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self._end = end

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self._end - self.at:
            raise ValueError("its description is cut off")
        self.at += count
        return self._data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("its description holds a number that is too large")

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


def _struct(source: _Bytes, depth: int) -> dict[int, Any]:
    found: dict[int, Any] = {}
    field = 0
    while (head := source.byte()) != 0:
        field = field + (head >> 4) if head >> 4 else source.signed()
        kind = head & 0x0F
        # of a boolean the kind is the value
        found[field] = kind == 1 if kind in (1, 2) else _value(source, kind, depth + 1)
    return found


def _value(source: _Bytes, kind: int, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("its description is nested too deep")
    match kind:
        case 1 | 2 | 3:  # a boolean in a list takes one byte, as a small number does
            return source.byte()
        case 4 | 5 | 6:
            return source.signed()
        case 7:
            return source.take(8)
        case 8:
            return source.take(source.varint())
        case 9 | 10:
            head = source.byte()
            count = head >> 4 if head >> 4 < 15 else source.varint()
            return [_value(source, head & 0x0F, depth + 1) for _ in range(count)]
        case 12:
            return _struct(source, depth)
    raise ValueError("its description holds a field of an unknown kind")


def _number(fields: Any, field: int) -> int:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"field {field} of its description is missing or no count")
    return value


def _list(fields: Any, field: int) -> list[Any]:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"field {field} of its description is missing or no list")
    return value
