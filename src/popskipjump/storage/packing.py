"""Compact storage of labels: near a border an image sees two classes, so most of its answers take one bit.

Each span has a pair: its two most frequent labels. A span of no other labels is "plain", and its answers take one bit
each. All other spans share a Huffman code, in which 0 and 1 stand for their pairs and the rest for labels by name. An
answer always takes one bit at least, so that a few bytes can never promise many answers.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

_CODE = struct.Struct("<BBH")  # the coding, the bytes of a label, the number of different labels
_RAW, _PAIRS = 0, 1
_SMALL = 1023  # answers up to which no pairs are made: they would cost more than they save
_FEW = 1 << 12  # labels below this are counted instead of sorted
_MOST_LABELS = 254  # different ones in a record: a place among them and the two of the pair fit a byte

PLAINLY = _CODE.pack(_RAW, 8, 0)  # before labels that are int64, as they are
UNSIGNED = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
Labels = np.ndarray


def pack(labels: Labels, counts: Labels) -> bytes:
    """Labels, int64 `(N,)` from 0, of spans of these lengths `(S,)`, in few bytes."""
    width = width_of(int(labels.max(initial=0)))
    raw = _CODE.pack(_RAW, width, 0) + labels.astype(UNSIGNED[width]).tobytes()
    if len(labels) <= _SMALL:
        return raw
    names, place = _named(labels)
    if len(names) > _MOST_LABELS:
        return raw
    span = np.repeat(np.arange(len(counts)), counts)
    seen = np.bincount(span * len(names) + place, minlength=len(counts) * len(names)).reshape(len(counts), -1)
    pairs = np.zeros((len(counts), 2), dtype=np.uint8)  # places among the names
    pairs[:, 0] = seen.argmax(axis=1)
    rows = np.arange(len(counts))
    covered = seen[rows, pairs[:, 0]]
    seen[rows, pairs[:, 0]] = -1
    pairs[:, 1] = seen.argmax(axis=1)
    plain = covered + np.maximum(seen[rows, pairs[:, 1]], 0) == counts
    code = (place + 2).astype(np.uint8)
    code[place == pairs[span, 1]] = 1
    code[place == pairs[span, 0]] = 0
    is_plain = plain[span]
    parts = (
        _CODE.pack(_PAIRS, width, len(names)),
        names.astype(UNSIGNED[width]).tobytes(),
        pairs.tobytes(),
        np.packbits(plain).tobytes(),
        np.packbits(code[is_plain]).tobytes(),
        _to_huffman(code[~is_plain].tobytes()),
    )
    return min(raw, b"".join(parts), key=len)


def _named(labels: Labels) -> tuple[Labels, Labels]:
    """The different labels in order, and the place of each answer's among them."""
    if int(labels.max()) >= _FEW:
        names, place = np.unique(labels, return_inverse=True)
        return names, place
    here = np.bincount(labels) > 0  # a sort takes longer
    return np.flatnonzero(here), (np.cumsum(here) - 1)[labels]


def _to_huffman(codes: bytes) -> bytes:
    if not codes:
        return b""
    coder = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(codes) + coder.flush()


def unpack(data: bytes, counts: Labels) -> Labels:
    """The labels of spans of these lengths `(S,)`, int64 `(N,)`; ValueError if the bytes do not fit."""
    if len(data) < _CODE.size:
        raise ValueError("answers without their coding")
    coding, width, different = _CODE.unpack_from(data)
    queries = int(counts.sum())
    if coding not in (_RAW, _PAIRS) or width not in (1, 2, 4, 8):
        raise ValueError("answers in an unknown coding")
    if queries > 8 * len(data):
        raise ValueError("more answers than bits")
    body = data[_CODE.size :]
    if coding == _RAW:
        if len(body) != queries * width:
            raise ValueError("answers of another number than promised")
        return _as_labels(body, width)
    return _from_pairs(body, counts, width, different)


def _from_pairs(body: bytes, counts: Labels, width: int, different: int) -> Labels:
    sizes = np.cumsum([different * width, 2 * len(counts), (len(counts) + 7) // 8]).tolist()
    if not 0 < different <= _MOST_LABELS or len(body) < sizes[-1]:
        raise ValueError("answers without their pairs")
    names = _as_labels(body[: sizes[0]], width)
    pairs = np.frombuffer(body[sizes[0] : sizes[1]], dtype=np.uint8).reshape(-1, 2)
    plain = np.unpackbits(np.frombuffer(body[sizes[1] : sizes[2]], dtype=np.uint8), count=len(counts)).astype(bool)
    span = np.repeat(np.arange(len(counts)), counts)
    is_plain = plain[span]
    simple = int(is_plain.sum())
    middle = sizes[2] + (simple + 7) // 8
    if len(body) < middle or (len(pairs) and int(pairs.max()) >= different):
        raise ValueError("fewer answers than promised")
    code = np.empty(len(span), dtype=np.int64)
    code[is_plain] = np.unpackbits(np.frombuffer(body[sizes[2] : middle], dtype=np.uint8), count=simple)
    code[~is_plain] = _from_huffman(body[middle:], len(span) - simple)
    if len(code) and int(code.max()) >= different + 2:
        raise ValueError("an answer without a name")
    place = np.where(code < 2, pairs[span, np.minimum(code, 1)], code - 2)
    return names[place]


def _from_huffman(body: bytes, count: int) -> np.ndarray:
    if not count and not body:
        return np.zeros(0, dtype=np.uint8)
    decoder = zlib.decompressobj(-15)
    try:
        plain = decoder.decompress(body, count + 1)
    except zlib.error as error:
        raise ValueError("a damaged code") from error
    if len(plain) != count or not decoder.eof or decoder.unused_data:
        raise ValueError("answers of another number than promised")
    return np.frombuffer(plain, dtype=np.uint8)


def _as_labels(data: bytes, width: int) -> Labels:
    values = np.frombuffer(data, dtype=UNSIGNED[width])
    if width == 8 and len(values) and int(values.max()) >= 1 << 63:
        raise ValueError("a label out of range")
    return values.astype(np.int64)


def width_of(largest: int) -> int:
    """How many bytes an unsigned number needs."""
    return 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4 if largest < 1 << 32 else 8
