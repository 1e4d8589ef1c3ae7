"""An HTTP proxy before a real server that does to requests what networks and servers do."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["", "503", "409", "412", "refused", "lost", "slow", "torn", "flip"]
"""None; an answer of that status instead; the connection cut before the request is passed on,
or after it was carried out; a pause; an answer's body cut in the middle, or with a wrong bit."""
Plan = Callable[[str, str], Fault]
"""What to do to a request, by its method and path."""

_CODES = {"503": "SlowDown", "409": "ConditionalRequestConflict", "412": "PreconditionFailed"}


class FaultyProxy:
    """A running proxy; `plan` may be changed at any time."""

    def __init__(self, endpoint: str) -> None:
        self.plan: Plan = lambda method, path: ""
        self.done: list[tuple[str, str, Fault]] = []
        """Requests with what was done to them."""
        self._target = urlsplit(endpoint).netloc
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer._serve(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def count(self, fault: Fault) -> int:
        """How often a fault was injected."""
        return sum(done == fault for _, _, done in self.done)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = self.plan(request.command, request.path)
        self.done.append((request.command, request.path, fault))
        if fault == "refused":
            request.close_connection = True
            return
        if fault in _CODES:
            text = f"<Error><Code>{_CODES[fault]}</Code></Error>".encode()
            request.send_response(int(fault))
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)
            return
        if fault == "slow":
            time.sleep(0.1)
        status, headers, content = self._forward(request, body)
        if fault == "lost":
            request.close_connection = True
            return
        if request.command == "GET" and content and fault == "flip":
            damaged = bytearray(content)
            damaged[len(damaged) // 2] ^= 16
            content = bytes(damaged)
        request.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                request.send_header(name, value)
        length = dict((k.lower(), v) for k, v in headers).get("content-length")
        head = request.command == "HEAD" and length is not None
        request.send_header("Content-Length", str(length) if head else str(len(content)))
        request.end_headers()
        if fault == "torn" and request.command == "GET":
            request.wfile.write(content[: len(content) // 2])
            request.close_connection = True
        else:
            request.wfile.write(content)

    def _forward(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._target, timeout=30)
        try:
            connection.putrequest(
                request.command, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)  # the host, too: it is part of the signature
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


@contextmanager
def running_before(endpoint: str) -> Iterator[FaultyProxy]:
    """Run a proxy before a server."""
    proxy = FaultyProxy(endpoint)
    thread = threading.Thread(target=proxy.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()
