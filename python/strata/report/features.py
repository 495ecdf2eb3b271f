"""What stacks can do, as it was tried, as a table for a terminal; beside it what documents say otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from strata.advice.tried import holds, trials
from strata.model import View


def render(view: View, documented: Mapping[str, Mapping[str, bool]]) -> str:
    """`documented`: stack -> feature -> whether documents say that it has it."""
    lines: list[str] = []
    disagreements: list[str] = []
    cells = trials(view)
    for stack in view.stacks:
        lines.append(stack)
        for name, trial in cells.get(stack, {}).items():
            answer = holds(trial)
            shown = {True: "yes", False: "no", None: "?"}[answer]
            why = "; ".join(trial.notes) if answer is not None or not trial.reason else trial.reason
            lines.append(f"  {shown:4}{name:12} {why.removeprefix(f'{name}: ')}")
            said = documented.get(stack, {}).get(name)
            if answer is not None and said is not None and answer is not said:
                disagreements.append(f"  {stack}: {name} is {shown}, and documents say {'yes' if said else 'no'}")
    for skip in view.skipped:
        lines += [f"{skip.stack}: skipped", *(f"  {reason}" for reason in skip.reasons)]
    for failed in view.failed:
        lines += [f"{failed.stack}: failed", f"  {failed.reason}"]
    if disagreements:
        lines += ["", "Where documents and what happened disagree:", *disagreements]
    return "\n".join(lines) + "\n"
