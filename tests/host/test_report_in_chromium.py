"""The report as a reader sees it: headless Chromium, light and dark, wide and narrow, and printed.

Needs the Debian package `chromium` and the Python package `websockets`; without them the tests are skipped.
STRATA_SHOTS=DIR keeps the pictures.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strata import report
from strata.analysis.checks import warnings
from strata.analysis.estimate import Estimate
from strata.analysis.factorial import Effect, Factorial, Term
from strata.analysis.rank import rank
from strata.cli.serve import Site
from strata.hosts import web
from strata.model import View
from strata.probes import probes
from strata.report import factorial, html, joined, matrix
from strata.report import pages as beside

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed: apt-get install chromium.", allow_module_level=True)
pytest.importorskip("websockets", reason="The package websockets is not installed: pip install websockets.")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
WIDE, NARROW = 1400, 360

# Text that leaves the window, its drawing, or a box that hides what does not fit. Tables may scroll in their own box.
CUT_OFF = """
(() => {
  const found = [];
  const say = (what, el) => found.push(what + ': ' + el.textContent.trim().slice(0, 60));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const el = node.parentElement;
    if (!node.textContent.trim() || el.closest('title, desc, style')) continue;
    if (!el.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = el.closest('svg');
    const box = svg ? el.getBoundingClientRect() : range.getBoundingClientRect();
    if (!box.width) continue;
    const frame = svg ? svg.getBoundingClientRect()
      : el.closest('.scroll') ? null : { left: 0, right: innerWidth, top: -Infinity, bottom: Infinity };
    if (frame && (box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)) say(svg ? 'drawing' : 'window', el);
  }
  for (const el of document.querySelectorAll('body *')) {
    const style = getComputedStyle(el);
    if (!el.closest('svg') && ['hidden', 'clip'].includes(style.overflowX) && el.scrollWidth > el.clientWidth)
      say('hidden', el);
    if (style.textOverflow === 'ellipsis' && el.scrollWidth > el.clientWidth) say('ellipsis', el);
  }
  return found;
})()
"""
SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll('svg text')].filter(t => t.textContent.trim()).map(t =>
  parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width
  / t.ownerSVGElement.viewBox.baseVal.width))
"""


def _synthetic() -> ModuleType:
    path = Path(__file__).parents[1] / "unit" / "report" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic_for_chromium", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SYNTHETIC = _synthetic()


class Page:
    """One page of a headless Chromium, spoken to in the DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self.events.append(message)

    def open(self, path: Path, width: int, scheme: str) -> None:
        self.go(path.as_uri(), width, scheme)

    def go(self, url: str, width: int, scheme: str) -> None:
        height = 900 if width >= 700 else 740
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait()

    def wait(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self._socket.recv(timeout=60)))

    def value(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]

    def shot(self, name: str) -> None:
        if folder := os.environ.get("STRATA_SHOTS"):
            picture = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=self._whole())
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def _whole(self) -> dict[str, float]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 15_000), "scale": 1}

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    profile = tmp_path_factory.mktemp("chromium")
    assert CHROMIUM is not None
    with subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        from websockets.sync.client import connect

        try:
            with connect(_address(profile, browser), max_size=None) as socket:
                yield Page(socket)
        finally:
            browser.terminate()


def _address(profile: Path, browser: subprocess.Popen[bytes]) -> str:
    from urllib.request import ProxyHandler, build_opener

    told = profile / "DevToolsActivePort"
    for _ in range(600):
        if told.exists() and told.read_text().count("\n"):
            break
        assert browser.poll() is None, "Chromium ended before it could be spoken to"
        time.sleep(0.1)
    port = told.read_text().splitlines()[0]
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
        targets = json.load(answer)
    return str(next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page"))


def _written(view: View, path: Path) -> Path:
    path.write_text(html.render(report.build(view, rank(view), warnings(view))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    views: dict[str, View] = {
        "ordinary": SYNTHETIC.ordinary(),
        "many": SYNTHETIC.many(100),
        "skipped": SYNTHETIC.all_skipped(),
    }
    found = {name: _written(view, folder / f"{name}.html") for name, view in views.items()}
    found["features"], found["joined"] = folder / "features.html", folder / "joined.html"
    found["features"].write_text(beside.features(_matrix()), encoding="utf-8")
    side_by_side = joined.build({"runs/before": SYNTHETIC.ordinary(), "runs/after": SYNTHETIC.ordinary()}, {})
    found["joined"].write_text(beside.joined(side_by_side, "a text of\nseveral lines " * 9), encoding="utf-8")
    found["factors"] = folder / "factors.html"
    found["factors"].write_text(beside.factors(_factors()), encoding="utf-8")
    return found


def _factors() -> factorial.FactorPage:
    level = itertools.cycle([0.8, 1.0, 1.3])
    names = ("none", "writeback", "a-level-with-a-very-long-name-of-many-words(cache=none, aio=io_uring)")

    def term(*of: str) -> Term:
        pairs = itertools.product(names, repeat=len(of))
        effects = [Effect(pair, Estimate(at := next(level), at * 0.9, at * 1.15, 5, "t"), 9) for pair in pairs]
        return Term(of, tuple(effects))

    found = Factorial((term("cache"), term("fs")), (term("cache", "fs"),), 5, 27, ("disk | xfs has not every factor.",))
    return factorial.build("runs/after", found)


def _matrix() -> matrix.Matrix:
    """As wide as the one of all stacks, with long sentences."""
    cells = tuple(
        matrix.Cell(
            name, holds, f"of 64 MiB {name} took a-very-long-word-of-a-path-{name * 9} and more", {}, ("1 s",), 1.5
        )
        for name, holds in zip(probes(), itertools.cycle([True, False, None]), strict=False)
    )
    risk = matrix.Risk("lvmthin: a pool that is full makes writes fail", "lvmthin(7)")
    rows = tuple(
        matrix.Row(
            f"a{n}", f"disk | lvmthin(zero=off, chunk={n}K) | xfs", cells, (), ("lvcreate " + "x" * 300,), (risk,)
        )
        for n in range(1, 25)
    )
    away = matrix.Row(
        "a25", "disk | vdo | xfs", (), ("The kernel 6.1 has no module dm_vdo; take a newer one.",), (), ()
    )
    known = tuple(matrix.Feature(name, "what it means", probe.about, probe.script) for name, probe in probes().items())
    group = matrix.Group(
        "Directories", "Debian, kernel 6.12", ("In an emulated machine.",), tuple(probes()), (*rows, away)
    )
    said = matrix.Disagreement(
        rows[0].stack, "send", False, "nothing sends", "Incus 7.3, LVM", "yes", "lxc/incus@be7afc5df3"
    )
    return matrix.Matrix((group,), known, (said,) * 3, ("Incus 7.3, nesting: not tried",), 12)


def test_runs_are_chosen_and_put_side_by_side(page: Page) -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def answer(path: str, query: Mapping[str, list[str]]) -> web.Page:
        asked.append((path, dict(query)))
        runs = [beside.Listed(f"r{n}", "a campaign", "running", n, 4, "Round 2 of 4.", n == 1) for n in range(4)]
        return web.Page(beside.runs(runs, "runs"), refresh_s=3600, policy=beside.policy())

    with web.listening(0, answer) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            page.go(server.url, NARROW, "dark")
            assert page.value(CUT_OFF) == []
            page.value(
                "document.querySelectorAll('input[type=checkbox]').forEach((box, n) => { box.checked = n != 1 })"
            )
            page.value("document.querySelector('input[name=part]').value = 'xfs'")
            page.events.clear()
            page.value("document.querySelector('button').click()")
            page.wait()
        finally:
            server.stop()
            thread.join()
    assert asked[0][0] == "/" and asked[-1] == ("/joined", {"run": ["r0", "r2", "r3"], "part": ["xfs"]})
    assert page.seen("Log.entryAdded") == []


def test_a_page_follows_its_run_by_itself(page: Page, tmp_path: Path) -> None:
    """Nobody touches the browser: it asks again, shows more visits each time, and stops when the run has ended."""
    place, runs = tmp_path / "place", tmp_path / "runs"
    place.mkdir()
    strata, run = str(Path(sys.executable).with_name("strata")), runs / "live"
    argv = [strata, "run", f"existing({place})", "-w", "null", "--rounds", "400", "--out", str(run)]
    counted = "Number((document.body.innerText.match(/([0-9]+) of 400 visits done/) || [0, -1])[1])"
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as going:
        try:
            while not (run / "strata.db").exists():
                assert going.poll() is None
                time.sleep(0.1)
            with web.listening(0, Site([runs]).answer) as server:
                thread = threading.Thread(target=server.serve)
                thread.start()
                try:
                    page.go(f"{server.url}run/live", WIDE, "light")
                    seen = [page.value(counted)]
                    for _ in range(2):
                        page.events.clear()
                        page.wait()
                        seen.append(page.value(counted))
                    going.send_signal(signal.SIGINT)
                    going.wait(60)
                    # the page of a run that goes on asks once more, and is then the last
                    page.events.clear()
                    page.wait()
                    answers = [each["response"] for each in page.seen("Network.responseReceived")]
                finally:
                    server.stop()
                    thread.join()
        finally:
            going.kill()
    assert -1 not in seen and seen == sorted(set(seen)), seen
    assert [answer["status"] for answer in answers] == [200] and "Refresh" not in answers[0]["headers"]
    assert page.seen("Runtime.exceptionThrown") == []


@pytest.mark.parametrize("name", ["ordinary", "features", "joined", "factors"])
def test_what_a_server_allows_is_all_that_a_page_needs(page: Page, pages: dict[str, Path], name: str) -> None:
    """Styled as from a file; and what somebody put into it does not run, is not loaded and is not styled."""
    text = pages[name].read_text(encoding="utf-8")
    with serving(lambda path, query: web.Page(text, policy=beside.policy())) as server:
        page.go(server.url, WIDE, "light")
        page.shot(f"{name}-served")
        assert page.seen("Log.entryAdded") == []
        assert page.value("getComputedStyle(document.querySelector('main')).maxWidth") == "1152px"
    evil = (
        "<script>window.ran = 1</script><p id='evil' style='color: rgb(1, 2, 3)' onclick='window.ran = 1'>x</p>"
        "<img src='/x.png' onerror='window.ran = 1'><style>main { max-width: 9px }</style><base href='http://evil/'>"
    )
    with serving(
        lambda path, query: web.Page(text.replace("<main>", f"<main>{evil}"), policy=beside.policy())
    ) as server:
        page.go(server.url, WIDE, "light")
        page.value("document.getElementById('evil').click()")
        assert page.value("window.ran === undefined")
        assert page.value("getComputedStyle(document.getElementById('evil')).color") != "rgb(1, 2, 3)"
        assert page.value("getComputedStyle(document.querySelector('main')).maxWidth") == "1152px"
        assert page.value("document.baseURI") == server.url
        blocked = " ".join(entry["entry"]["text"] for entry in page.seen("Log.entryAdded"))
        assert "script" in blocked and "style" in blocked and "Content Security Policy" in blocked


@contextmanager
def serving(answer: web.Answer) -> Iterator[web.Server]:
    with web.listening(0, answer) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


@pytest.mark.parametrize("name", ["ordinary", "many", "skipped", "features", "joined", "factors"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole_and_asks_for_nothing(
    page: Page, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    page.open(pages[name], width, scheme)
    page.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.shot(f"{name}-{scheme}-{width}")

    requests = [request["request"]["url"] for request in page.seen("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [pages[name].as_uri()]
    assert page.seen("Log.entryAdded") == []
    assert page.seen("Runtime.consoleAPICalled") == []
    assert page.seen("Runtime.exceptionThrown") == []
    assert page.value("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.value("innerWidth") == width
    assert page.value(CUT_OFF) == []
    if name in ("ordinary", "many", "factors"):
        assert page.value(SMALLEST_TEXT) >= 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_drawings_stand_out_from_the_page(page: Page, pages: dict[str, Path], scheme: str) -> None:
    page.open(pages["ordinary"], WIDE, scheme)
    colours = """
      (() => {
        const rgb = c => (c.match(/[\\d.]+/g) || []).map(Number);
        const lum = c => { const [r, g, b] = rgb(c).map(v => v / 255)
          .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          return .2126 * r + .7152 * g + .0722 * b; };
        const back = lum(getComputedStyle(document.body).backgroundColor);
        const ratio = c => { const l = lum(c); return (Math.max(l, back) + .05) / (Math.min(l, back) + .05); };
        const of = (sel, prop) => [...document.querySelectorAll(sel)].map(e => getComputedStyle(e)[prop])
          .filter(c => rgb(c).length === 3).map(ratio);
        return [Math.min(...of('p, td, th, dd, dt, svg text, small, .span', 'color')),
                Math.min(...of('svg text', 'fill')),
                Math.min(...of('svg .mark-symbol path, svg .mark-line path', 'stroke'))];
      })()"""
    words, labels, marks = page.value(colours)
    assert words >= 4.5
    assert labels >= 3
    assert marks >= 3


@pytest.mark.parametrize("name", ["ordinary", "many", "features", "joined", "factors"])
def test_it_prints_with_nothing_cut_off(page: Page, pages: dict[str, Path], name: str) -> None:
    page.open(pages[name], 718, "dark")  # A4 within Chromium's margins
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    try:
        assert page.value("document.scrollingElement.scrollWidth <= innerWidth")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        if name not in ("joined", "factors"):
            assert page.value("document.querySelector('details pre').checkVisibility({contentVisibilityAuto: true})")
        page.shot(f"{name}-print")
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
    assert page.pdf().startswith(b"%PDF")
