"""Hours to a verdict: stacks in the exact lab, and the same stacks on a real machine whose visits are noisy.

    python -m benchmarks.research.dataset RUN exact.parquet
    python -m benchmarks.exact_verdict exact.parquet [--seeds more.parquet] [--campaigns 60]

RUN is one on the virtual clock with factors. Its figures, means over its seeds, are taken for the truth, also of the
real machine: what is compared is the way to a verdict, and not which of the two is right about a disk. The real machine
is made up as in docs/concepts/deciding.md: visits of 80 s, of which 60 s are measured, with the noise that is called
realistic there. The strategies are those of `python -m benchmarks.research.simulate`. A verdict is wrong when the
stack that it names is more than 3 % below the best.

Of the lab the hours are those of RUN, from its first trial to its last, with the pauses of one that was
interrupted; and each seed's verdict is compared with the
means of the other seeds, where there are any: of RUN, or of a run of the stacks at its top alone with more seeds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl
from benchmarks.research.simulate.ours import MARGIN
from benchmarks.research.simulate.tally import STRATEGIES, Campaign, judge, summary, table
from benchmarks.research.simulate.truth import Truth, machine_of

SHOWN = ("matrix x3, interleaved", "matrix x10, interleaved", "race, 95 %", "adaptive, 80 %", "adaptive, 95 %")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exact", type=Path)
    parser.add_argument("--campaigns", type=int, default=60, help="of the made-up machine, each with noise of its own")
    parser.add_argument("--seeds", type=Path, metavar="FILE", help="a run with more seeds of the stacks at its top")
    options = parser.parse_args(argv)
    visits = pl.read_parquet(options.exact)
    factors = [name for name in visits.columns if name.startswith("factor: ")]
    if not factors:
        parser.error("the stacks of this run have no factors, which the adaptive design learns from.")
    seeds = _seeds(visits, ["stack", *factors])
    codes = np.column_stack([_codes(seeds[name].to_list()) for name in factors])
    values = seeds.drop(["stack", *factors]).to_numpy()  # stacks x seeds
    truth = Truth(codes, values.mean(axis=1))
    best = float(np.exp(truth.level.max()))
    near = int((truth.level >= truth.level.max() - MARGIN).sum())
    print(f"{len(values)} stacks, {values.shape[1]} seeds; the best has {best:.4g}, and {near} are within 3 % of it")
    print(f"the exact lab: {float(visits['hour'].max()):.2f} hours from first to last")  # type: ignore[arg-type]
    top = _seeds(pl.read_parquet(options.seeds), ["stack"]) if options.seeds else seeds.drop(factors)
    for line in _by_seed(top.drop("stack").to_numpy(), top["stack"].to_list()):
        print(line)
    rows, lines = [], []
    for name in SHOWN:
        made = []
        for seed in range(options.campaigns):
            machine = machine_of(truth, seed)
            made.append(judge(STRATEGIES[name](machine, seed, MARGIN), machine))
        rows.append(summary(name, made))
        lines.append(_by_settled(name, made))
    print(table(rows))
    print("\n".join(filter(None, lines)))
    return 0


def _by_settled(name: str, made: Sequence[Campaign]) -> str:
    """Return how many campaigns settled, and how many of each kind were wrong. Empty for a rule that states nothing.

    A campaign that ended unsettled states no confidence: it reports the stacks that may be the best.
    """
    settled = [each for each in made if each.stated is not None]
    rest = [each for each in made if each.stated is None]
    if not settled:
        return ""
    tied = sum(each.best_tied for each in rest)
    return (
        f"{name}: {len(settled)} of {len(made)} settled, {sum(each.wrong for each in settled)} of these wrong; "
        f"{len(rest)} not settled, {sum(each.wrong for each in rest)} wrong, with the best in {tied} tied groups"
    )


def _seeds(visits: pl.DataFrame, index: Sequence[str]) -> pl.DataFrame:
    """A row for each stack that every seed has, a column for each seed."""
    return visits.pivot(on="round", index=list(index), values="value", sort_columns=True).drop_nulls()


def _codes(levels: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    known = sorted(set(levels))
    return np.array([known.index(level) for level in levels], dtype=np.int64)


def _by_seed(values: np.ndarray[tuple[int, int], np.dtype[np.float64]], stacks: Sequence[str]) -> Sequence[str]:
    """What each seed alone would say, and how far that is below the best by the others."""
    lines = []
    for seed in range(values.shape[1]):
        chosen = int(np.argmax(values[:, seed]))
        others = np.delete(values, seed, axis=1)
        if not others.size:
            lines.append(f"one seed says {stacks[chosen]}; by how much seeds differ is not known from it")
            continue
        mean = others.mean(axis=1)
        below = 1 - np.exp(mean[chosen] - mean.max())
        lines.append(f"seed {seed + 1} says {stacks[chosen]}, which is {below:.2%} below the best by the others")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
