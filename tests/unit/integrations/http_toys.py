"""Servers on this machine for the tests of endpoints: an honest one, and one that does what a script says."""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from popskipjump.integrations.http import Patience, Tally
from popskipjump.integrations.http.server import LOOPBACK, Served, application, listen, server_of
from popskipjump.oracles import Oracle, Ticket

QUICK = Patience(attempts=4, refusals=2, first=0.01, longest=0.05)
SHORT = 0.25  # seconds: the timeout of tests whose server is late on purpose
# On a busy machine honest answers are late as well: only the number of attempts may decide that nobody is there.
STUBBORN = Patience(attempts=400, first=0.01, longest=0.05)
OVER = 60.0  # seconds after which a test has failed, whatever the machine
LIFE = 200.0  # seconds within which a server in a process of its own must be up, whatever else the machine does
DIMENSION = 6


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """An ASGI application on a free port: its address."""
    server, listening = server_of(app), listen(0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + OVER
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://{LOOPBACK}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(OVER)
        listening.close()


@contextmanager
def serving_oracle(oracle: Oracle, shape: tuple[int, ...], **options: Any) -> Iterator[str]:
    """The address of a served oracle's model."""
    with serving(application(Served(oracle, shape, "toy", **options))) as root:
        yield f"{root}/v2/models/toy"


class ScriptedHandler(BaseHTTPRequestHandler):
    """What a behaviour gets: the handler of one request."""

    over: threading.Event  # set when the test is over


class Script:
    """What a scripted server does: one behaviour for each request to infer, the honest one once they are used up.

    A behaviour gets the handler and the parsed request, and answers or does not.
    """

    def __init__(self, *behaviours: Callable[..., None], forever: bool = False) -> None:
        self.behaviours, self.forever = list(behaviours), forever
        self.requests: list[dict[str, Any]] = []  # parsed bodies of all requests to infer
        self.headers: list[dict[str, Any]] = []
        self.most_at_once = self._now = 0
        self.lock = threading.Lock()
        self.over = threading.Event()  # set when the test ends

    def next(self) -> Callable[..., None]:
        with self.lock:
            if not self.behaviours:
                return honest
            return self.behaviours[0] if self.forever else self.behaviours.pop(0)


def label_of(row: np.ndarray) -> int:
    """The scripted model: class 1 if the sum of a row is positive."""
    return int(np.sum(row) > 0)


def rows_of(request: dict[str, Any]) -> np.ndarray:
    entry = request["inputs"][0]
    return np.array(entry["data"], dtype=np.float64).reshape(entry["shape"])


def honest(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    labels = [label_of(row) for row in rows_of(request)]
    output = {"name": "label", "datatype": "INT64", "shape": [len(labels)], "data": labels}
    reply(handler, {"model_name": "toy", "id": request["id"], "outputs": [output]})


def reply(
    handler: ScriptedHandler,
    content: Any,
    status: int = 200,
    kind: str = "application/json",
    headers: dict[str, Any] | None = None,
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int, **headers: str) -> Callable[..., None]:
    return lambda handler, request: reply(handler, {"error": "SECRET-BODY"}, code, headers=headers)


def hang(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    """Never answer."""
    handler.over.wait(OVER)


METADATA = {
    "name": "toy",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, DIMENSION]}],
    "outputs": [{"name": "label", "datatype": "INT64", "shape": [-1]}],
}


@contextmanager
def scripted(script: Script, metadata: dict[str, Any] = METADATA, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a model whose server follows a script."""

    class Handler(ScriptedHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            reply(self, metadata if self.path.endswith("/toy") else {"name": "scripted", "extensions": []})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with script.lock:
                script.requests.append(request)
                script.headers.append(dict(self.headers))
                script._now += 1
                script.most_at_once = max(script.most_at_once, script._now)
            self.over = script.over
            try:
                script.next()(self, request)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                with script.lock:
                    script._now -= 1

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:  # a client that hangs up is part of the tests
            pass

    server = Server((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http{'' if tls is None else 's'}://{LOOPBACK}:{server.server_address[1]}/v2/models/toy"
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()


def port_for_long(first: int) -> int:
    """A port for a server of many lives, of the 4,000 from `first` on: below those that the system gives to others."""
    while True:
        port = first + secrets.randbelow(4000)
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            return port


def whole_lines(log: Path) -> list[str]:
    """The lines of a log that another process may be writing."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


class Mortal(Protocol):
    """A server in a process of its own."""

    def start(self) -> None:
        """Begin to live; returns once it answers."""

    def kill(self) -> None:
        """Die at once."""

    def answered(self) -> list[Any]:
        """All queries that were answered, by all lives."""


class Killing(threading.Thread):
    """Kills a server whenever so many queries have been answered, and starts it again once that was noticed.

    A kill comes in the middle of whatever is under way. `wait` holds the attack back where a kill is due and this
    thread has not been awake, so that on any machine every kill falls into the attack.
    """

    def __init__(self, server: Mortal, moments: list[int], tally: Tally) -> None:
        super().__init__(daemon=True)
        self.server, self.moments, self.tally = server, sorted(moments), tally
        self.kills, self.asked, self.ended = 0, 0, threading.Event()
        self._held = False  # whether the attack waits for a kill
        self._killed = threading.Condition()

    def run(self) -> None:
        for moment in self.moments:
            self._until(partial(self._answered, moment))
            before = self._without_answer()
            self.server.kill()
            with self._killed:
                self.kills += 1
                self._killed.notify_all()
            self._until(partial(self._noticed, before))
            self.server.start()

    def wait(self, queries: int) -> None:
        """For `Hooks.on_queries`."""
        self.asked += queries
        due = sum(moment <= self.asked for moment in self.moments)
        with self._killed:
            self._held = self.kills < due
            assert self._killed.wait_for(lambda: self.kills >= due, LIFE), "the server was not killed"
            self._held = False

    def end(self) -> None:
        """The attack is over: kill no more, and wait for the last start."""
        self.ended.set()
        self.join(LIFE)

    def _answered(self, count: int) -> bool:
        return len(self.server.answered()) >= count

    def _noticed(self, before: int) -> bool:
        return self._held or self._without_answer() > before

    def _without_answer(self) -> int:
        counts = self.tally.total()
        return counts["failed"] + counts["late"]

    def _until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIFE
        while not there() and not self.ended.wait(0.005) and time.monotonic() < deadline:
            pass


def question(count: int, image: int = 0) -> tuple[torch.Tensor, Ticket, torch.Tensor]:
    """Rows that the scripted model takes for both classes, their ticket, and the right labels."""
    points = torch.rand(count, DIMENSION, generator=torch.Generator().manual_seed(count)) - 0.5
    ticket = Ticket(torch.full((count,), image), torch.arange(count))
    return points, ticket, torch.tensor([label_of(row) for row in points.double().numpy()])
