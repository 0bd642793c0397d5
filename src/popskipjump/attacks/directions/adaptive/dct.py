"""The cosine basis (DCT) of the inputs, with its frequency bands: the basis of a normal's spectrum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional

_SMALLEST = 16  # inputs with fewer coordinates get no spectrum
_LONGEST = 2048  # longest axis with a spectrum: larger cosine matrices take too much time and memory
_ROWS = {64: 512, _LONGEST: 32}  # rows of one matrix product, by the largest axis length it is used for
_EDGES = (0.0, 1.9, 3.1, 4.5, 6.1)  # of the lowest bands, in half-waves over the input; from there on by a factor
_FACTOR = 1.28
_LOW = (0.1, 0.16, 0.25, 0.35, 0.5, 0.7)  # cut-offs of the candidate spectra, in units of the highest frequency
_HIGH = (0.35, 0.5, 0.7, 0.9)
_PEAK = (0.2, 0.35, 0.5, 0.7, 1.0)
_BLUR = 0.07  # standard deviation of the blur, as a fraction of the longer axis
_NOTHING = 1e-30  # smaller blur weights are dropped: products with subnormal float32 take ten times as long
_LEAST = 1e-3  # smallest variance of a band in a candidate spectrum, relative to its largest
# Highest frequency that classifiers use, in half-waves over an image: all frequencies at 32 pixels, a quarter at 224.
RESOLVED = 56.0
_USUAL = {"grey": 0.05, "both": 0.55, "coloured": 0.4}  # prior of each kind of spectrum of a large image
_OCTAVE = 0.5  # standard deviation of the cut-off around `RESOLVED` in this prior, in octaves
_SELDOM = 1e-3  # weight of every other spectrum in this prior
_CHECKERS = ((28, "grey"), (14, "grey"), (56, ""))  # half-waves of checkers for large images; all are coloured, too
_SHORT = 4  # longest last axis that counts as channels
_LONG = 8  # shortest axis before it that counts as spatial


@dataclass(frozen=True)
class Basis:
    """An orthonormal cosine basis for one input shape, its bands, and candidate spectra of the normal.

    The last two axes (one axis, if the input has one or two short ones) are spatial, and the others are channels. A
    short last axis after long ones also holds channels, as in images of shape (H, W, C). Axes of length 1 are ignored.
    A band holds the coefficients of similar frequency; the mean of the channels ("grey") and their differences have
    separate bands. Coefficients are always stored with the channels first.
    """

    shape: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """D."""
        return math.prod(self.shape)

    @property
    def has_spectrum(self) -> bool:
        """Whether the shape has several frequency bands; otherwise the basis is the identity, with one band."""
        return self.dimension >= _SMALLEST and max(self.axes) <= _LONGEST

    @cached_property
    def axes(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        space = self._long[: len(self._long) - (self.last_channels > 1)]
        flat = len(space) == 1 or min(space[-2:]) < (_SHORT if self.last_channels == 1 else _LONG)
        height = 1 if flat else space[-2]
        return self.dimension // (height * space[-1]), height, space[-1]

    @cached_property
    def last_channels(self) -> int:
        """Length of the last axis if it holds channels, else 1."""
        behind = len(self._long) > 1 and self._long[-1] <= _SHORT and self._long[-2] >= _LONG
        return self._long[-1] if behind else 1

    @cached_property
    def _long(self) -> tuple[int, ...]:
        """The axes longer than 1."""
        return tuple(size for size in self.shape if size > 1) or (1,)

    @cached_property
    def _matrices(self) -> list[Tensor]:
        """One cosine matrix for each axis, with a row for each frequency."""
        return [cosines(n) for n in self.axes]

    def to_coefficients(self, points: Tensor) -> Tensor:
        """`(M, d)` -> `(M, d)`."""
        memory = torch.empty_like(points), torch.empty_like(points)
        return self._transformed(self._channels_first(points), [matrix.T for matrix in self._matrices], *memory)[0]

    def to_points(self, coefficients: Tensor) -> Tensor:
        """`(M, d)` -> `(M, d)`, the inverse."""
        memory = torch.empty_like(coefficients), torch.empty_like(coefficients)
        return self._channels_last(*self._transformed(coefficients, self._matrices, *memory))[0]

    def turn_to_points(self, coefficients: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        """`to_points` in given buffers: `(M, d)` twice, both overwritten -> the points, and the free buffer."""
        return self._channels_last(*self._transformed(coefficients, self._matrices, spare, coefficients))

    def _channels_first(self, points: Tensor) -> Tensor:
        """Points with the channels before space: `(M, d)` -> `(M, d)`."""
        if self.last_channels == 1:
            return points
        _, height, width = self.axes
        return points.view(len(points), -1, height, width, self.last_channels).movedim(-1, -3).reshape(points.shape)

    def _channels_last(self, points: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of `_channels_first`, in given buffers: `(M, d)` twice -> the points, and the free buffer."""
        if self.last_channels == 1:
            return points, spare
        _, height, width = self.axes
        turned = points.view(len(points), -1, self.last_channels, height, width).movedim(-3, -1)
        spare.view(turned.shape).copy_(turned)
        return spare, points

    def _transformed(
        self, rows: Tensor, matrices: Sequence[Tensor], first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Multiply each axis by its matrix, in given buffers: `(M, d)` -> `(M, d)`, and the free buffer."""
        if not self.has_spectrum:
            return rows, first
        channels, height, width = self.axes
        across, down, along = (matrix.to(rows.device) for matrix in matrices)
        planes = rows.reshape(-1, height, width)
        if height > 1:
            half = _product(_for_each(down.T, planes), planes, first)
            result = _product(half, _for_each(along, half), second)
        else:
            result = _times(planes, along)
        if channels > 1:
            cube = result.reshape(-1, channels, height * width)
            return _product(_for_each(across.T, cube), cube, first).reshape(rows.shape), second
        return result.reshape(rows.shape), first

    def blurred(self, values: Tensor) -> Tensor:
        """The mean over the channels, smoothed over space: `(M, d)` -> `(M, d)`."""
        channels, height, width = self.axes
        planes = self._channels_first(values).reshape(len(values), channels, height, width)
        planes = planes.mean(dim=1) if channels > 1 else planes.squeeze(1)
        reach = _BLUR * max(height, width)
        along = blur(width, reach).T.to(values.device)
        if height > 1:
            down = blur(height, reach).to(values.device)
            planes = torch.bmm(torch.bmm(_for_each(down, planes), planes), _for_each(along, planes))
        else:
            planes = _times(planes, along)
        return self._in_all_channels(planes)

    def _in_all_channels(self, planes: Tensor) -> Tensor:
        """Repeat a plane in every channel: `(M, height, width)` -> `(M, d)`."""
        channels, height, width = self.axes
        leading = channels // self.last_channels
        every = planes.reshape(-1, 1, height, width, 1).expand(-1, leading, -1, -1, self.last_channels)
        return every.contiguous().view(-1, self.dimension)

    @cached_property
    def _frequency(self) -> Tensor:
        """`(d,)` frequency of each coefficient, in half-waves over the input."""
        channels, height, width = self.axes
        radius = torch.sqrt(torch.arange(height).unsqueeze(1) ** 2 + torch.arange(width).unsqueeze(0) ** 2.0)
        return radius.flatten().repeat(channels)

    @cached_property
    def _coloured(self) -> Tensor:
        """`(d,)` 0 for the mean over the channels, 1 for their differences."""
        channels, height, width = self.axes
        return (torch.arange(channels) > 0).to(torch.int64).repeat_interleave(height * width)

    @cached_property
    def band(self) -> Tensor:
        """`(d,)` int64: the band of each coefficient."""
        if not self.has_spectrum:
            return torch.zeros(self.dimension, dtype=torch.int64)
        edges = list(_EDGES)
        while edges[-1] <= float(self._frequency.max()):
            edges.append(edges[-1] * _FACTOR)
        radial = torch.bucketize(self._frequency, torch.tensor(edges), right=True)
        band: Tensor = torch.unique(radial + len(edges) * self._coloured, return_inverse=True)[1]
        return band

    @cached_property
    def band_size(self) -> Tensor:
        """`(N,)` float32: number of coefficients in each band."""
        return torch.bincount(self.band).to(torch.float32)

    def by_band(self, values: Tensor) -> Tensor:
        """Sums over bands: `(A, d)` -> `(A, N)`."""
        sums = torch.zeros(len(values), len(self.band_size), device=values.device)
        return sums.index_add_(1, self.band.to(values.device), values)

    def by_coefficient(self, values: Tensor) -> Tensor:
        """Broadcast one number per band to its coefficients: `(A, N)` -> `(A, d)`."""
        return values.index_select(1, self.band.to(values.device))

    @cached_property
    def candidates(self) -> Tensor:
        """`(J, N)`: candidate spectra, the flat one first: variance of a coefficient of the unit normal, by band."""
        of_band = self.by_band(torch.stack((self._frequency, self._coloured.to(torch.float32)))) / self.band_size
        frequency, coloured = of_band[0] / max(self.axes[1:]), of_band[1]
        profiles = [torch.ones_like(frequency)]
        if self.has_spectrum:
            above = frequency.clamp(min=1e-2)
            profiles += [1 / (1 + (frequency / cut) ** 6) for cut in _LOW]
            profiles += [1 / (1 + (cut / above) ** 6) for cut in _HIGH]
            profiles += [torch.exp(-0.5 * ((above / peak).log2() / 0.35) ** 2) for peak in _PEAK]
        kinds = [torch.ones_like(coloured)]
        if self.has_spectrum and self.axes[0] > 1:
            kinds += [1 - coloured, coloured]
        shapes = torch.stack([profile * kind + _LEAST * profile.max() for profile in profiles for kind in kinds])
        return shapes / (shapes * self.band_size).sum(dim=1, keepdim=True)

    @cached_property
    def resolved(self) -> float:
        """Share of the frequencies that classifiers use: 1 for small images, and for inputs that are no images."""
        _, height, width = self.axes
        if not self.has_spectrum or height == 1:
            return 1.0
        return min(1.0, (RESOLVED / max(height, width)) ** 2)

    @cached_property
    def likely(self) -> Tensor:
        """`(J,)` log-prior of the candidates before any answer: all alike, but low-pass ones for large images."""
        if self.resolved == 1:
            return torch.full((len(self.candidates),), -math.log(len(self.candidates)))
        cut = torch.tensor(_LOW).div(math.sqrt(self.resolved)).log2()
        by_cut = torch.softmax(-0.5 * (cut / _OCTAVE) ** 2, dim=0)
        kinds = torch.tensor([_USUAL[kind] for kind in ("both", "grey", "coloured")] if self.axes[0] > 1 else [1.0])
        prior = torch.full((len(self.candidates),), _SELDOM)
        prior[len(kinds) : len(kinds) * (1 + len(_LOW))] += (by_cut.unsqueeze(1) * kinds).flatten()
        return (prior / prior.sum()).log()

    @cached_property
    def typical(self) -> list[int]:
        """Indices of a few candidates that differ most: flat, low-pass and high-pass ones."""
        kinds = 3 if self.has_spectrum and self.axes[0] > 1 else 1
        return [kinds * number for number in (0, 3, 8)] if self.has_spectrum else [0]

    @cached_property
    def coarse(self) -> Tensor:
        """`(k, d)` checkers at frequencies that classifiers use, with both signs; none for small images."""
        if self.resolved == 1:
            return torch.zeros(0, self.dimension)
        channels, height, width = self.axes
        colours = 1 - 2 * (torch.arange(channels) % 2).to(torch.float32)
        patterns = []
        for waves, kinds in _CHECKERS:
            size = max(height, width) / waves  # of a square, in pixels
            row, column = (1 - 2 * ((torch.arange(n) / size).floor() % 2) for n in (height, width))
            plane = row.unsqueeze(1) * column
            for signs in ([colours] if channels > 1 else []) + ([torch.ones(channels)] if "grey" in kinds else []):
                cube = (signs.reshape(-1, 1, 1) * plane).reshape(1, -1)
                patterns.append(self._channels_last(cube, torch.empty_like(cube))[0])
        flat = torch.cat(patterns)
        return torch.cat((flat, -flat))

    @cached_property
    def corners(self) -> Tensor:
        """`(k, d)` sharp regular patterns with both signs: checkers of two sizes, rows, columns."""
        _, height, width = self.axes
        if not self.has_spectrum:
            return torch.zeros(0, self.dimension)
        row, column = (1 - 2 * (torch.arange(n) % 2) for n in (height, width))
        wide_row, wide_column = (1 - 2 * (torch.arange(n) // 2 % 2) for n in (height, width))
        planes = [row.unsqueeze(1) * column, torch.ones(height, 1) * column, wide_row.unsqueeze(1) * wide_column]
        if height > 1:
            planes.append(row.unsqueeze(1) * torch.ones(1, width))
        flat = self._in_all_channels(torch.stack(planes).to(torch.float32))
        return torch.cat((flat, -flat))


def _product(left: Tensor, right: Tensor, memory: Tensor) -> Tensor:
    """Batched matrix product, written to a given buffer: `(k, n, m)`, `(k, m, p)` -> `(k, n, p)`."""
    return torch.bmm(left, right, out=memory.view(len(left), left.shape[1], right.shape[2]))


def _for_each(matrix: Tensor, planes: Tensor) -> Tensor:
    """Expand a matrix to a batch: the last digits of a batched product do not depend on the batch size."""
    return matrix.expand(len(planes), *matrix.shape)


def _times(cube: Tensor, matrix: Tensor) -> Tensor:
    """Matrix product over the last axis: `(..., n)`, `(n, n)` -> `(..., n)`.

    The last digits of a matrix product depend on its number of rows, but an image's directions must not depend on the
    other images of the batch. So every product here has the same number of rows, padded with zeros.
    """
    rows = cube.reshape(-1, cube.shape[-1])
    at_once = next(count for longest, count in _ROWS.items() if len(matrix) <= longest)
    filled = functional.pad(rows, (0, 0, 0, -len(rows) % at_once))
    return torch.cat([part @ matrix for part in torch.split(filled, at_once)])[: len(rows)].reshape(cube.shape)


@lru_cache(maxsize=16)
def blur(size: int, width: float) -> Tensor:
    """Gaussian weights of standard deviation `width`, a row for each place: float32 `(size, size)`."""
    place = torch.arange(size, dtype=torch.float64)
    weight = torch.exp(-0.5 * ((place.unsqueeze(1) - place) / width) ** 2)
    weight = weight / weight.sum(dim=1, keepdim=True)
    return torch.where(weight > _NOTHING, weight, 0.0).to(torch.float32)


@lru_cache(maxsize=16)
def basis_of(shape: tuple[int, ...]) -> Basis:
    """The basis of a shape, made once."""
    return Basis(shape)


def cosines(size: int) -> Tensor:
    """The orthonormal cosine basis (DCT-II), a row for each frequency: float32 `(size, size)`."""
    place = torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi * (place + 0.5) * place.unsqueeze(1) / size) * math.sqrt(2 / size)
    matrix[0] /= math.sqrt(2)
    return matrix.to(torch.float32)
