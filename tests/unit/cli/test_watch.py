"""What is shown of a run never ends it, and takes little of its time."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TextIO

import pytest

from strata.analysis import rank
from strata.cli import verdict, watch
from strata.errors import Interrupted
from strata.run.progress import Decided, Noted, StepStarted, TrialEnded, VisitEnded, VisitStarted
from strata.store import reader
from strata.text import visible

ENDED = VisitEnded("disk | ext4", None, 1.0, 1, 5, 4.0)


@contextmanager
def nobody_reads() -> Iterator[TextIO]:
    """The write end of a pipe whose reader is gone."""
    away, ours = os.pipe()
    os.close(away)
    with os.fdopen(ours, "w", buffering=1) as stream:
        yield stream


def test_lines_that_nobody_reads_are_no_error_and_what_follows_is_silent() -> None:
    with nobody_reads() as stream:
        show = watch.plain(stream)
        for number in range(3):
            show(Noted(f"line {number}"))
        print("what the command says at its end", file=stream, flush=True)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_terminal_that_is_gone_is_no_error(tmp_path: Path) -> None:
    away, ours = os.pipe()
    os.close(away)
    with Terminal(os.fdopen(ours, "wb", buffering=0)) as stream, watch.listener(tmp_path, stream) as show:
        show(Noted("a line that stays"))
        show(ENDED)
    assert stream.closed


BAD = "\x1b]52;c;aGk=\x07\x1b[2J\x9b2J\u202e\x00[link=http://evil]x[/link]:bomb:"
EVENTS = [
    VisitStarted(BAD, 0, 1, 2),
    StepStarted(BAD),
    TrialEnded(BAD, BAD, (BAD, 1.0, BAD), BAD, (BAD,)),
    TrialEnded(BAD, BAD, None, BAD, ()),
    VisitEnded(BAD, BAD, 1.0, 1, 2, 3.0),
    Decided(BAD),
    Noted(BAD),
]


def test_what_a_program_said_does_not_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_ranking", lambda directory: [BAD])
    monkeypatch.setenv("TERM", "xterm")
    written = io.BytesIO()
    with Terminal(written, encoding="utf-8") as stream:
        with watch.listener(Path("/nowhere"), stream) as show:
            for event in EVENTS:
                show(event)
            stream.flush()
        text = written.getvalue().decode()
    assert "\\x1b]52;c;aGk=\\x07" in text and "[link=http://evil]x[/link]:bomb:" in text
    # Colours, the cursor within the picture, and its hiding.
    own = re.sub(r"\x1b\[(?:[0-9;]*m|[0-9]*A|2K|\?25[lh])|\r", "", text)
    assert visible(own) == own


def test_what_a_program_said_does_not_act_in_lines() -> None:
    stream = io.StringIO()
    for event in EVENTS:
        watch.plain(stream)(event)
    assert visible(stream.getvalue()) == stream.getvalue() and "[link=http://evil]" in stream.getvalue()


def test_lines_come_out() -> None:
    stream = io.StringIO()
    with watch.listener(Path("/nowhere"), stream) as show:
        show(Noted("something"))
        show(ENDED)
    assert stream.getvalue() == "something\n    took 1.0 s, about 4.0 s left\n"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_ranking_takes_a_fiftieth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), []

    def slow(directory: Path) -> list[str]:
        asked.append(clock.now_s)
        clock.now_s += 3.0
        return ["a row"]

    monkeypatch.setattr(watch, "_ranking", slow)
    picture = watch._Picture(Path("/run"), clock)
    for _ in range(400):
        picture.take(ENDED)
        clock.now_s += 1.0
    assert asked == [1000.0, 1153.0, 1306.0]
    assert "a row" in picture._ranking


def test_a_fault_of_the_ranking_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    picture = watch._Picture(tmp_path)
    picture.take(ENDED)  # no run is there

    def overflow(*_: object, **__: object) -> NoReturn:
        raise OverflowError

    monkeypatch.setattr(reader, "view", lambda _: None)
    monkeypatch.setattr(rank, "rank", overflow)
    picture._rank_at = 0.0
    picture.take(ENDED)
    assert "strata verdict" in picture._ranking[0]
    assert picture.done == 1


def test_an_interrupt_while_ranking_still_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(directory: Path) -> NoReturn:
        raise Interrupted

    monkeypatch.setattr(watch, "_ranking", interrupted)
    with pytest.raises(Interrupted):
        watch._Picture(Path("/run")).take(ENDED)


def test_only_whole_reports_read_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Enough(Exception):
        pass

    def view(directory: Path, *, series: bool) -> NoReturn:
        asked.append(series)
        raise Enough

    monkeypatch.setattr(reader, "view", view)
    for call in (lambda: verdict.verdict(Path("/run"), False), lambda: verdict.model_of(Path("/run"))):
        with pytest.raises(Enough):
            call()
    assert asked == [False, True]
