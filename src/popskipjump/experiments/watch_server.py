"""Server of `psj watch`: local, for one run, read-only."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from popskipjump.errors import InputError, PopSkipJumpError
from popskipjump.experiments.watch import page_of, state_of, steps_of

HOST = "127.0.0.1"
_IMAGE = re.compile(r"/image/(\d{1,15})\.json")
_PATIENCE = 10.0  # seconds that a connection may stay silent


class WatchServer(ThreadingHTTPServer):
    """Serves the page of a run.

    Args:
        folder: of the run.
        port: 0 takes a free one.

    Raises:
        InputError: the port is taken.
        StorageError: the folder holds no run.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.turn = Lock()  # a run's files are read by one request at a time
        state_of(folder)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(f"port {port} cannot be used ({error.strerror}): choose another, or 0.") from error

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        with self.turn:
            try:
                return self._found(path)
            except PopSkipJumpError as error:
                return 500, "application/json", json.dumps({"error": str(error)}).encode()

    def _found(self, path: str) -> tuple[int, str, bytes]:
        if path == "/":
            return 200, "text/html; charset=utf-8", page_of(self.folder, live=True).encode()
        content: Any = None
        if path == "/state.json":
            content = state_of(self.folder)
        elif match := _IMAGE.fullmatch(path):
            content = steps_of(self.folder, int(match[1]))
        if content is None:
            return 404, "application/json", b'{"error": "there is no such page"}'
        return 200, "application/json", json.dumps(content, allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: WatchServer

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (HOST, "localhost"):  # a page of another site that leads its name here
            status, kind, body = 403, "text/plain", b"this server answers to 127.0.0.1 alone"
        else:
            status, kind, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No log: the page asks every two seconds."""
