"""The simulations of docs/concepts/deciding.md, and its pictures.

Run: python -m benchmarks.deciding --seed 1 --campaigns 60 docs/concepts/deciding
Writes DIR/STACKS-NOISE.json (what `python -m benchmarks.research.simulate --json` prints), DIR/table.md and the
pictures. With --plot nothing is simulated again; with --only TEXT, the strategies whose name holds it, and the rows of
the others stay as they are: give the same seed and campaigns.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

from benchmarks.research.simulate import __main__ as simulate

RUNS = (
    (100, "realistic", 1.0, ()),
    (30, "realistic", 1.0, ()),
    (300, "realistic", 0.2, ()),
    (100, "cliffs", 1.0, ("adaptive", "x5")),
    (100, "benign", 0.65, ("adaptive", "x5")),
    (100, "drifty", 0.65, ("adaptive", "x5")),
    (100, "bimodal", 0.65, ("adaptive", "x5")),
)  # stacks, noise, share of the campaigns asked for, strategies


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--campaigns", type=int, default=60)
    parser.add_argument("--plot", action="store_true", help="only the pictures and the table, from what is there")
    parser.add_argument("--only", default="", metavar="TEXT", help="simulate these again (default: all)")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    for stacks, noise, share, only in () if given.plot else RUNS:
        count = max(1, round(given.campaigns * share))
        words = ["--json", "--stacks", str(stacks), "--noise", noise, "--seed", str(given.seed)]
        path = given.directory / f"{stacks}-{noise}.json"
        before = json.loads(path.read_text())["strategies"] if given.only else []
        names = [row["strategy"] for row in before if given.only in row["strategy"]] or only
        words += ["--campaigns", str(count), *(word for text in names for word in ("--only", text))]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            simulate.main(words)
        now = json.loads(out.getvalue())
        rows = {row["strategy"]: row for row in (*before, *now["strategies"])}
        path.write_text(json.dumps(now | {"strategies": list(rows.values())}, indent=1) + "\n")
    found = [json.loads(path.read_text()) for path in sorted(given.directory.glob("*.json"))]
    (given.directory / "table.md").write_text(table(found))
    for each in found:
        if len(each["strategies"]) > 4:
            picture(each, given.directory / f"{each['stacks']}-{each['noise']}.svg")


def table(found: list[dict[str, Any]]) -> str:
    heads = ["stacks", "noise", "strategy", "campaigns", "hours (median)"]
    heads += ["wrong", "at most, at 95 %", "95 % intervals that hold", "stacks built"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in sorted(found, key=lambda each: (each["noise"] != "realistic", each["noise"], each["stacks"])):
        for row in each["strategies"]:
            held = "none stated" if row["coverage"] is None else f"{row['coverage']:.1%}"
            cells = (
                str(each["stacks"]),
                each["noise"],
                row["strategy"],
                str(row["campaigns"]),
                f"{row['hours']:.1f} ({row['hours_median']:.1f})",
                f"{row['wrong']:.1%}",
                f"{row['wrong_at_most']:.1%}",
                held,
                f"{row['measured']:.0f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def picture(each: dict[str, Any], path: Path) -> None:
    """Hours against errors; below and to the left is better."""
    import altair

    rows = [
        {"strategy": row["strategy"], "hours": row["hours"], "wrong": 100 * row["wrong"]} for row in each["strategies"]
    ]
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X("hours:Q", title="hours of machine time (mean)"),
        y=altair.Y("wrong:Q", title="campaigns in which the stack named is not within 3 % of the best, %"),
    )
    made = f"{each['campaigns']} simulated campaigns from seed {each['seed']}"
    title = f"{each['stacks']} stacks, {each['noise']} noise, {made}"
    names = base.mark_text(align="left", dx=7, fontSize=10).encode(text="strategy:N")
    chart = (base.mark_point(filled=True, size=60) + names).properties(width=640, height=360, title=title)
    chart.save(str(path))


if __name__ == "__main__":
    main()
