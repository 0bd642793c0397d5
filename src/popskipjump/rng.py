"""Counter-based random streams: a random number depends only on its address, never on the order of the draws.

A `Key` (a seed and a path of names) addresses a stream, and a counter addresses a number of the stream. So results do
not depend on the composition of a batch, its order, its chunks or the worker. The generator is SplitMix64 (Steele, Lea
and Flood, OOPSLA 2014), evaluated at the counter with integer arithmetic only, and equal on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # in two's complement, like all constants here
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)
_WORD = (1 << 64) - 1
# For NumPy, made once: making such a number takes as long as the operation on a few.
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))
_FACTORS = tuple(np.uint64(factor + (1 << 64)) for factor in (_MIX_1, _MIX_2))
_FEW = 2  # numbers of a single stream that Python makes sooner than an array
_ONE, _STEP = np.uint64(1), np.uint64(_GOLDEN + (1 << 64))


def _mix(state: Tensor) -> Tensor:
    """SplitMix64's output function, in place on an int64 tensor."""
    for shift, factor in ((30, _MIX_1), (27, _MIX_2), (31, None)):
        high = torch.bitwise_right_shift(state, shift)
        high &= (1 << (64 - shift)) - 1  # torch shifts signed integers arithmetically: clear the copies of the sign bit
        state ^= high
        if factor is not None:
            state *= factor
    return state


def _mix_words(words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> None:
    """`_mix` in NumPy, in place, for CPU tensors: unsigned shifts, and a fifth of torch's call overhead."""
    words ^= words >> _SHIFTS[0]
    words *= _FACTORS[0]
    words ^= words >> _SHIFTS[1]
    words *= _FACTORS[1]
    words ^= words >> _SHIFTS[2]


def _mix_word(word: int) -> int:
    """`_mix` of a single word, 0 <= word < 2^64, in Python integers: a tenth of the overhead of an array."""
    for shift, factor in ((30, _MIX_1 & _WORD), (27, _MIX_2 & _WORD)):
        word = (word ^ (word >> shift)) * factor & _WORD
    return word ^ (word >> 31)


def _tensor_of(word: int, shape: tuple[int, ...]) -> Tensor:
    """A tensor filled with the int64 that has the same bits as an unsigned word."""
    return torch.full(shape, _signed(word), dtype=torch.int64)


def _signed(word: int) -> int:
    """The int64 that has the same bits as an unsigned word."""
    return word - (1 << 64) if word >> 63 else word


@dataclass(frozen=True)
class Key:
    """The address of a random stream: `(seed, path)`."""

    seed: int
    path: tuple[str | int, ...] = ()

    def child(self, *steps: str | int) -> Key:
        """The key of a sub-stream: `steps` are appended to the path."""
        return Key(self.seed, (*self.path, *steps))

    @cached_property
    def value(self) -> int:
        """A signed 64-bit digest of the address."""
        text = "\x1f".join((str(self.seed), *(f"{type(p).__name__}:{p}" for p in self.path)))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)

    def roots(self, *counters: Tensor) -> Tensor:
        """One sub-stream for each entry of the counters.

        Args:
            counters: int64 tensors of one shape `(...)`, for example image id and query number.

        Returns:
            int64 `(...)`, to be passed to `bits`, `uniform`, `normal` or `signs`.
        """
        on_cpu = counters[0].device.type == "cpu"
        if on_cpu and counters[0].numel() == 1:
            word = self.value & _WORD
            for counter in counters:
                word = _mix_word((word + (int(counter) + 1) * _GOLDEN) & _WORD)
            return _tensor_of(word, tuple(counters[0].shape))
        if on_cpu:  # the fast path: this dominates the cost of a noisy answer
            words = np.full(1, self.value % (1 << 64), dtype=np.uint64)
            for counter in counters:
                fresh = counter.numpy().view(np.uint64) + _ONE
                fresh *= _STEP
                fresh += words
                _mix_words(fresh)
                words = fresh
            return torch.from_numpy(words.view(np.int64))
        state = torch.full_like(counters[0], self.value)
        for counter in counters:
            state = _mix(state + (counter + 1) * _GOLDEN)
        return state

    def root(self, device: torch.device | str = "cpu") -> Tensor:
        """The root `(1,)` of this stream, for the functions that draw numbers."""
        return torch.full((1,), self.value, dtype=torch.int64, device=device)


def bits(roots: Tensor, width: int, start: int = 0) -> Tensor:
    """Numbers `start .. start + width - 1` of each stream: `(...)` -> int64 `(..., width)`."""
    if roots.device.type == "cpu":
        if roots.numel() == 1 and width <= _FEW:
            root = int(roots)
            words = [_mix_word((root + (start + lane) * _GOLDEN) & _WORD) for lane in range(1, width + 1)]
            return torch.tensor([_signed(word) for word in words]).reshape(*roots.shape, width)
        many = roots.numpy().view(np.uint64)[..., np.newaxis] + _lanes(start, width)
        _mix_words(many)
        return torch.from_numpy(many.view(np.int64))
    lanes = torch.arange(start + 1, start + width + 1, dtype=torch.int64, device=roots.device)
    return _mix(roots.unsqueeze(-1) + lanes * _GOLDEN)


@lru_cache(maxsize=64)
def _lanes(start: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Counter offsets of the numbers `start .. start + width - 1` of a stream: `(width,)`."""
    return np.arange(start + 1, start + width + 1, dtype=np.uint64) * _STEP


def as_uniform(raw: Tensor) -> Tensor:
    """Random bits as uniform numbers in the open interval (0, 1): int64 `(...)` -> float32 `(...)`."""
    # 23 bits plus one half fill float32's mantissa; with 24 bits the largest number would round to 1.
    top = torch.bitwise_right_shift(raw, 41).bitwise_and_(0x7FFFFF)
    return top.to(torch.float32).add_(0.5).mul_(2.0**-23)


def below(raw: Tensor, probability: float) -> Tensor:
    """Whether `as_uniform` of random bits is below a float32 number: int64 `(...)` -> bool `(...)`."""
    # Compared as integers, (top + 1/2) 2^-23 < p, because every noisy answer needs this.
    most = math.ceil(float(np.float32(probability)) * 2.0**23 - 0.5)
    if raw.device.type == "cpu":
        return torch.from_numpy((raw.numpy().view(np.uint64) >> np.uint64(41)) < most)
    return torch.bitwise_right_shift(raw, 41).bitwise_and_(0x7FFFFF) < most


def as_integers(raw: Tensor, below: int) -> Tensor:
    """Random bits as integers uniform in `0 .. below - 1`: int64 `(...)` -> int64 `(...)`."""
    if raw.device.type == "cpu":
        words = raw.numpy().view(np.uint64) >> np.uint64(32)
        words *= np.uint64(below)
        words >>= np.uint64(32)
        return torch.from_numpy(words.view(np.int64))
    top = torch.bitwise_right_shift(raw, 32).bitwise_and_(0xFFFFFFFF)
    return top.mul_(below).bitwise_right_shift_(32)


def uniform(roots: Tensor, width: int, start: int = 0) -> Tensor:
    """Uniform numbers in the open interval (0, 1): `(...)` -> float32 `(..., width)`."""
    return as_uniform(bits(roots, width, start))


def integers(roots: Tensor, width: int, below: int, start: int = 0) -> Tensor:
    """Integers uniform in `0 .. below - 1` (`below` < 2**31; bias < 2**-32): `(...)` -> int64 `(..., width)`."""
    return as_integers(bits(roots, width, start), below)


def normal(roots: Tensor, width: int) -> Tensor:
    """Standard normal numbers by the Box-Muller transform: `(...)` -> float32 `(..., width)`."""
    half = (width + 1) // 2
    raw = bits(roots, half)
    high = torch.bitwise_right_shift(raw, 32) & 0xFFFFFFFF
    radius = ((high.to(torch.float32) + 0.5) * 2.0**-32).log_().mul_(-2.0).clamp_(min=0.0).sqrt_()
    angle = (raw & 0xFFFFFFFF).to(torch.float32).mul_(2.0 * math.pi * 2.0**-32)
    pair = torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return pair[..., :width]


def signs(roots: Tensor, width: int) -> Tensor:
    """Independent +1 and -1: `(...)` -> float32 `(..., width)`."""
    words = bits(roots, (width + 31) // 32)  # only the middle bits of each word, 16 to 47, are used
    if words.device.type == "cpu":  # bytes instead of words: an eighth of the memory
        inner = words.numpy().astype("<i8", copy=False).view(np.uint8).reshape(*words.shape, 8)[..., 2:6]
        flat = torch.from_numpy(np.unpackbits(inner, axis=-1, bitorder="little")).flatten(-2)[..., :width]
    else:
        places = torch.arange(32, dtype=torch.int64, device=roots.device) + 16
        flat = (torch.bitwise_right_shift(words.unsqueeze(-1), places) & 1).flatten(-2)[..., :width]
    return flat.to(torch.float32).mul_(2.0).sub_(1.0)
