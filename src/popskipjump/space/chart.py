"""Chart: maps the free coordinates, in which an attack moves, to valid inputs and back.

A continuous or stepped feature has one coordinate, in scaled units; a feature with K categories, or a one-hot group of
K features, has K: one for each category, which is chosen once its coordinate passes a threshold. Immutable features
have none. All coordinates lie in one interval (0, top), since an attack knows one pair of bounds.

A point stands for the valid input between it and the original: steps are rounded towards the original, and a category
changes only when its coordinate has paid the whole cost of the change. A valid input is therefore never farther from
the original than any point that stands for it, so the nearest adversarial point of an attack's space is the nearest
adversarial valid input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import InputError
from popskipjump.space.space import Space

_STEP_SLACK = 1e-3  # part of a step by which a coordinate may miss a level and still reach it
_ROUNDING = 1e-6  # the same, as part of a feature's range: float32 has no more digits


class _Choice(NamedTuple):
    """A feature with categories, or a one-hot group, and where its coordinates are."""

    places: tuple[int, ...]  # of the features: one for codes, K for a one-hot group
    first: int  # coordinate of the first category
    categories: int  # K
    cost: float  # of a change, in scaled units


class Chart:
    """The free coordinates for B originals of one space.

    Args:
        space: the rules; at least one feature is free.
        originals: `(B, *S)` valid inputs.
        device: where points will be.
    """

    def __init__(self, space: Space, originals: Tensor, device: torch.device | str = "cpu") -> None:
        if not bool(space.mask.any()):
            raise InputError("the space leaves no feature free: nothing can change. Free some in `mask`.")
        self.space = space
        self.device = torch.device(device)
        self._steps = np.zeros(space.dimension)
        self._steps[list(space.integer)] = 1.0
        chosen = {place for group in space.onehot for place in group} | set(space.categories)
        free = [place for place in np.flatnonzero(space.mask).tolist() if place not in chosen]
        self._places = torch.tensor(free, dtype=torch.int64, device=self.device)  # (n,) of numbers, stepped or not
        self._choices = self._made_choices(len(free))
        self.top = self._top(free)
        self.dimension = len(free) + sum(choice.categories for choice in self._choices)
        self.layout = self._layout()
        self._prepare(free)
        self.original = originals.reshape(len(originals), -1).to(self.device, torch.float32)  # (B, D)
        self.start = self.coordinates(self.original)  # (B, d)

    def _made_choices(self, first: int) -> list[_Choice]:
        """All free features with categories, in the order of their first feature."""
        space, found = self.space, []
        kinds = [((place,), number) for place, number in space.categories.items()]
        kinds += [(group, len(group)) for group in space.onehot]
        for places, number in sorted(kinds):
            if space.mask[places[0]] and number > 1:
                found.append(_Choice(tuple(places), first, number, 1 / float(space.scale[places[0]])))
                first += number
        return found

    def _top(self, free: list[int]) -> float:
        """The length of the interval: the longest range; steps and categories get half a step more on either side.

        Without that room, the last level would lie on the bound itself, and a line from there to the original would
        leave it at once.
        """
        space = self.space
        room = self._steps.copy()
        for place, levels in space.ordered.items():
            room[place] = max(np.diff(levels), default=0.0)
        lengths = (space.high - space.low + room)[free] / space.scale[free]
        return float(max([*lengths, *(2 * choice.cost for choice in self._choices)]))

    def _layout(self) -> tuple[int, ...]:
        """The shape of the coordinates: a box of the input's own axes where that is what is free, else flat."""
        space = self.space
        shape = tuple(space.shape or ())
        mask = space.mask.reshape(shape)
        sets = [np.flatnonzero(mask.any(axis=tuple(set(range(mask.ndim)) - {axis}))) for axis in range(mask.ndim)]
        is_box = all(int(kept[-1] - kept[0]) == len(kept) - 1 for kept in sets) and bool(mask[np.ix_(*sets)].all())
        uniform = len(set(space.scale[space.mask])) == 1
        if is_box and uniform and space.is_continuous:
            return tuple(len(kept) for kept in sets)
        return (self.dimension,)

    def _prepare(self, free: list[int]) -> None:
        """Everything that maps numbers, `(n,)` on the device."""
        space = self.space

        def there(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, torch.float32)

        scale, low, high = space.scale[free], space.low[free], space.high[free]
        self.scale, self._low, self._high = there(scale), there(low), there(high)
        self._origin = there(
            (low + high) / 2 - scale * self.top / 2
        )  # the middle of each range is that of the interval
        self._whole = torch.tensor([i for i, p in enumerate(free) if self._steps[p]], dtype=torch.int64).to(self.device)
        self._slack = there(np.minimum(0.25, _STEP_SLACK + _ROUNDING * (high - low)))[self._whole]
        self._levels = {i: there(np.asarray(space.ordered[p])) for i, p in enumerate(free) if p in space.ordered}

    def coordinates(self, rows: Tensor) -> Tensor:
        """Valid inputs in free coordinates: `(M, D)` -> `(M, d)`; what is immutable is left out."""
        rows = rows.reshape(len(rows), -1).to(self.device, torch.float32)
        found = torch.empty(len(rows), self.dimension, device=self.device)
        found[:, : len(self._places)] = (rows.index_select(1, self._places) - self._origin) / self.scale
        for choice in self._choices:
            block = found[:, choice.first : choice.first + choice.categories]
            block.fill_(self.top / 2 - choice.cost / 2)
            # half a step beyond the threshold, so that a line to the original does not leave the category at once
            on = min(self.top, self.top / 2 + choice.cost)
            block.scatter_(1, self._category(choice, rows).unsqueeze(1), on)
        return found.clamp_(0.0, self.top)

    @staticmethod
    def _category(choice: _Choice, rows: Tensor) -> Tensor:
        """Which category rows have: `(M, D)` -> int64 `(M,)`."""
        if len(choice.places) == 1:
            return rows[:, choice.places[0]].to(torch.int64)
        return rows[:, list(choice.places)].argmax(dim=1)

    def expand(self, points: Tensor, image: Tensor) -> Tensor:
        """The valid inputs that points stand for.

        Args:
            points: `(M, d)` free coordinates.
            image: `(M,)` int64 on the device: which original each is a change of.

        Returns:
            `(M, D)` float32. Where a coordinate is the original's, so is the feature, to the last digit.
        """
        whole = self.original.index_select(0, image)  # a copy
        start = self.start.index_select(0, image)
        if len(self._places):
            numbers = points[:, : len(self._places)]
            change = (numbers - start[:, : len(self._places)]) * self.scale
            before = whole.index_select(1, self._places)
            whole[:, self._places] = self._moved(before, change)
        for choice in self._choices:
            self._choose(choice, points, whole)
        return whole

    @property
    def is_affine(self) -> bool:
        """Whether every input within the bounds is valid: all features free, and none with steps."""
        return self.space.is_continuous and bool(self.space.mask.all())

    def affine(self, points: Tensor) -> Tensor:
        """`expand` without originals, where that is possible: `(M, *layout)` -> `(M, *S)`."""
        inputs = torch.addcmul(self._origin, points.flatten(1), self.scale)
        clipped = torch.maximum(torch.minimum(inputs, self._high), self._low)
        return clipped.reshape(-1, *(self.space.shape or ()))

    def _moved(self, before: Tensor, change: Tensor) -> Tensor:
        """Numbers after a change, within bounds, steps rounded towards `before`: `(M, n)`, `(M, n)` -> `(M, n)`."""
        if len(self._whole):
            steps = change[:, self._whole]
            change[:, self._whole] = torch.sign(steps) * torch.floor(steps.abs() + self._slack)
        after = torch.maximum(torch.minimum(before + change, self._high), self._low)
        for place, levels in self._levels.items():
            after[:, place] = _level(levels, before[:, place], change[:, place])
        return after

    def _choose(self, choice: _Choice, points: Tensor, whole: Tensor) -> None:
        """Write the category of each point into `whole` `(M, D)`, which holds the original's."""
        own = self._category(choice, whole)
        block = points[:, choice.first : choice.first + choice.categories].clone()
        block.scatter_(1, own.unsqueeze(1), -torch.inf)  # the own category needs no payment
        most, other = block.max(dim=1)
        paid = most >= self.top / 2 + choice.cost * (0.5 - _STEP_SLACK)
        now = torch.where(paid, other, own)
        if len(choice.places) == 1:
            whole[:, choice.places[0]] = now.to(whole.dtype)
            return
        hot = torch.nn.functional.one_hot(now, choice.categories).to(whole.dtype)
        whole[:, list(choice.places)] = hot


def _level(levels: Tensor, before: Tensor, change: Tensor) -> Tensor:
    """The farthest level between `before` and `before + change`: `(L,)`, `(M,)`, `(M,)` -> `(M,)`."""
    gap = float((levels[1:] - levels[:-1]).min()) if len(levels) > 1 else 0.0
    slack = _STEP_SLACK * gap + min(0.25 * gap, _ROUNDING * float(levels[-1] - levels[0]))
    own = torch.searchsorted(levels, before.contiguous())
    up = torch.searchsorted(levels, (before + change + slack).contiguous(), right=True) - 1
    down = torch.searchsorted(levels, (before + change - slack).contiguous())
    place = torch.where(change >= 0, torch.maximum(up, own), torch.minimum(down, own))
    return levels[place.clamp(0, len(levels) - 1)]
