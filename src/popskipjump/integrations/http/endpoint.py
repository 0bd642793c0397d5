"""A classifier behind a URL as an oracle."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import InputError, OracleError
from popskipjump.integrations.http.address import Address, checked_headers, checked_secrets, read_secrets
from popskipjump.integrations.http.outcomes import NoAnswerError, Outcome, Patience, Tally
from popskipjump.integrations.http.protocol import (
    CONFIG_EXTENSION,
    Part,
    Request,
    Signature,
    labels_of,
    parsed,
    request_of,
    signature_of,
    split,
)
from popskipjump.integrations.http.transport import Answer, Limits, Transport
from popskipjump.oracles import Ticket
from popskipjump.rng import Key, uniform
from popskipjump.types import Bounds

MAX_ROWS = 256
_REQUEST_BYTES = 16 << 20  # of one request's numbers as JSON, about 20 bytes each


class Codec(Protocol):
    """A language of requests and responses."""

    @property
    def max_rows(self) -> int | None:
        """The most rows of one request; None for no limit of its own."""

    def request(self, part: Part, name: str, signature: Signature) -> Request:
        """The request for the labels of some rows."""

    def labels(self, answer: Answer, count: int, name: str, signature: Signature) -> np.ndarray:
        """The labels of a response: int64 `(count,)`, negative where the server refuses to say."""


class OpenInference:
    """The Open Inference Protocol, version 2; see `protocol`."""

    max_rows: int | None = None

    def request(self, part: Part, name: str, signature: Signature) -> Request:
        """See `Codec`."""
        return request_of(part, name, signature)

    def labels(self, answer: Answer, count: int, name: str, signature: Signature) -> np.ndarray:
        """See `Codec`."""
        response, rest = split(answer.body, answer.header_length)
        return labels_of(response, rest, count, name, signature.output_name)


class Endpoint:
    """An oracle that asks a server for labels: the Open Inference Protocol V2, or a JSON of your own.

    A query without an answer (`Outcome`: rejected, late, failed) is asked again as `patience` says; `tally` counts what
    happened, by image. An answer that is not exactly what was asked for is never taken for a label. May be asked from
    several threads at once. Close it, or use it in a `with` statement.

    Args:
        url: "https://host:port/v2/models/NAME"; for another protocol the address to post to.
        protocol: None for V2; or `PlainJson(...)`.
        secrets: header -> NAME of the environment variable that holds its value, for credentials. Values are read when
            the connection is made and are never logged, saved or shown.
        headers: other headers; these are shown and saved.
        connections: requests under way at once, at most.
        rows: inputs of a request at most; a smaller limit of the server counts.
        fewest_rows: a batch is spread over the connections in requests of so many inputs or more.
        rate: requests per second at most; None for no limit.
        timeout: seconds for a request as a whole.
        patience: how often and when to ask again.
        refused_as: image id -> label that stands for a query that was refused to the end: usually the true class, as
            what is refused has not fooled anybody. None raises, which ends the image.
        jitter: every query, and every attempt at it, is moved by uniform noise of this size in each value, so that none
            repeats bit for bit. 0 for none.
        bounds: smallest and largest value of an input, for the jitter.
        seed: of the jitter.
        input_name, input_shape, output_name: for servers that do not describe their model; shape of one input.
        binary: send and receive binary tensors; None where the server offers them.
        verify: True to verify TLS certificates by the system's authorities, or the path of an authority's file.
        max_response: bytes of an answer at most.

    Raises:
        InputError: something was passed that cannot be used; nothing has been sent.
        MissingExtraError: httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        protocol: Codec | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        connections: int = 16,
        rows: int = MAX_ROWS,
        fewest_rows: int = 4,
        rate: float | None = None,
        timeout: float = 30.0,
        patience: Patience | None = None,
        refused_as: Mapping[int, int] | Sequence[int] | None = None,
        jitter: float = 0.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
        input_name: str = Signature.input_name,
        input_shape: tuple[int, ...] | None = None,
        output_name: str | None = None,
        binary: bool | None = None,
        verify: bool | str = True,
        max_response: int = 16 << 20,
    ) -> None:
        for name, value in (("connections", connections), ("rows", rows), ("fewest_rows", fewest_rows)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, not {value!r}.")
        if not timeout > 0 or (rate is not None and not rate > 0) or not jitter >= 0 or max_response < 1:
            raise InputError("timeout, rate and max_response must be positive, and jitter 0 or more.")
        if verify is False:
            raise InputError(
                "TLS certificates are always verified: pass the path of your authority's file as `verify=`."
            )
        self.address = Address.of(url[: -len("/infer")] if protocol is None and url.endswith("/infer") else url)
        self.tally, self.patience = Tally(), patience or Patience()
        self.device, self.classes = torch.device("cpu"), None
        self._codec: Codec = OpenInference() if protocol is None else protocol
        self._secrets = checked_secrets(secrets, self.address)
        self._headers = checked_headers(headers)
        self._rows, self._fewest, self._limits = rows, fewest_rows, Limits(connections, timeout, rate, max_response)
        self._refused_as = dict(enumerate(refused_as)) if isinstance(refused_as, Sequence) else refused_as
        self._jitter, self._bounds, self._key = float(jitter), Bounds.of(bounds), Key(seed).child("jitter")
        self._chosen = Signature(input_name, input_shape=input_shape, output_name=output_name)
        self._unnumbered = itertools.count()  # rows without a number of their own, for the jitter
        self._binary, self._verify = binary, verify
        self._signature: Signature | None = None
        self._transport: Transport | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._connecting = threading.Lock()
        self._asking: set[threading.Event] = set()  # of calls under way: set to end them

    def __repr__(self) -> str:
        shown = [repr(str(self.address))]
        if self._secrets:
            shown.append(
                "secrets: " + ", ".join(f"{name} from ${variable}" for name, variable in self._secrets.items())
            )
        return f"Endpoint({', '.join(shown)})"

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all requests and let go of the connections; the counts stay."""
        with self._connecting:
            if self._transport is not None:
                self._transport.close()
            if self._workers is not None:
                self._workers.shutdown(wait=True, cancel_futures=True)

    def interrupt(self) -> None:
        """End all calls under way with an error, after requests that are sent already; later ones work as before."""
        for stop in list(self._asking):
            stop.set()

    @property
    def repeatable(self) -> bool:
        """Whether a query of the same number gets the same answer again; known once the server has been reached."""
        return self._signature is not None and self._signature.addressed and not self._jitter

    @property
    def busy_seconds(self) -> float:
        """Time that requests were under way, over all connections."""
        return 0.0 if self._transport is None else self._transport.busy_seconds

    def connect(self) -> Signature:
        """Reach the server and read what it says of its model; done by the first query, too.

        Raises:
            OracleError: the server cannot be reached, or has no such model.
            InputError: the model's inputs or outputs cannot be used.
        """
        with self._connecting:
            if self._signature is None:
                if self._transport is None:
                    headers = {**self._headers, **read_secrets(self._secrets)}
                    self._transport = Transport(self.address, headers, self._limits, self._verify)
                    self._workers = ThreadPoolExecutor(self._limits.connections, "psj-endpoint")
                self._signature = self._describe(self._transport)
            return self._signature

    def _describe(self, transport: Transport) -> Signature:
        if not isinstance(self._codec, OpenInference):
            return self._chosen
        metadata = self._get(transport, self.address.path)
        root = self.address.path.split("/models/")[0]
        server = self._get(transport, root, optional=True)
        extensions = server.get("extensions") if isinstance(server, dict) else None
        config = None
        if isinstance(extensions, list) and CONFIG_EXTENSION in extensions:
            config = self._get(transport, f"{self.address.path}/config", optional=True)
        found = signature_of(metadata, server, config, self._chosen)
        return found if self._binary is None else Signature(**{**vars(found), "binary": self._binary})

    def _get(self, transport: Transport, path: str, optional: bool = False) -> Any:
        """The JSON at a path; None if an optional one is not there."""
        failures: Counter[str] = Counter()
        while True:
            try:
                return parsed(transport.send("GET", path).body)
            except NoAnswerError as error:
                failures[error.kind] += 1
                if not self.patience.allows(error.kind, failures[error.kind]):
                    if optional and error.kind in ("fatal", "refused", "unusable"):
                        return None
                    raise OracleError(f"{error}.") from None
                transport.closed.wait(self.patience.pause(failures[error.kind], error.wait))

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        signature = self.connect()
        values = points.detach().cpu().numpy().copy()  # a request that nobody waits for any more may still read it
        if not len(values):
            return torch.zeros(0, dtype=torch.int64)
        signature.shape_of(values.shape[1:])
        batch = Part(values, ticket.image.numpy(), None if ticket.serial is None else ticket.serial.numpy())
        rows = self._rows_for(values, signature)
        parts = [batch.rows(slice(begin, begin + rows)) for begin in range(0, len(values), rows)]
        return torch.from_numpy(np.concatenate(self._ask_all(parts)))

    def _rows_for(self, values: np.ndarray, signature: Signature) -> int:
        """How many rows to put into a request: as few as keep all connections busy, within all limits."""
        limits = [self._rows, _REQUEST_BYTES // (20 * max(1, values[0].size)), signature.max_rows, self._codec.max_rows]
        most = max(1, min(int(limit) for limit in limits if limit is not None))
        return min(most, max(self._fewest, -(-len(values) // self._limits.connections)))

    def _ask_all(self, parts: list[Part]) -> list[np.ndarray]:
        """The labels of every part; the first failure ends the others."""
        stop = threading.Event()
        self._asking.add(stop)
        try:
            return self._ask_until(parts, stop)
        finally:
            self._asking.discard(stop)

    def _ask_until(self, parts: list[Part], stop: threading.Event) -> list[np.ndarray]:
        if len(parts) == 1 or self._workers is None:
            return [self._ask_part(part, stop) for part in parts]
        try:
            futures: list[Future[np.ndarray]] = [self._workers.submit(self._ask_part, part, stop) for part in parts]
        except RuntimeError:
            raise OracleError("the endpoint is closed: make a new one.") from None
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = [error for future in done if (error := future.exception()) is not None]
            if failed:
                raise failed[0]
            return [future.result() for future in futures]
        finally:  # after a failure, or Ctrl-C
            stop.set()
            for future in futures:
                future.cancel()

    def _ask_part(self, part: Part, stop: threading.Event, before: int = 0) -> np.ndarray:
        """The labels of one request's rows, asked until they are there or patience ends: int64 `(M,)`.

        Args:
            part: the rows.
            stop: set when the answers are not wanted any more.
            before: how often the rows were sent as a part of larger requests.
        """
        labels = np.full(len(part.points), -1, dtype=np.int64)
        open_ = np.arange(len(labels))
        failures: Counter[str] = Counter()
        while True:  # ends by `allows`: a kind of failure is counted at every turn
            some = part.rows(open_)
            try:
                found = self._attempt(some, before + sum(failures.values()))
                self.tally.add(some.image[found >= 0], Outcome.ANSWERED)
                labels[open_], open_ = found, open_[found < 0]
                if not len(open_):
                    return labels
                some = part.rows(open_)
                raise NoAnswerError(Outcome.REJECTED, f"{self.address.origin} refused to label a query", "refused")
            except NoAnswerError as error:
                self.tally.add(some.image, error.outcome)
                if error.kind in ("refused", "too large") and len(open_) > 1:
                    # One query in a request must not be the end of its neighbours.
                    halves = [part.rows(half) for half in np.array_split(open_, 2)]
                    sent = before + sum(failures.values()) + 1
                    labels[open_] = np.concatenate([self._ask_part(half, stop, sent) for half in halves])
                    return labels
                failures[error.kind] += 1
                if not self.patience.allows(error.kind, failures[error.kind]):
                    labels[open_] = self._given_up(some, error, sum(failures.values()))
                    return labels
                pause = self.patience.pause(failures[error.kind], error.wait)
            if stop.wait(pause):
                raise OracleError("asking was ended: another request failed, or a group was interrupted.")

    def _attempt(self, part: Part, attempt: int) -> np.ndarray:
        """Send rows once: int64 `(M,)`, negative where the server refuses a row."""
        name = uuid.uuid4().hex
        signature = self._signature or self._chosen
        request = self._codec.request(self._moved(part, attempt), name, signature)
        path = self.address.path + ("/infer" if isinstance(self._codec, OpenInference) else "")
        if self._transport is None:
            raise OracleError("the endpoint has no connection: call `connect` first.")
        answer = self._transport.send("POST", path, request)
        return self._codec.labels(answer, len(part.points), name, signature)

    def _moved(self, part: Part, attempt: int) -> Part:
        """The rows with the jitter of this attempt."""
        if not self._jitter:
            return part
        serial = part.serial
        if serial is None:
            serial = np.fromiter((next(self._unnumbered) for _ in part.image), dtype=np.int64)
        roots = self._key.child(attempt).roots(torch.from_numpy(part.image.copy()), torch.from_numpy(serial.copy()))
        noise = (2 * uniform(roots, part.points[0].size) - 1).numpy().reshape(part.points.shape)
        moved = part.points + np.float32(self._jitter) * noise
        low, high = self._bounds
        # Reflected at the bounds: clipping would make values that lie there equal again.
        moved = np.where(moved < low, 2 * low - moved, np.where(moved > high, 2 * high - moved, moved)).clip(low, high)
        return part._replace(points=moved.astype(np.float32))

    def _given_up(self, part: Part, error: NoAnswerError, attempts: int) -> np.ndarray:
        """What stands for queries without an answer by policy; an error if nothing does."""
        self.tally.give_up(part.image)
        known = self._refused_as
        if error.outcome is Outcome.REJECTED and known is not None and all(i in known for i in part.image.tolist()):
            return np.array([known[image] for image in part.image.tolist()], dtype=np.int64)
        often = "once" if attempts == 1 else f"{attempts} times"
        raise NoAnswerError(error.outcome, f"{error}; asked {often}.", error.kind) from None
