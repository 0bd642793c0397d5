"""HTTP transport: concurrent requests with deadlines and limits; the meaning of statuses. Retries: see `Endpoint`."""

from __future__ import annotations

import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from popskipjump.errors import MissingExtraError
from popskipjump.integrations.http.address import Address
from popskipjump.integrations.http.outcomes import NoAnswerError, Outcome
from popskipjump.integrations.http.protocol import HEADER_LENGTH, Request

EXTRA = "http"
_REFUSED = {400, 403, 406, 409, 415, 422, 451}
_MISSING = {404, 405, 410, 501}
_PIECE = 1 << 16  # bytes that are written under one look at the clock


class Limits(NamedTuple):
    """What a transport may use."""

    connections: int
    timeout: float  # seconds for one request, from its first byte to the last byte of its answer
    rate: float | None  # requests per second
    max_response: int  # bytes


class Answer(NamedTuple):
    """A whole answer with a status of success."""

    body: bytes
    header_length: str | None  # of the JSON before binary tensors


class Transport:
    """A pool of connections to one server; `send` may be called from any thread.

    It stands on httpcore, the lower half of httpx, for two reasons: there a request as a whole can have a deadline (a
    server that sends one byte a second outwits timeouts of single reads), and there nothing is followed, decoded,
    stored or logged that was not asked for: no redirects, no compression, no cookies, no request bodies.
    """

    def __init__(self, address: Address, headers: Mapping[str, str], limits: Limits, verify: bool | str) -> None:
        try:
            import httpcore
        except ImportError:
            raise MissingExtraError("httpx", EXTRA) from None
        self._core: Any = httpcore
        self._address, self._limits = address, limits
        self._headers = [(b"Host", address.origin.split("://")[1].encode()), (b"Accept-Encoding", b"identity")]
        self._headers += [(name.encode(), value.encode()) for name, value in headers.items()]
        self._deadline = _Deadline(httpcore)
        self._pool = httpcore.ConnectionPool(
            ssl_context=_context(verify) if address.origin.startswith("https:") else None,
            max_connections=limits.connections,
            max_keepalive_connections=limits.connections,
            keepalive_expiry=60.0,
            network_backend=_backend(httpcore, self._deadline),
        )
        self._free = threading.BoundedSemaphore(limits.connections)
        self._lock = threading.Lock()
        self._next = 0.0  # when the rate allows the next request
        self.busy_seconds = 0.0  # of all connections together
        self.closed = threading.Event()
        self._closing = weakref.finalize(self, self._pool.close)  # at the latest with the last reference

    def close(self) -> None:
        """Let go of the connections; requests under way fail."""
        self.closed.set()
        self._closing()

    def send(self, method: str, path: str, request: Request | None = None) -> Answer:
        """One request and its whole answer.

        Raises:
            NoAnswerError: there was none that can be used; never with content of the request or of the answer.
        """
        with self._free:
            self._wait_for_rate()
            if self.closed.is_set():
                raise NoAnswerError(Outcome.FAILED, "the endpoint is closed: make a new one", kind="fatal")
            began = time.perf_counter()
            self._deadline.at = time.monotonic() + self._limits.timeout
            try:
                return self._exchange(method, path, request)
            except self._core.TimeoutException:
                raise self._late() from None
            except (self._core.NetworkError, self._core.ProtocolError, OSError, RuntimeError) as error:
                raise self._failed(error) from None
            finally:
                with self._lock:
                    self.busy_seconds += time.perf_counter() - began

    def _wait_for_rate(self) -> None:
        if self._limits.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + 1 / self._limits.rate
        self.closed.wait(begin - now)

    def _exchange(self, method: str, path: str, request: Request | None) -> Answer:
        headers, content = list(self._headers), b""
        if request is not None:
            content = request.body
            headers += [(name.encode(), value.encode()) for name, value in request.headers.items()]
            headers.append((b"Content-Length", str(len(content)).encode()))
        url = self._address.origin + (path or "/")
        with self._pool.stream(method, url, headers=headers, content=content) as response:
            found = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
            self._judge(int(response.status), found)
            if found.get("content-encoding", "identity").lower() != "identity":
                raise NoAnswerError(Outcome.FAILED, "the server's answer is compressed, unasked", kind="unusable")
            parts, size = [], 0
            for part in response.iter_stream():
                size += len(part)
                if size > self._limits.max_response:
                    raise self._too_long()
                parts.append(part)
            return Answer(b"".join(parts), found.get(HEADER_LENGTH.lower()))

    def _judge(self, status: int, headers: Mapping[str, str]) -> None:
        """Raise unless the status says success and the announced size is within the limit."""
        where = self._address.origin
        if status == 200:
            declared = headers.get("content-length", "0")
            if declared.isdigit() and int(declared[:18]) > self._limits.max_response:
                raise self._too_long()
            return
        if 300 <= status < 400:
            text = f"{where} redirects ({status}), which is not followed: pass the new address if you trust it"
            raise NoAnswerError(Outcome.FAILED, text, kind="fatal")
        if status in (401, 407):
            text = f"{where} wants other credentials ({status}): see `secrets=`"
            raise NoAnswerError(Outcome.REJECTED, text, kind="fatal")
        if status in _MISSING:
            text = f"{where} has nothing at {self._address.path} ({status}): check the model's name"
            raise NoAnswerError(Outcome.FAILED, text, kind="fatal")
        if status == 413:
            raise NoAnswerError(Outcome.REJECTED, f"{where} finds the request too large (413)", kind="too large")
        if status in _REFUSED:
            raise NoAnswerError(Outcome.REJECTED, f"{where} refused the request ({status})", kind="refused")
        wait = headers.get("retry-after", "")
        pause = float(wait[:6]) if wait.isascii() and wait.isdigit() else None
        if status == 429:
            raise NoAnswerError(Outcome.REJECTED, f"{where} limits the rate (429)", wait=pause)
        if status == 408:
            raise self._late()
        raise NoAnswerError(Outcome.FAILED, f"{where} answered with the status {status}", wait=pause)

    def _failed(self, error: BaseException) -> NoAnswerError:
        """The error for a connection that broke, or was never made; its own text might quote a header."""
        cause: BaseException | None = error
        for _ in range(8):
            if isinstance(cause, ssl.SSLCertVerificationError):
                text = f"the certificate of {self._address.origin} is not to be trusted"
                return NoAnswerError(Outcome.FAILED, f"{text}: pass its authority's file as `verify=`", kind="fatal")
            cause = None if cause is None else cause.__cause__ or cause.__context__
        return NoAnswerError(Outcome.FAILED, f"no answer from {self._address.origin} ({type(error).__name__})")

    def _late(self) -> NoAnswerError:
        text = f"no whole answer from {self._address.origin} within {self._limits.timeout:g} s"
        return NoAnswerError(Outcome.LATE, text)

    def _too_long(self) -> NoAnswerError:
        text = f"the answer of {self._address.origin} exceeds {self._limits.max_response:,} bytes"
        return NoAnswerError(Outcome.FAILED, text, kind="unusable")


def _context(verify: bool | str) -> Any:
    """Certificates are verified by the system's authorities, or by those of one file."""
    return ssl.create_default_context(cafile=None if verify is True else str(verify))


class _Deadline(threading.local):
    """When the request of a thread must be over; called, the seconds that it still has."""

    def __init__(self, core: Any) -> None:
        self._core, self.at = core, 0.0

    def __call__(self) -> float:
        left = self.at - time.monotonic()
        if left <= 0:
            raise self._core.ReadTimeout
        return left


def _backend(core: Any, remaining: _Deadline) -> Any:
    """Sockets that look at the deadline of their thread's request before every read and write."""

    class Stream(core.NetworkStream):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def read(self, max_bytes: int, timeout: float | None = None) -> Any:
            return self._inner.read(max_bytes, remaining())

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            for begin in range(0, len(buffer), _PIECE):
                self._inner.write(buffer[begin : begin + _PIECE], remaining())

        def close(self) -> None:
            self._inner.close()

        def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
            return Stream(self._inner.start_tls(ssl_context, server_hostname, remaining()))

        def get_extra_info(self, info: str) -> Any:
            return self._inner.get_extra_info(info)

    class Backend(core.NetworkBackend):  # type: ignore[misc]
        def __init__(self) -> None:
            self._inner = core.SyncBackend()

        def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> Any:
            return Stream(self._inner.connect_tcp(host, port, remaining(), local_address, socket_options))

    return Backend()
