"""A model as an Open Inference Protocol V2 server, for examples, tests and benchmarks; for the local machine only."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popskipjump.errors import InputError, MissingExtraError, OracleError
from popskipjump.integrations.http.outcomes import NoAnswerError
from popskipjump.integrations.http.protocol import (
    BINARY_EXTENSION,
    CONFIG_EXTENSION,
    HEADER_LENGTH,
    IMAGE_INPUT,
    SERIAL_INPUT,
    split,
    tensor,
)
from popskipjump.oracles import Oracle, Ticket

EXTRA = "serve"
LOOPBACK = "127.0.0.1"
INPUT, OUTPUT = "input", "label"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Served:
    """A model to serve.

    Args:
        oracle: gives the labels; asked by one thread at a time.
        shape: of one input.
        name: in the model's address.
        max_rows: inputs of a request at most.
        latency: seconds that every request waits, to imitate a server far away; waiting requests do not block others.
        log: a file to which the addresses (image, number) of all answered queries are appended, one line a request;
            never their content.
    """

    oracle: Oracle
    shape: tuple[int, ...]
    name: str = "mnist"
    max_rows: int = 256
    latency: float = 0.0
    log: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _own: list[int] = field(default_factory=lambda: [0], repr=False)  # how many queries came without an address

    def metadata(self) -> dict[str, Any]:
        """What the model's address answers."""
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "popskipjump",
            "inputs": [
                {"name": INPUT, "datatype": "FP32", "shape": [-1, *self.shape]},
                {"name": IMAGE_INPUT, "datatype": "INT64", "shape": [-1]},
                {"name": SERIAL_INPUT, "datatype": "INT64", "shape": [-1]},
            ],
            "outputs": [{"name": OUTPUT, "datatype": "INT64", "shape": [-1]}],
        }

    def infer(self, body: bytes, header_length: str | None) -> tuple[dict[str, Any], bytes]:
        """The JSON of a response, and its binary labels if the request wants them so.

        Raises:
            InputError: the request cannot be used.
        """
        try:
            request, rest = split(body, header_length)
            inputs = _inputs(request, rest)
        except NoAnswerError as error:
            raise InputError(str(error)) from None
        points, ticket = self._question(inputs)
        with self._lock:
            if ticket is None:
                first = self._own[0]
                self._own[0] += len(points)
                ticket = Ticket(torch.zeros(len(points), dtype=torch.int64), torch.arange(first, first + len(points)))
            labels = self.oracle.ask(torch.from_numpy(points), ticket).cpu().numpy().astype("<i8")
            self._write(ticket)
        output: dict[str, Any] = {"name": OUTPUT, "datatype": "INT64", "shape": [len(labels)]}
        blob = b""
        if _binary_wanted(request):
            blob = labels.tobytes()
            output["parameters"] = {"binary_data_size": len(blob)}
        else:
            output["data"] = labels.tolist()
        name = request.get("id")
        answer = {"model_name": self.name, "model_version": "1", "outputs": [output]}
        return answer | ({"id": name} if isinstance(name, str) else {}), blob

    def _question(self, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, Ticket | None]:
        points = inputs.get(INPUT)
        if points is None or points.ndim < 1 or not 1 <= len(points) <= self.max_rows:
            raise InputError(f"the request needs a tensor {INPUT!r} of 1 to {self.max_rows} rows.")
        if points.shape[1:] != self.shape or points.dtype.kind not in "fiu" or not np.isfinite(points).all():
            raise InputError(f"{INPUT!r} must hold finite numbers of shape {(-1, *self.shape)}.")
        addresses = [inputs.get(name) for name in (IMAGE_INPUT, SERIAL_INPUT)]
        ticket = None
        if addresses[0] is not None and addresses[1] is not None:
            if any(a is None or a.shape != (len(points),) or a.dtype.kind not in "iu" for a in addresses):
                raise InputError(f"{IMAGE_INPUT!r} and {SERIAL_INPUT!r} must be one whole number for each row.")
            image, serial = (torch.from_numpy(np.array(a, dtype=np.int64)) for a in addresses)
            ticket = Ticket(image, serial)
        return np.array(points, dtype=np.float32), ticket

    def _write(self, ticket: Ticket) -> None:
        if self.log is None or ticket.serial is None:
            return
        line = json.dumps({"image": ticket.image.tolist(), "serial": ticket.serial.tolist()}) + "\n"
        with self.log.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())


def _inputs(request: Any, rest: bytes) -> dict[str, np.ndarray]:
    entries = request.get("inputs") if isinstance(request, dict) else None
    if not isinstance(entries, list) or not 1 <= len(entries) <= 8:
        raise InputError("the request has no inputs.")
    found = {}
    for entry in entries:
        values, size = tensor(entry, rest)
        rest = rest[size:]
        found[str(entry.get("name"))] = values
    return found


def _binary_wanted(request: dict[str, Any]) -> bool:
    def says(owner: Any, name: str) -> bool:
        parameters = owner.get("parameters") if isinstance(owner, dict) else None
        return isinstance(parameters, dict) and parameters.get(name) is True

    outputs = request.get("outputs")
    first = outputs[0] if isinstance(outputs, list) and outputs else {}
    return says(request, "binary_data_output") or says(first, "binary_data")


def application(served: Served) -> Any:
    """The ASGI application of a model."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("starlette", EXTRA) from None
    import asyncio

    def fixed(content: dict[str, Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return JSONResponse(content)

        return answer

    async def infer(request: Request) -> Response:
        waiting = asyncio.ensure_future(asyncio.sleep(served.latency))
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > _MOST_BYTES:
                waiting.cancel()
                return JSONResponse({"error": "the request is too large."}, status_code=413)
            parts.append(part)
        try:
            answer, blob = await run_in_threadpool(served.infer, b"".join(parts), request.headers.get(HEADER_LENGTH))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except OracleError as error:
            return JSONResponse({"error": str(error)}, status_code=500)
        finally:
            await waiting
        if not blob:
            return JSONResponse(answer)
        head = json.dumps(answer, separators=(",", ":")).encode()
        headers = {HEADER_LENGTH: str(len(head))}
        return Response(head + blob, media_type="application/octet-stream", headers=headers)

    model = f"/v2/models/{served.name}"
    about = {"name": "popskipjump", "version": "1", "extensions": [BINARY_EXTENSION, CONFIG_EXTENSION]}
    answers: dict[str, dict[str, Any]] = {
        "/v2": about,
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": True},
        model: served.metadata(),
        f"{model}/ready": {"name": served.name, "ready": True},
        f"{model}/config": {"name": served.name, "max_batch_size": served.max_rows},
    }
    routes = [Route(path, fixed(content), methods=["GET"]) for path, content in answers.items()]
    routes.append(Route(f"{model}/infer", infer, methods=["POST"]))
    # A page of another site that finds a way to this port by its own name is turned away.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
    return Starlette(routes=routes, middleware=[hosts])


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A socket that listens; port 0 lets the system choose."""
    # With the protocol named, asyncio turns off Nagle's algorithm, which would hold every answer back for 40 ms.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"port {port} of {host} cannot be used ({error}): choose another, or 0 for a free one."
        ) from error
    return listening


def server_of(app: Any) -> Any:
    """A uvicorn server for an application; it writes no log of requests."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", EXTRA) from None
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    return uvicorn.Server(config)
