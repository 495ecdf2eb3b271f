"""Signatures of rows: they show that a row was written by this user on this machine, for this run at this place."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.store import schema


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run was made. Every signature of the run depends on all of it."""

    uuid: str
    machine: str  # its machine id; empty where it has none
    directory: str  # the real path


class Signer:
    """Signs the rows of one run with the key of this machine (HMAC-SHA256, RFC 2104)."""

    def __init__(self, key: bytes, origin: Origin) -> None:
        bound = [schema.VERSION, origin.uuid, origin.machine, origin.directory]
        self._key = hmac.digest(key, _encoded(bound), "sha256")

    def sign(self, table: str, values: Sequence[object]) -> bytes:
        """`values`: of every column of the table but the signature, in the order of the schema."""
        return hmac.digest(self._key, _encoded([table, *values]), "sha256")

    def holds(self, table: str, values: Sequence[object], signature: object) -> bool:
        """Whether the row is as it was signed. Takes whatever a database can hold."""
        if not isinstance(signature, bytes) or any(isinstance(value, bytes) for value in values):
            return False
        return hmac.compare_digest(self.sign(table, values), signature)


def stored(table: str, given: Mapping[str, object]) -> list[object]:
    """The values of a row as the database gives them back; columns that are not given are NULL."""
    return [_stored(kind, given.get(name)) for name, kind in schema.columns()[table].items()]


def _stored(kind: str, value: object) -> object:
    """As the column's affinity changes it: a flag is an integer, and a REAL column has no integers and no -0.0."""
    if kind == "REAL" and isinstance(value, int | float):
        return float(value) + 0.0
    return int(value) if isinstance(value, bool) else value


def _encoded(values: Sequence[object]) -> bytes:
    # JSON keeps texts, numbers and their borders apart, and writes a float so that it reads back as the same.
    return json.dumps(list(values)).encode()
