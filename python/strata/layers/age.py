"""Ages a directory: files are written, overwritten, grown, cut and deleted, with snapshots taken in between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from strata.errors import BadInput
from strata.layers._condition import steps_of
from strata.layers._device import fields, first
from strata.layers._driver import Driver
from strata.layers._steps import sh, standard_reasons
from strata.layers._written import TIMEOUT_S, TOOLS, look, make_directory, write, written_differences
from strata.model import (
    Call,
    Command,
    Completed,
    Facts,
    Kind,
    LayerInfo,
    Metric,
    Param,
    ParamType,
    Place,
    Provides,
    Step,
)
from strata.units import format_size

FILE_BYTES = 8192
"""The least that the engine gives each file."""

INFO = LayerInfo(
    name="age",
    about="Ages a directory by a stated sequence of writes, overwrites, cuts and deletes, with snapshots if asked for.",
    params=(
        Param(
            "rounds",
            ParamType.INT,
            "rounds of changes, as many as there are files in each",
            default=3,
            minimum=0,
            maximum=10_000,
        ),
        Param("files", ParamType.INT, "how many files there are", default=1000, minimum=1, maximum=10_000_000),
        Param("size", ParamType.SIZE, "what the files have together at most; without it, a quarter of all the room"),
        Param("snapshots", ParamType.INT, "snapshots held, taken between rounds", default=0, minimum=0, maximum=1000),
        Param("seed", ParamType.INT, "decides the sequence", default=1, minimum=0),
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=None,
    tools={**TOOLS, "filefrag": "e2fsprogs"},
    deployed=False,
    metrics=(
        Metric("age.extents", "count", "lower", "pieces that an aged file lies in, on average"),
        Metric("age.load_extents", "count", "lower", "pieces that any other file there lies in, on average"),
    ),
)

# $1 directory, $2 the aged one in it. Of a file system that cannot say it, as ZFS, there is nothing. An empty file has
# no pieces.
_PIECES = """\
sync --file-system -- "$1" || exit 1
count() {
  xargs -0 -r filefrag 2>/dev/null |
    sed -n 's/.*: \\([0-9]*\\) extents\\{0,1\\} found$/\\1/p' |
    awk -v name="$1" '$1 > 0 { files++; pieces += $1 } END { if (files) printf "%s=%.6f\\n", name, pieces / files }'
}
find "$2" -xdev -type f -print0 | count aged
find "$1" -xdev -path "$2" -prune -o -type f -print0 | count others"""


class AgeDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools)
        rounds, snapshots = int(spec["rounds"] or 0), int(spec["snapshots"] or 0)
        if snapshots > rounds:
            reasons.append(
                f"age takes one snapshot before each round at most, so {snapshots} snapshots want as many rounds, not "
                f"{rounds}; add rounds={snapshots}."
            )
        files, size = int(spec["files"] or 1), spec["size"]
        if size is not None and int(size) < files * FILE_BYTES:
            reasons.append(
                f"age(size={format_size(int(size))}) is too little for {files} files; give it "
                f"{format_size(files * FILE_BYTES)} or fewer files."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        self.plan_create(spec, below, place)  # what cannot be done is known before anything is built
        return below[0]

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        rounds, count = int(spec["rounds"] or 0), int(spec["snapshots"] or 0)
        taking = steps_of("age", "snapshot", below[0], count) if count else []
        # Round 0 makes the files. The last changes come after the last snapshot, so that every one holds something.
        cuts = [0, *(number * rounds // (count + 1) + 1 for number in range(1, count + 1)), rounds + 1]
        steps = [make_directory(_directory(below[0], place))]
        for number, (start, end) in enumerate(pairwise(cuts)):
            steps.append(self._rounds(spec, below[0], place, start, end - start))
            steps += taking[number * len(taking) // (count or 1) : (number + 1) * len(taking) // (count or 1)]
        return steps

    def _rounds(self, spec: Call, below: Provides, place: Place, first: int, rounds: int) -> Step:
        last = first + rounds - 1
        return write(
            place,
            f"age it, round {first}" if rounds == 1 else f"age it, rounds {first} to {last}",
            *("age", "--dir", _directory(below, place), "--seed", str(spec["seed"]), "--files", str(spec["files"])),
            *("--bytes", str(_size_bytes(spec, below)), "--first", str(first), "--rounds", str(rounds)),
        )

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return look(place, _directory(below[0], place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        return written_differences("age", seen, in_files=True)

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [sh(_PIECES, below[0].path, _directory(below[0], place), timeout_s=TIMEOUT_S)]

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        state = fields(seen, 0)
        names = (("aged", "age.extents"), ("others", "age.load_extents"))
        return {metric: float(value) for name, metric in names if (value := first(state, name)) is not None}


def _size_bytes(spec: Call, below: Provides) -> int:
    if spec["size"] is not None:
        return int(spec["size"])
    if below.size_bytes is None:
        raise BadInput("the room in the directory below is not known; write age(size=...).")
    return max(below.size_bytes // 4, int(spec["files"] or 1) * FILE_BYTES)


def _directory(below: Provides, place: Place) -> str:
    return f"{below.path}/.{place.name}-aged"


DRIVER = AgeDriver()
