"""Pages for a browser on this machine: GET and HEAD from the loopback address alone, and nothing is changed by them."""

from __future__ import annotations

import http.server
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Page:
    body: str
    status: int = 200
    type: str = "text/html; charset=utf-8"
    refresh_s: int | None = None  # asked for again after so long


Answer = Callable[[str, Mapping[str, list[str]]], Page]
"""From a path and what follows the question mark. Called by several threads at once; never raises."""


@dataclass(slots=True)
class Server:
    port: int
    _server: http.server.ThreadingHTTPServer = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    def serve(self) -> None:
        """Until `stop`, or an interrupt."""
        self._server.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        self._server.shutdown()


@contextmanager
def listening(port: int, answer: Answer) -> Iterator[Server]:
    """`port` 0: one that is free. Raises OSError when another program has it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(with_body=True)

        def do_HEAD(self) -> None:
            self._reply(with_body=False)

        def _reply(self, *, with_body: bool) -> None:
            asked = urlsplit(self.path)
            page = (
                answer(asked.path, parse_qs(asked.query)) if self._for_us() else Page("not here\n", 403, "text/plain")
            )
            body = page.body.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if page.refresh_s is not None:
                self.send_header("Refresh", str(page.refresh_s))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def _for_us(self) -> bool:
            # A name of somebody else's that leads to this address would let his page read ours.
            return self.headers.get("Host", "").rpartition(":")[0] in (ADDRESS, "localhost")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
            pass

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a browser that went away while it was answered

    with Quiet((ADDRESS, port), Handler) as server:
        yield Server(server.server_address[1], server)
