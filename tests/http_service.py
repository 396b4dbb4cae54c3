"""Serves the answers of a stand-in for somebody's web API on loopback, for the clients of the real libraries."""

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


class Service(Protocol):
    """Answers a request to a path, with this key, with a status and a body: JSON, or a page."""

    def respond(self, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: Service


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, data = self.server.service.respond(self.path, self.headers.get("Authorization", ""), body)
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if data[:1] in b"{[" else "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # Whoever asked has given up.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@contextmanager
def serving(service: Service) -> Generator[str]:
    """The address under which the service answers, for as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.service = service
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
