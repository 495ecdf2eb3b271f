"""python -m benchmarks.research.simulate"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

# Before numpy is loaded: on matrices of this size a second thread waits more than it works.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.research.simulate.ours import MARGIN
from benchmarks.research.simulate.tally import STRATEGIES, as_json, judge, summary, table
from benchmarks.research.simulate.truth import LEVELS, NOISES, machine_of, truth_of


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    names = [name for name in STRATEGIES if not given.only or any(text in name for text in given.only)]
    if not names:
        sys.exit(f"no strategy is called {' or '.join(given.only)}; they are: {'; '.join(STRATEGIES)}.")
    summaries = []
    for name in names:
        made = []
        for seed in range(given.seed, given.seed + given.campaigns):
            machine = machine_of(truth_of(given.stacks, seed, given.noise), seed, given.noise)
            made.append(judge(STRATEGIES[name](machine, seed, MARGIN), machine))
        summaries.append(summary(name, made))
        if not given.json:
            print(table(summaries[-1:]).split("\n")[-1] if len(summaries) > 1 else table(summaries), flush=True)
    if given.json:
        said = {key: getattr(given, key) for key in ("stacks", "campaigns", "seed", "noise")}
        print(json.dumps({"version": 1, **said, "strategies": as_json(summaries)}, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.research.simulate",
        description="Hours and errors of every strategy on the same made-up campaigns. Nothing is measured.",
    )
    parser.add_argument("--stacks", type=int, choices=sorted(LEVELS), default=100)
    parser.add_argument("--campaigns", type=int, default=100, help="each with stacks and noise of its own")
    parser.add_argument("--seed", type=int, default=0, help="of the first campaign; each further one has the next")
    parser.add_argument("--noise", choices=sorted(NOISES), default="realistic")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="strategies whose name holds it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
