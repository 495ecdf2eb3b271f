"""strata serve

A page is made from the database and the samples of a run, never from HTML that lies in its directory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from strata.analysis import between
from strata.analysis.factorial import effects
from strata.cli import features as tried
from strata.cli import output, verdict
from strata.errors import BadInput, Refused, StrataError
from strata.hosts import web
from strata.hosts.web import Page
from strata.model import Kind
from strata.probes import PREFIX
from strata.report import comparison, factorial, joined, pages
from strata.report.pages import Filter, Listed
from strata.run.safety import lock, run_directories
from strata.store import reader
from strata.text import one_line

_RUNNING_S, _LIST_S = 10, 5  # how often a page of a run that goes on, and the list, are asked for again
_BUSY_S = 3  # after so long a page that could not be made at once is asked for again
_MAX_WAITING = 4  # requests at a time for pages that have to be made; a connection is left for what is there
_MAX_KEPT = 32  # pages
_VERDICTS_S = 2.0  # of one request for the list; verdicts that take longer come with the next


def serve(directories: Sequence[Path], port: int) -> None:
    for directory in directories:
        if not directory.is_dir():
            raise BadInput(f"{directory} is no directory; give those of runs, or one that holds them, such as runs.")
    site = Site(directories)
    if not site.runs():
        output.err("No run is there yet; the page shows what comes.")
    try:
        with web.listening(port, site.answer) as server:
            output.out(f"{server.url} until Ctrl-C; every user of this machine can read it, and no other machine.")
            server.serve()
    except KeyboardInterrupt:
        output.err("")
    except OSError as error:
        raise BadInput(
            f"port {port} cannot be had: {error.strerror}; give another with --port, or 0 for any."
        ) from error


class _Busy(Exception):
    """As many requests as may wait do so already."""


class Site:
    """Every page from what is stored now; those of what did not change since are kept."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._lock = threading.Lock()  # one page is made at a time
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)
        self._kept: dict[Hashable, tuple[object, str]] = {}  # oldest first
        self._verdicts: dict[Path, tuple[object, str]] = {}  # run -> what it was made of, first sentence

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Page:
        try:
            page = self._page(path, query)
        except _Busy:
            said = f"other pages are being made first; this one is asked for again in {_BUSY_S} s."
            page = Page(pages.message(said), 503, refresh_s=_BUSY_S)
        except Refused as error:
            page = Page(pages.message(str(error)), 403)
        except StrataError as error:
            page = Page(pages.message(str(error)), 400)
        except OSError as error:
            page = Page(pages.message(f"cannot read {error.filename}: {error.strerror}"), 500)
        except Exception as error:  # noqa: BLE001 - one run that cannot be shown must not end the server
            page = Page(pages.message(f"this page cannot be made ({type(error).__name__}: {error})"), 500)
        return replace(page, policy=pages.policy())

    def _page(self, path: str, query: Mapping[str, list[str]]) -> Page:
        runs = self.runs()
        first, _, key = path.strip("/").partition("/")
        key = unquote(key)
        if not first:
            where = ", ".join(str(directory) for directory in self._directories)
            return Page(pages.runs(self._list(runs), where), refresh_s=_LIST_S)
        if first == "joined":
            return self._joined(runs, query)
        if first in ("run", "features", "factors") and key in runs:
            directory = _checked(runs[key])
            if first == "features" and not _has_features(directory):
                return Page(pages.message(f"no features were tried in {key}; `strata features` tries them."), 404)
            if first == "features":
                tries = _features_runs(directory)
                return Page(self._made((first, key), tries, lambda: pages.features(tried.matrix_of(tries))))
            make = _report if first == "run" else _factors
            body = self._made((first, key), [directory], lambda: make(key, directory))
            return Page(body, refresh_s=_RUNNING_S if lock.held(directory) else None)
        return Page(pages.message(f"there is no page {path}; the list of runs has them all."), 404)

    def runs(self) -> dict[str, Path]:
        """What there is now: the directories given, or the runs in them, by short names that are unique."""
        found = [run for directory in self._directories for run in run_directories.below(directory)]
        # of `strata features`, which makes a run for each kind, by both names: "features/block"
        names = [
            "/".join(path.resolve().parts[-2:]) if path.name in list(Kind) else path.resolve().name for path in found
        ]
        return {
            one_line(name if names.count(name) == 1 else str(path)): path
            for name, path in zip(names, found, strict=True)
        }

    def _list(self, runs: Mapping[str, Path]) -> list[Listed]:
        """Every run with its verdict; those that take long, or while a page is made, with what the run said last."""
        free = self._lock.acquire(blocking=False)
        try:
            until = time.monotonic() + _VERDICTS_S if free else 0.0
            return [_listed(name, run, lambda path: self._verdict(path, until)) for name, run in runs.items()]
        finally:
            if free:
                self._lock.release()

    def _verdict(self, directory: Path, until: float) -> str | None:
        """The first sentence of the verdict, made now only `until` that time of the monotonic clock."""
        stamp, sentence = self._verdicts.get(directory, (None, ""))
        if stamp == (now := _stamp([directory])):
            return sentence
        if time.monotonic() >= until:
            return None
        sentence = verdict.model_of(directory, series=False).verdict.sentence
        self._verdicts[directory] = (now, sentence)
        return sentence

    def _made(self, key: Hashable, directories: Sequence[Path], make: Callable[[], str]) -> str:
        """The page that `key` names, of the runs in `directories`. Raises _Busy."""

        def unchanged() -> str | None:
            stamp, page = self._kept.get(key, (None, ""))
            return page if stamp == _stamp(directories) else None

        if (page := unchanged()) is not None:
            return page
        if not self._waiting.acquire(blocking=False):
            raise _Busy
        try:
            with self._lock:
                if (page := unchanged()) is None:
                    stamp, page = _stamp(directories), make()
                    self._kept.pop(key, None)
                    self._kept[key] = (stamp, page)
                    if len(self._kept) > _MAX_KEPT:
                        del self._kept[next(iter(self._kept))]
                return page
        finally:
            self._waiting.release()

    def _joined(self, runs: Mapping[str, Path], query: Mapping[str, list[str]]) -> Page:
        if unknown := [name for name in query.get("run", ()) if name not in runs]:
            raise BadInput(f"there is no run {unknown[0]} here; the list of runs has them all.")
        chosen = {name: _checked(runs[name]) for name in query.get("run", ())}
        if not chosen:
            return Page(pages.message("mark the runs that are to stand side by side first."), 400)
        part = query.get("part", [""])[0].strip()
        only = dict(text.split("=", 1) for text in query.get("factor", ()) if "=" in text)
        key = ("joined", *chosen), part, *only.items()
        body = self._made(key, list(chosen.values()), lambda: _side_by_side(chosen, part, only))
        running = any(lock.held(directory) for directory in chosen.values())
        return Page(body, refresh_s=_RUNNING_S if running else None)


def _stamp(directories: Iterable[Path]) -> tuple[object, ...]:
    """Another one when something was stored since."""
    files = [directory / name for directory in directories for name in ("strata.db", "strata.db-wal")]
    return tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists())


def _report(_: str, directory: Path) -> str:
    from strata.report import html

    return html.render(verdict.model_of(directory))


def _factors(name: str, directory: Path) -> str:
    return pages.factors(factorial.build(name, effects(reader.view(directory))))


def _side_by_side(chosen: Mapping[str, Path], part: str, only: Mapping[str, str]) -> str:
    views = {name: reader.view(directory) for name, directory in chosen.items()}
    probed = [name for name, view in views.items() if all(load.name.startswith(PREFIX) for load in view.workloads)]
    if probed:
        raise BadInput(f"{probed[0]} is what `strata features` tried, and no load; its page has the matrix.")
    said = {name: verdict.model_of(directory, series=False).verdict.sentence for name, directory in chosen.items()}
    found = joined.build(views, said, part=part, only=only)
    asked = Filter(tuple(views), part, joined.levels(views), only)
    below = ""
    if len(views) == 2:
        (one, first), (other, second) = views.items()
        try:
            below = comparison.of_runs(between.runs(first, second), one, other, everything=False)
        except BadInput as error:
            below = f"{error}\n"
    return pages.joined(found, below, asked)


def _checked(directory: Path) -> Path:
    """The directory of a run that may be shown. Raises Refused."""
    reason = run_directories.reason_against(directory)
    if reason is not None:
        raise Refused(reason)
    return directory


def _features_runs(directory: Path) -> list[Path]:
    """This run, or all the runs that the same `strata features` made."""
    runs = tried.runs_in(directory.parent) if directory.name in list(Kind) else [directory]
    return [_checked(run) for run in runs]


def _has_features(directory: Path) -> bool:
    return any(name.startswith(PREFIX) for name in reader.workloads(directory))


def _listed(name: str, directory: Path, verdict_of: Callable[[Path], str | None]) -> Listed:
    try:
        now = reader.status(_checked(directory))
        features = _has_features(directory)
        running = lock.held(directory)
        # A run that goes on says what it does, and a page of features has no ranking.
        sentence = None if running or features or not now.visits_done else verdict_of(directory)
    except StrataError as error:
        return _unreadable(name, str(error))
    except Exception as error:  # noqa: BLE001 - one run that cannot be read must not remove the list of the others
        return _unreadable(name, f"it cannot be read ({type(error).__name__}: {error}); restore it from a copy.")
    ended = now.visits_done >= now.visits_planned
    state = "running" if running else "ended" if ended else "stopped"
    said = f"in quarantine: {now.quarantined}" if now.quarantined else sentence or now.decision or ""
    return Listed(name, now.name, state, now.visits_done, now.visits_planned, said, features)


def _unreadable(name: str, why: str) -> Listed:
    return Listed(name, "", "cannot be read", 0, 0, why, False)
