"""The Open Inference Protocol, version 2: tensors to requests, responses to labels. This file sends nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from popskipjump.errors import InputError
from popskipjump.integrations.http.outcomes import NoAnswerError, Outcome

HEADER_LENGTH = "Inference-Header-Content-Length"
BINARY_EXTENSION = "binary_tensor_data"
CONFIG_EXTENSION = "model_configuration"
IMAGE_INPUT, SERIAL_INPUT = "psj_image", "psj_serial"  # inputs of a server whose noise is addressed by tickets
TYPES = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
_INPUT_TYPES = ("FP32", "FP64")


def unusable(text: str) -> NoAnswerError:
    """The error for an answer that cannot be used; the text never holds the answer itself."""
    return NoAnswerError(Outcome.FAILED, f"the server's answer cannot be used: {text}", kind="unusable")


@dataclass(frozen=True)
class Signature:
    """What a server says of its model: the names and types of its tensors."""

    input_name: str = "input"
    input_type: str = "FP32"
    input_shape: tuple[int, ...] | None = None  # of one row; None takes the points as they are
    output_name: str | None = None  # None: the only output of the response
    addressed: bool = False  # whether the model takes the address of each query
    binary: bool = False
    max_rows: int | None = None

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which a row of this shape is sent; an error if it does not fit."""
        wanted = self.input_shape
        if wanted is None or wanted == shape:
            return shape
        fixed = [size for size in wanted if size >= 0]
        if len(wanted) == len(shape) and all(w in (-1, s) for w, s in zip(wanted, shape, strict=True)):
            return shape
        if len(fixed) == len(wanted) and math.prod(fixed) == math.prod(shape):
            return wanted
        raise InputError(
            f"the server's model takes inputs of shape {wanted}, and the images have the shape {shape}: pass images of "
            "that size, or `input_shape=` to send them in another shape."
        )


class Part(NamedTuple):
    """The rows of one request, as they are sent."""

    points: np.ndarray  # (M, *S) float32
    image: np.ndarray  # (M,) int64
    serial: np.ndarray | None  # (M,) int64

    def rows(self, which: slice | np.ndarray) -> Part:
        """Some of the rows."""
        return Part(self.points[which], self.image[which], None if self.serial is None else self.serial[which])


class Request(NamedTuple):
    """A body and the headers that describe it."""

    body: bytes
    headers: dict[str, str]


def signature_of(metadata: Any, server: Any, config: Any, chosen: Signature) -> Signature:
    """What to send, from the server's own description and from what the user chose (which wins).

    Args:
        metadata: the parsed answer of the model's address.
        server: the parsed answer of `/v2`; its `extensions` say what the server can do.
        config: the parsed model configuration; None where the server has none.
        chosen: the user's names; a field that was left at its default is filled in.
    """
    default = Signature()
    inputs = [i for i in _dicts(metadata, "inputs") if i.get("name") not in (IMAGE_INPUT, SERIAL_INPUT)]
    if chosen.input_name != default.input_name:
        inputs = [i for i in inputs if i.get("name") == chosen.input_name] or inputs[:0]
    if len(inputs) > 1:
        names = [str(i.get("name"))[:40] for i in inputs[:8]]
        raise InputError(f"the server's model has {len(inputs)} inputs {names}: pass `input_name=` one of them.")
    first = inputs[0] if inputs else {}
    kind = str(first.get("datatype", chosen.input_type))
    if kind not in _INPUT_TYPES:
        raise InputError(f"the server's model takes inputs of type {kind[:20]}; only FP32 and FP64 can be sent.")
    shape = chosen.input_shape
    if shape is None and _is_shape(first.get("shape")) and len(first["shape"]) > 1:
        shape = tuple(first["shape"][1:])
    outputs = [str(o["name"]) for o in _dicts(metadata, "outputs") if "name" in o]
    extensions = server.get("extensions") if isinstance(server, dict) else None
    limit = config.get("max_batch_size") if isinstance(config, dict) else None
    known = {i.get("name") for i in _dicts(metadata, "inputs")}
    return Signature(
        input_name=str(first.get("name", chosen.input_name)),
        input_type=kind,
        input_shape=shape,
        output_name=chosen.output_name or (outputs[0] if len(outputs) == 1 else None),
        addressed={IMAGE_INPUT, SERIAL_INPUT} <= known,
        binary=isinstance(extensions, list) and BINARY_EXTENSION in extensions,
        max_rows=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1 else None,
    )


def _dicts(metadata: Any, name: str) -> list[dict[str, Any]]:
    items = metadata.get(name) if isinstance(metadata, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, int) and not isinstance(v, bool) and v >= -1 for v in value)


def request_of(part: Part, name: str, signature: Signature) -> Request:
    """The request for the labels of some rows.

    Args:
        part: the rows.
        name: the request's id, which the response must repeat.
        signature: see there.
    """
    shape = (len(part.points), *signature.shape_of(part.points.shape[1:]))
    tensors = [(signature.input_name, signature.input_type, part.points.reshape(shape))]
    if signature.addressed and part.serial is not None:
        tensors += [(IMAGE_INPUT, "INT64", part.image), (SERIAL_INPUT, "INT64", part.serial)]
    wanted: dict[str, Any] | None = None if signature.output_name is None else {"name": signature.output_name}
    head: dict[str, Any] = {"id": name, "inputs": []}
    blobs = []
    for title, kind, values in tensors:
        entry: dict[str, Any] = {"name": title, "datatype": kind, "shape": list(values.shape)}
        if signature.binary:
            blob = np.ascontiguousarray(values, dtype=TYPES[kind]).tobytes()
            entry["parameters"] = {"binary_data_size": len(blob)}
            blobs.append(blob)
        else:
            # float32 is exact in float64, and Python prints float64 so that it reads back as itself
            entry["data"] = values.astype(np.float64 if kind.startswith("FP") else np.int64).flatten().tolist()
        head["inputs"].append(entry)
    if wanted is not None:
        head["outputs"] = [wanted | ({"parameters": {"binary_data": True}} if signature.binary else {})]
    elif signature.binary:
        head["parameters"] = {"binary_data_output": True}
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    if not signature.binary:
        return Request(text, {"Content-Type": "application/json"})
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(text))}
    return Request(b"".join((text, *blobs)), headers)


def parsed(body: bytes) -> Any:
    """JSON that a server sent; an error for anything else."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise unusable("it is not JSON") from None


def split(body: bytes, header_length: str | None) -> tuple[Any, bytes]:
    """The JSON of a body, and the binary tensors after it."""
    if header_length is None:
        return parsed(body), b""
    if not (header_length.isascii() and header_length.isdigit()) or int(header_length[:12]) > len(body):
        raise unusable("its header length is not one")
    place = int(header_length)
    return parsed(body[:place]), body[place:]


def tensor(entry: Any, rest: bytes) -> tuple[np.ndarray, int]:
    """One tensor of a message, and how many bytes of `rest` it took; an error if anything is not as it says."""
    if not isinstance(entry, dict) or not _is_shape(entry.get("shape")) or min(entry["shape"], default=0) < 0:
        raise unusable("a tensor has no shape")
    kind, shape = entry.get("datatype"), tuple(entry["shape"])
    if kind not in TYPES:
        raise unusable("a tensor has a type that is neither a number nor a label")
    count = math.prod(shape)
    parameters = entry.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None:
        if size != count * np.dtype(TYPES[kind]).itemsize or size > len(rest):
            raise unusable("a binary tensor has another size than its shape says")
        return np.frombuffer(rest[:size], dtype=TYPES[kind]).reshape(shape), size
    try:
        values = np.array(entry.get("data"))  # ragged lists are a ValueError
    except (ValueError, TypeError, OverflowError):
        raise unusable("a tensor is not a plain list of numbers") from None
    allowed = "iu" if kind.startswith(("INT", "UINT")) else "b" if kind == "BOOL" else "iuf"
    if values.dtype.kind not in allowed or values.size != count:
        raise unusable(f"a tensor of type {kind} does not hold {count} such numbers")
    return values.reshape(shape), 0


def labels_of(response: Any, rest: bytes, count: int, name: str, output: str | None) -> np.ndarray:
    """The labels of a response: int64 `(count,)`, negative where the server refuses to say.

    Args:
        response: the parsed JSON.
        rest: the binary tensors after it.
        count: how many rows were asked about.
        name: the id of the request.
        output: the name of the output to read; None for the only one.
    """
    if not isinstance(response, dict) or not isinstance(response.get("outputs"), list):
        raise unusable("it has no outputs")
    if response.get("id") not in (None, "", name):
        raise unusable("it belongs to another request")
    found: list[np.ndarray] = []
    for entry in response["outputs"][:64]:
        values, size = tensor(entry, rest) if _wanted(entry, output) else (None, _size(entry))
        rest = rest[size:]
        if values is not None:
            found.append(values)
    if len(found) != 1:
        raise unusable(f"of its outputs, {len(found)} can be the labels: pass `output_name=` the right one")
    return labels_from(found[0], count)


def _wanted(entry: Any, output: str | None) -> bool:
    return output is None or (isinstance(entry, dict) and entry.get("name") == output)


def _size(entry: Any) -> int:
    """Bytes that a tensor takes after the JSON."""
    parameters = entry.get("parameters") if isinstance(entry, dict) else None
    size = parameters.get("binary_data_size", 0) if isinstance(parameters, dict) else 0
    if not isinstance(size, int) or size < 0:
        raise unusable("a binary tensor has no size")
    return size


def labels_from(values: np.ndarray, count: int) -> np.ndarray:
    """Labels from numbers: integers `(M,)` or `(M, 1)` are labels, floats `(M, K)` are scores of K classes."""
    if values.dtype.kind in "iu":
        if values.shape not in ((count,), (count, 1)):
            raise unusable(f"{count} labels were asked for, and it has integers of shape {values.shape}")
        if values.size and int(values.max()) > np.iinfo(np.int64).max:
            raise unusable("a label is no label: it exceeds 64 bits")
        return values.reshape(count).astype(np.int64)
    if values.dtype.kind != "f" or values.ndim != 2 or len(values) != count or values.shape[1] < 2:
        raise unusable(
            f"{count} labels were asked for, and it has {values.dtype} of shape {values.shape}; integers of shape "
            f"({count},) or scores of shape ({count}, classes) can be used"
        )
    if not np.isfinite(values).all():
        raise unusable("scores are not finite")
    best: np.ndarray = values.argmax(axis=1).astype(np.int64)
    return best
