"""strata serve"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from strata.analysis import between
from strata.analysis.factorial import effects
from strata.cli import verdict
from strata.errors import BadInput, StrataError
from strata.hosts import web
from strata.hosts.web import Page
from strata.model import Kind
from strata.probes import PREFIX
from strata.report import comparison, factorial, joined, pages
from strata.report.pages import Filter, Listed
from strata.run import lock
from strata.store import reader

_RUNNING_S, _LIST_S = 10, 5  # how often a page of a run that goes on, and the list, are asked for again


def serve(directories: Sequence[Path], port: int) -> None:
    for directory in directories:
        if not directory.is_dir():
            raise BadInput(f"{directory} is no directory; give those of runs, or one that holds them, such as runs.")
    site = Site(directories)
    if not site.runs():
        print("No run is there yet; the page shows what comes.", file=sys.stderr)
    try:
        with web.listening(port, site.answer) as server:
            print(f"{server.url} until Ctrl-C; nobody but this machine can see it.", flush=True)
            server.serve()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    except OSError as error:
        raise BadInput(
            f"port {port} cannot be had: {error.strerror}; give another with --port, or 0 for any."
        ) from error


class Site:
    """Every page from what is stored now; reports of what did not change since are kept."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._lock = threading.Lock()  # one report is made at a time
        self._kept: dict[Path, tuple[object, str]] = {}

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Page:
        try:
            return self._page(path, query)
        except StrataError as error:
            return Page(pages.message(str(error)), 400)
        except OSError as error:
            return Page(pages.message(f"cannot read {error.filename}: {error.strerror}"), 500)

    def _page(self, path: str, query: Mapping[str, list[str]]) -> Page:
        runs = self.runs()
        first, _, key = path.strip("/").partition("/")
        key = unquote(key)
        if not first:
            where = ", ".join(str(directory) for directory in self._directories)
            return Page(pages.runs([_listed(name, run) for name, run in runs.items()], where), refresh_s=_LIST_S)
        if first == "joined":
            return self._joined(runs, query)
        if first in ("run", "features", "factors") and key in runs:
            directory = runs[key]
            if first == "factors":
                found = factorial.build(key, effects(reader.view(directory)))
                return Page(pages.factors(found), refresh_s=_RUNNING_S if lock.held(directory) else None)
            features = _features(directory)
            if first == "features" and features is not None:
                return Page(features.read_text(encoding="utf-8"))
            if first == "features":
                return Page(pages.message(f"no features were tried in {key}; `strata features` does."), 404)
            return Page(self._report(directory), refresh_s=_RUNNING_S if lock.held(directory) else None)
        return Page(pages.message(f"there is no page {path}; the list of runs has them all."), 404)

    def runs(self) -> dict[str, Path]:
        """What there is now: the directories given, or the runs in them, by short names that tell them apart."""
        found: list[Path] = []
        for directory in self._directories:
            inside = sorted(path.parent for path in directory.glob("**/strata.db") if path.parent != directory)
            found += [directory] if (directory / "strata.db").exists() else inside
        # of `strata features`, which makes a run for each kind, by both names: "features/block"
        names = [
            "/".join(path.resolve().parts[-2:]) if path.name in list(Kind) else path.resolve().name for path in found
        ]
        return {name if names.count(name) == 1 else str(path): path for name, path in zip(names, found, strict=True)}

    def _report(self, directory: Path) -> str:
        from strata.report import html

        files = [directory / "strata.db", directory / "strata.db-wal"]
        stamp = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]
        with self._lock:
            kept = self._kept.get(directory)
            if kept is None or kept[0] != stamp:
                kept = (stamp, html.render(verdict.model_of(directory)))
                self._kept[directory] = kept
            return kept[1]

    def _joined(self, runs: Mapping[str, Path], query: Mapping[str, list[str]]) -> Page:
        if unknown := [name for name in query.get("run", ()) if name not in runs]:
            raise BadInput(f"there is no run {unknown[0]} here; the list of runs has them all.")
        chosen = {name: runs[name] for name in query.get("run", ())}
        if not chosen:
            return Page(pages.message("mark the runs that are to stand side by side first."), 400)
        part = query.get("part", [""])[0].strip()
        views = {name: reader.view(directory) for name, directory in chosen.items()}
        tried = [name for name, view in views.items() if all(load.name.startswith(PREFIX) for load in view.workloads)]
        if tried:
            raise BadInput(f"{tried[0]} is what `strata features` tried, and no load; its page has the matrix.")
        said = {name: verdict.model_of(directory, series=False).verdict.sentence for name, directory in chosen.items()}
        only = dict(text.split("=", 1) for text in query.get("factor", ()) if "=" in text)
        found = joined.build(views, said, part=part, only=only)
        asked = Filter(tuple(views), part, joined.levels(views), only)
        below = ""
        if len(views) == 2:
            (one, first), (other, second) = views.items()
            try:
                below = comparison.of_runs(between.runs(first, second), one, other, everything=False)
            except BadInput as error:
                below = f"{error}\n"
        running = any(lock.held(directory) for directory in chosen.values())
        return Page(pages.joined(found, below, asked), refresh_s=_RUNNING_S if running else None)


def _features(directory: Path) -> Path | None:
    """The page that `strata features` made of the run: beside it, or beside the runs of each kind that it makes."""
    places = [directory, *([directory.parent] if directory.name in list(Kind) else [])]
    return next((path for place in places if (path := place / "features.html").exists()), None)


def _listed(name: str, directory: Path) -> Listed:
    features = _features(directory) is not None
    try:
        now = reader.status(directory)
    except StrataError as error:
        return Listed(name, "", "cannot be read", 0, 0, str(error), features)
    running = lock.held(directory)
    ended = now.visits_done >= now.visits_planned
    state = "running" if running else "ended" if ended else "stopped"
    said = f"in quarantine: {now.quarantined}" if now.quarantined else now.decision or ""
    return Listed(name, now.name, state, now.visits_done, now.visits_planned, said, features)
