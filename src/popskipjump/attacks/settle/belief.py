"""Posterior of P(adversarial) on the ray outward of a point, and the expected cost of confirming a position."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from popskipjump.attacks.settle.evidence import information
from popskipjump.attacks.settle.lines import Line
from popskipjump.elementwise import logistic, power

# Nodes of the prior. A position t has the distance 1 + t, in units of the distance of the phase's first point.
_DEVIATIONS = torch.tensor([-2.0, -1.2, -0.6, 0.0, 0.6, 1.2, 2.0, 3.0], dtype=torch.float64)
_ASTRAY = torch.logspace(-4, 0, 17, dtype=torch.float64)  # positions of the boundary if its search was wrong
_ASTRAY_WEIGHT = 0.1
_SAFE_DEVIATIONS = 1.645  # from the centre to the safe position, which has 95% confidence
_STEP = 1e-9  # width of a sharp boundary
_WIDTHS = (0.5, 1.0, 2.0)  # nodes of the width, in units of the fitted width
_OTHER_WIDTHS, _OTHER_WEIGHT = (0.03, 0.15), 0.2  # widths, and their prior weight, if the fit is wrong
_SHARP_WEIGHT = (0.05, 0.6)  # prior weight of a sharp boundary if the fit is gradual, and if it is sharp
_OTHER_FLOORS, _FLOOR_WEIGHTS = ((0.03, 0.1), (0.1, 0.25)), (0.8, 0.1, 0.1)  # (low, high), after the fitted ones
_FLOORS = (0.003, 0.45)

_LONG = 150.0  # expected queries above which a confirmable position is abandoned anyway
_WRONG = 10.0  # least cost, in queries, of a position on the wrong side, because another one must then be confirmed
# A test of n expected queries fails to end within m with probability 1 - exp(-(n / 1.3 m)^4), roughly.
_SUDDEN, _LONGER = 4, 1.3
_COIN_WEIGHT = 0.01  # prior weight of answers that do not depend on the position
_AT_ONCE = 64  # images per batch
_AGAINST = 1.6  # log-evidence needed to abandon a position on the wrong side


class Belief:
    """Posterior weights of sigmoids P(t) = high + (1 - low - high) sigma((t - centre) / width), for A images."""

    def __init__(self, line: Line) -> None:
        scale = (1 - line.safe).clamp(min=1e-9).unsqueeze(1)
        centre, of_centre = _centres(((line.centre - line.safe).unsqueeze(1) / scale).clamp(min=1e-6))
        width, of_width = _widths(line, scale)
        low, high = (
            torch.stack([fitted, *(fitted * 0 + pair[side] for pair in _OTHER_FLOORS)], dim=1).clamp(*_FLOORS)
            for side, fitted in enumerate((line.low, line.high))
        )
        shape = (len(line.rows), len(_FLOOR_WEIGHTS), width.shape[1], centre.shape[1])

        def nodes(values: Tensor) -> Tensor:
            return values.expand(shape).flatten(1)

        self.centre, self.width = nodes(centre[:, None, None, :]), nodes(width[:, None, :, None])
        self.low, self.high = nodes(low[:, :, None, None]), nodes(high[:, :, None, None])
        of_floor = torch.tensor(_FLOOR_WEIGHTS, dtype=torch.float64)[:, None, None]
        self.log_weight = nodes((of_floor * of_width[:, None, :, None] * of_centre).log())
        self._add_coin()

    def _add_coin(self) -> None:
        """Add the last node: a fair coin, whose answers do not depend on the position."""
        one = torch.ones_like(self.low[:, :1])
        self.centre, self.width = torch.cat((self.centre, 0 * one), dim=1), torch.cat((self.width, one), dim=1)
        self.low, self.high = torch.cat((self.low, one / 2), dim=1), torch.cat((self.high, one / 2), dim=1)
        self.log_weight = torch.cat((self.log_weight, math.log(_COIN_WEIGHT) * one), dim=1)

    def coin(self, index: Tensor) -> Tensor:
        """Posterior probability that the answers do not depend on the position: images `(k,)` -> `(k,)`."""
        return torch.softmax(self.log_weight[index], dim=1)[:, -1]

    def probability(self, index: Tensor, t: Tensor) -> Tensor:
        """P(adversarial) under every node: images `(k,)`, positions `(k, C)` -> `(k, C, N)`."""
        offset = (t.unsqueeze(2) - self.centre[index].unsqueeze(1)) / self.width[index].unsqueeze(1)
        high, low = self.high[index].unsqueeze(1), self.low[index].unsqueeze(1)
        return high + (1 - low - high) * logistic(offset)

    def right(self, index: Tensor, t: Tensor) -> Tensor:
        """Posterior probability that P(adversarial) > 1/2: images `(k,)`, positions `(k,)` -> `(k,)`."""
        p = self.probability(index, t.unsqueeze(1)).squeeze(1)
        return (torch.softmax(self.log_weight[index], dim=1) * (p > 0.5)).sum(dim=1)

    def learn(self, index: Tensor, t: Tensor, yes: Tensor, asked: Tensor) -> None:
        """Bayes update with answers of images `(k,)` at positions `(k,)`: counts `(k,)`."""
        p = self.probability(index, t.unsqueeze(1)).squeeze(1)
        likelihood = torch.xlogy(yes.unsqueeze(1), p) + torch.xlogy((asked - yes).unsqueeze(1), 1 - p)
        self.log_weight[index] += likelihood

    def cost(self, index: Tensor, t: Tensor, needed: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """Expected queries until positions are confirmed or abandoned, and the probability of no confirmation.

        Args:
            index: `(k,)` images.
            t: `(k, C)` positions.
            needed: `(k,)` log-evidence still missing.
            left: `(k,)` queries left.

        Returns:
            Both `(k, C)`.
        """
        if len(index) > _AT_ONCE:  # bounds the memory for thousands of images
            parts = [slice(i, i + _AT_ONCE) for i in range(0, len(index), _AT_ONCE)]
            costs = [self.cost(index[part], t[part], needed[part], left[part]) for part in parts]
            queries, missed = (torch.cat(values) for values in zip(*costs, strict=True))
            return queries, missed
        p = self.probability(index, t)
        gain, left = information(p), left[:, None, None]
        right = needed[:, None, None] / gain
        wrong = _WRONG + (_AGAINST / gain).clamp(max=_LONG - _WRONG)
        queries = torch.where(p > 0.5, right.clamp(max=_LONG), wrong)
        missed = -torch.expm1(-(power(torch.where(p > 0.5, right, wrong) / (_LONGER * left), _SUDDEN)))
        weight = torch.softmax(self.log_weight[index], dim=1).unsqueeze(1)
        return (weight * queries).sum(dim=2), (weight * missed).sum(dim=2)


def _centres(doubt: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes of the boundary's position and their weights, from its uncertainty `(A, 1)`: `(A, n)`, `(n,)`."""
    near = -doubt + _DEVIATIONS * doubt / _SAFE_DEVIATIONS
    normal = torch.exp(-0.5 * _DEVIATIONS**2)
    astray = torch.full_like(_ASTRAY, _ASTRAY_WEIGHT / len(_ASTRAY))
    weight = torch.cat(((1 - _ASTRAY_WEIGHT) * normal / normal.sum(), astray))
    return torch.cat((near, _ASTRAY.expand(len(doubt), -1)), dim=1), weight


def _widths(line: Line, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Widths of the transition, and their weights: both `(A, m)`."""
    known = ~torch.isnan(line.width).unsqueeze(1)
    fitted = torch.where(known, line.width.unsqueeze(1) / scale, 0.01) * torch.tensor(_WIDTHS, dtype=torch.float64)
    other = torch.tensor(_OTHER_WIDTHS, dtype=torch.float64).expand(len(fitted), -1)
    unlikely, likely = _SHARP_WEIGHT
    sharp = torch.where(line.sharp, likely, unlikely).to(torch.float64).unsqueeze(1)
    of_fitted = ((1 - sharp) * (1 - _OTHER_WEIGHT) / len(_WIDTHS)).expand(-1, len(_WIDTHS))
    of_other = ((1 - sharp) * _OTHER_WEIGHT / len(_OTHER_WIDTHS)).expand(-1, len(_OTHER_WIDTHS))
    width = torch.cat((torch.full_like(sharp, _STEP), fitted, other), dim=1)
    return width, torch.cat((sharp, of_fitted, of_other), dim=1)
