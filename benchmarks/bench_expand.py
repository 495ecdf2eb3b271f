"""How long ten thousand stacks take to parse and expand, as a ratio to making as many plain records.

Run: python benchmarks/bench_expand.py
The ratio hardly depends on the machine; the seconds beside it do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from strata.campaign import parse_stacks
from strata.model import Kind, LayerInfo, Param, ParamType

BLOCK = frozenset({Kind.BLOCK})
LAYERS = {
    name: LayerInfo(name, "", (Param("x", ParamType.TEXT, "", positional=True),), BLOCK, Kind.BLOCK)
    for name in ("a", "b", "c", "d")
}
VALUES = ", ".join(map(str, range(50)))
MATRIX = f"disk | a({{{VALUES}}}) | b({{{VALUES}}}) | {{c, d}} | a({{1, 2}})"
STACKS = 50 * 50 * 2 * 2


@dataclass(frozen=True, slots=True)
class _Record:
    text: str
    parts: tuple[str, ...]
    levels: dict[str, str]


def _records() -> list[_Record]:
    return [_Record(f"disk | {n}", ("disk", str(n)), {"a": str(n), "b": str(n)}) for n in range(STACKS)]


def _fastest(what: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begin = time.process_time()
        what()
        taken.append(time.process_time() - begin)
    return min(taken)


def main() -> None:
    assert len(parse_stacks(MATRIX, LAYERS)) == STACKS
    expand_s = _fastest(lambda: parse_stacks(MATRIX, LAYERS), 5)
    record_s = _fastest(_records, 5)
    print(f"{STACKS} stacks: {expand_s:.3f} s of CPU, {expand_s / record_s:.1f} times the plain records")


if __name__ == "__main__":
    main()
