"""Inputs as PNG images in data URIs for pages; as text if an input is no image."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from popskipjump.space import Space

RISE, FALL = (0.88, 0.22, 0.1), (0.1, 0.4, 0.95)  # seen on white and on black, told apart by all eyes
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # channels -> grey, colour, colour with transparency, as PNG numbers them


def picture(values: np.ndarray) -> str | None:
    """An input in [0, 1] as a data URI: 1 or 3 channels, first or last, or `(H, W)`; None for any other shape."""
    pixels = _channels_last(values)
    return None if pixels is None else _uri(pixels)


def difference(values: np.ndarray, gain: float) -> str | None:
    """A change of an input, amplified: one channel red where it rises and blue where it falls, three on grey.

    One channel is transparent where nothing changes, so that the page shows through, light or dark.
    """
    change = _channels_last(values)
    if change is None:
        return None
    change = np.clip(gain * change, -1, 1)
    if change.shape[2] == 3:
        return _uri(0.5 + change / 2)
    colour = np.where(change > 0, np.array(RISE), np.array(FALL))
    return _uri(np.concatenate((colour, np.abs(change)), axis=2))


def gain_of(change: np.ndarray) -> float:
    """How much to amplify a change so that it can be seen: a round number."""
    largest = float(np.abs(change).max(initial=0.0))
    return 1.0 if largest == 0 else max(1.0, float(f"{1 / largest:.1g}"))


def changed_most(original: np.ndarray, point: np.ndarray, space: Space | None = None, most: int = 5) -> list[str]:
    """The values that changed most, for inputs that are no pictures: "income: 1,200 → 1,350".

    Args:
        original: `(*S)`.
        point: `(*S)`.
        space: names the features, and says how large a change of each is; None counts places and compares values.
        most: values to name at most.
    """
    before, after = original.ravel(), point.ravel()
    size = np.abs(after - before) / (1 if space is None else np.where(space.scale > 0, space.scale, 1.0))
    order = [place for place in np.argsort(-size, kind="stable")[:most].tolist() if after[place] != before[place]]
    names = None if space is None else space.names
    return [
        f"{place if names is None else names[place]}: {_said(before[place], place, space)} → "
        f"{_said(after[place], place, space)}"
        for place in order
    ]


def _said(value: float, place: int, space: Space | None) -> str:
    """A value for people: a category by its name, a large number without a power of ten."""
    if space is not None and place in space.categories and place in space.values:
        return str(space.values[place][int(value)])
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def _channels_last(values: np.ndarray) -> np.ndarray | None:
    """`(H, W, 1)` or `(H, W, 3)`."""
    if values.ndim == 2:
        return values[:, :, np.newaxis]
    if values.ndim == 3 and values.shape[0] in (1, 3):
        return np.moveaxis(values, 0, 2)
    return values if values.ndim == 3 and values.shape[2] in (1, 3) else None


def _uri(pixels: np.ndarray) -> str:
    """A PNG of values in [0, 1], `(H, W, 1)`, `(H, W, 3)` or `(H, W, 4)`."""
    content = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    height, width, channels = content.shape
    rows = np.concatenate((np.zeros((height, 1), dtype=np.uint8), content.reshape(height, -1)), axis=1)  # no filter
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    body = b"".join(
        _chunk(kind, data)
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
