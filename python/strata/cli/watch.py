"""Progress for a person: a picture that stays in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from strata.cli import output
from strata.errors import Interrupted
from strata.report.numbers import number
from strata.run.progress import (
    Decided,
    Listener,
    Noted,
    Progress,
    RunStarted,
    StepStarted,
    TrialEnded,
    VisitEnded,
    VisitStarted,
)
from strata.text import cleaned, visible
from strata.units import count, human_time

if TYPE_CHECKING:
    from rich.console import RenderableType

# The ranking costs a read of the store, which grows with the run: a fiftieth of the time at most, and never more often
# than anybody can read it.
_RANKING_EVERY_S = 2.0
_RANKING_SHARE = 1 / 50
_RANKING_ROWS = 12


@contextmanager
def listener(directory: Path, stream: TextIO) -> Iterator[Listener]:
    """Shows what it is given, and never raises: the run goes on when nobody reads `stream` any more."""
    if not stream.isatty():
        yield plain(stream)
        return
    from rich.console import Console
    from rich.live import Live

    picture = _Picture(directory)
    console = Console(file=_breakable(output.unguarded(stream)), markup=False, emoji=False, highlight=False)
    with Live(console=console, get_renderable=picture.render, refresh_per_second=4, transient=True) as live:

        def show(progress: Progress) -> None:
            shown = cleaned(progress)
            picture.take(shown)
            text = _permanent(shown)
            if text:
                live.console.print(text)

        yield show


def plain(stream: TextIO) -> Listener:
    """One line for everything worth a line."""
    quiet = _breakable(stream)

    def show(progress: Progress) -> None:
        text = _line(progress)
        if text:
            output.write(text, quiet)

    return show


class _Breakable:
    """A stream that falls silent, for the rest of the program too, once it cannot be written to: `... | head -2`, or a
    terminal that is gone. What was measured is in the run directory."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._silence()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._silence()

    def _silence(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def _breakable(stream: TextIO) -> TextIO:
    return cast("TextIO", _Breakable(stream))


def _line(progress: Progress) -> str | None:
    match progress:
        case RunStarted():
            return (
                f"{count(progress.stacks, 'stack')}, {progress.skipped} skipped; "
                f"{progress.visits_done} of {count(progress.visits_planned, 'visit')} done"
            )
        case VisitStarted():
            return f"[{progress.number}/{progress.planned}] {progress.stack}"
        case TrialEnded():
            return f"    {progress.workload}: {_outcome(progress)}"
        case VisitEnded():
            left = "" if not progress.seconds_left else f", about {human_time(progress.seconds_left)} left"
            failed = f"    visit failed: {progress.failure}\n" if progress.failure else ""
            return f"{failed}    took {human_time(progress.took_s)}{left}"
        case Decided() | Noted():
            return progress.text
        case StepStarted():
            return None


def _permanent(progress: Progress) -> str | None:
    """What scrolls by above the picture: what a person would miss if it were gone."""
    match progress:
        case VisitEnded() if progress.failure:
            return f"visit failed: {progress.stack}: {progress.failure}"
        case TrialEnded() if progress.reason:
            return f"trial failed: {progress.stack}, {progress.workload}: {progress.reason}"
        case Noted():
            return progress.text
        case _:
            return None


def _outcome(trial: TrialEnded) -> str:
    if trial.primary is None:
        return f"failed: {trial.reason}"
    name, value, unit = trial.primary
    flags = f" ({', '.join(trial.flags)})" if trial.flags else ""
    return f"{name} {number(value, 4)} {unit}{flags}"


class _Picture:
    """The state of the display."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.directory = directory
        self._clock = clock
        self.visit = "looking at the machine"
        self.step = ""
        self.step_began = clock()
        self.done = 0
        self.planned = 0
        self.seconds_left: float | None = None
        self.left_since = clock()
        self.last: list[str] = []
        self._ranking: list[str] = []
        self._rank_at = clock()

    def take(self, progress: Progress) -> None:
        match progress:
            case RunStarted():
                self.done, self.planned = progress.visits_done, progress.visits_planned
            case VisitStarted():
                self.visit = (
                    f"visit {progress.number} of {progress.planned}, round {progress.round + 1}: {progress.stack}"
                )
                self.last = []
            case StepStarted():
                self.step, self.step_began = progress.what, self._clock()
            case TrialEnded():
                self.last.append(f"{progress.workload}: {_outcome(progress)}")
            case VisitEnded():
                self.done, self.planned = progress.done, progress.planned
                self.seconds_left, self.left_since = progress.seconds_left, self._clock()
                self._rank()
            case Decided() | Noted():
                pass

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = self._clock()
        left = ""
        if self.seconds_left is not None:
            left = f"about {human_time(max(self.seconds_left - (now - self.left_since), 0))} left"
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=max(self.planned, 1), completed=self.done, width=40),
            Text(f"{self.done}/{count(self.planned, 'visit')}  {left}"),
        )
        parts: list[RenderableType] = [
            bar,
            Text(self.visit, style="bold"),
            Text(f"  {self.step}  {human_time(now - self.step_began)}"),
            *(Text(f"  {line}", style="dim") for line in self.last),
        ]
        if self._ranking:
            parts += [Text(""), Text("so far", style="bold"), *(Text(f"  {line}") for line in self._ranking)]
        return Group(*parts)

    def _rank(self) -> None:
        began = self._clock()
        if began < self._rank_at:
            return
        try:
            self._ranking = [visible(line) for line in _ranking(self.directory)]
        except Interrupted:
            raise
        except Exception:  # noqa: BLE001 - a fault of the display must not end the run
            self._ranking = ["ranking unavailable; see `strata verdict` when the run has ended"]
        ended = self._clock()
        self._rank_at = ended + max(_RANKING_EVERY_S, (ended - began) / _RANKING_SHARE)


def _ranking(directory: Path) -> list[str]:
    from strata.analysis import modelled
    from strata.analysis.verdict import probability
    from strata.store import reader

    ranking = modelled.ranking(reader.view(directory), metrics="primary")
    rows = [] if ranking.sure is None else [f"P(the first is as good as the best) {probability(ranking.sure)}"]
    for row in ranking.rows[:_RANKING_ROWS]:
        ratio = "" if row.ratio is None else f"{row.ratio.point:6.2f}x "
        chance = "" if row.best is None else f" P(best) {row.best:4.2f}"
        rows.append(f"{'=' if row.tied else ' '} {ratio} {row.visits:3d} visits{chance}  {row.stack}")
    if len(ranking.rows) > _RANKING_ROWS:
        rows.append(f"  and {len(ranking.rows) - _RANKING_ROWS} more")
    return rows
