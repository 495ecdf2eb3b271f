"""Serve pages to a browser on this machine: GET and HEAD on the loopback address, and no request changes anything.

A client can be any program of any user of this machine. So the head of a request, the time it takes and the number of
connections are limited, and a page cannot run scripts, load anything or stand in a frame.
"""

from __future__ import annotations

import http.server
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qs

ADDRESS = "127.0.0.1"
CONNECTIONS = 32  # each has a thread
HEAD_BYTES = 16 << 10
HEAD_S, BODY_S = 5.0, 30.0  # to send the head of a request, and to take the answer
_NO_CONTENT = "default-src 'none'"


@dataclass(frozen=True, slots=True)
class Page:
    body: str
    status: int = 200
    type: str = "text/html; charset=utf-8"
    refresh_s: int | None = None  # asked for again after so long
    policy: str = _NO_CONTENT  # the content security policy; no page may stand in a frame


Answer = Callable[[str, Mapping[str, list[str]]], Page]
"""From a path and what follows the question mark. Called by several threads at once; never raises."""


@dataclass(slots=True)
class Server:
    port: int
    _server: http.server.HTTPServer = field(repr=False)

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

    class Handler(_Handler):
        def page(self, path: str, query: Mapping[str, list[str]]) -> Page:
            return answer(path, query)

    with _Limited((ADDRESS, port), Handler) as server:
        yield Server(server.server_address[1], server)


class _Limited(http.server.ThreadingHTTPServer):
    """At most CONNECTIONS at a time. When all are taken, the oldest that has not sent its request is closed for the
    next one; clients that have sent theirs keep the next one waiting."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._without_request: dict[socket.socket, None] = {}  # oldest first

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        connection = cast("socket.socket", request)
        while not self._free.acquire(blocking=False):
            self._close_oldest_without_request()
            if self._free.acquire(timeout=0.05):
                break
        with self._lock:
            self._without_request[connection] = None
        super().process_request(connection, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_request(cast("socket.socket", request))
            self._free.release()

    def has_request(self, connection: socket.socket) -> None:
        """Note that the head of the request is here, so that the connection is kept until it is answered."""
        with self._lock:
            self._without_request.pop(connection, None)

    def _close_oldest_without_request(self) -> None:
        with self._lock:
            oldest = next(iter(self._without_request), None)
            if oldest is not None:
                del self._without_request[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, closes it and ends

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a browser that went away while it was answered


class _Handler(http.server.BaseHTTPRequestHandler):
    def page(self, path: str, query: Mapping[str, list[str]]) -> Page:
        raise NotImplementedError

    def handle(self) -> None:
        head = _head(self.connection)
        cast("_Limited", self.server).has_request(self.connection)
        if head is None:
            return
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.connection.settimeout(BODY_S)  # of a whole answer: sendall counts all its parts
        self.handle_one_request()

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def _reply(self, *, with_body: bool) -> None:
        if self._for_us():
            path, _, query = self.path.partition("#")[0].partition("?")
            page = self.page(path, parse_qs(query))
        else:
            page = Page("not here\n", 403, "text/plain")
        body = page.body.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", f"{page.policy}; base-uri 'none'; frame-ancestors 'none'")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if page.refresh_s is not None:
            self.send_header("Refresh", str(page.refresh_s))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _for_us(self) -> bool:
        # A name of somebody else that leads to this address would let their page read ours (DNS rebinding).
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and hosts[0].removesuffix(f":{cast('_Limited', self.server).server_port}") in (
            ADDRESS,
            "localhost",
        )

    def version_string(self) -> str:
        return "strata"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name
        pass


def _head(connection: socket.socket) -> bytes | None:
    """The head of a request; None when it did not come whole in HEAD_S, or is longer than HEAD_BYTES."""
    end = time.monotonic() + HEAD_S
    head = b""
    while not (b"\r\n\r\n" in head or b"\n\n" in head):
        left = end - time.monotonic()
        if left <= 0 or len(head) > HEAD_BYTES:
            return None
        connection.settimeout(left)
        try:
            part = connection.recv(4096)
        except OSError:
            return None
        if not part:
            return None
        head += part
    return head
