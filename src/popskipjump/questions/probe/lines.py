"""Fit of the share of adversarial answers along a line: position and width of the border, and the noise far from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_FLOORS = np.array([0.0, 0.015, 0.05, 0.1, 0.18, 0.28, 0.4])
_CENTRES, _WIDTHS = 41, 17
_SHARP = 1 / 200  # of the window: the narrowest transition, which stands for a step
COARSE, ZOOM, REPEATS, ZOOMS = 16, 12, 3, 6  # places at first and in each window, answers at each, windows
_LEVELS = (0.005, 0.5, 0.995)  # of the width: 99% of the posterior, as no real transition has the fitted shape
_SURE = 1e-4  # the nearest a probability comes to 0 or 1


class LineFit(NamedTuple):
    """A transition along a line; positions are in units of the line, 0 at the image."""

    centre: float
    centre_sd: float
    width: float  # from a quarter to three quarters of the way between the floors; posterior median
    width_low: float  # 95% interval
    width_high: float
    floor: float  # share of adversarial answers far on the image's side
    floor_end: float  # share of other answers far on the adversarial side
    step_evidence: float  # log-likelihood of the best fit less that of the best step
    floor_evidence: float  # log-likelihood of the best fit less that of the best one without floors


def fit_line(position: np.ndarray, asked: np.ndarray, hits: np.ndarray, window: tuple[float, float]) -> LineFit:
    """Fit a transition with floors to answers along a line, by its posterior on a grid.

    Args:
        position: `(P,)` places on the line.
        asked: `(P,)` answers at each place.
        hits: `(P,)` how many were adversarial.
        window: the part of the line that the centre lies in.
    """
    span = window[1] - window[0]
    position, asked, hits = _gathered(position, asked, hits, window)
    centre = np.linspace(*window, _CENTRES)
    width = span * np.geomspace(_SHARP, 1.5, _WIDTHS)
    offset = (position - centre[:, None, None]) / width[:, None]  # (centres, widths, P)
    rise = 1 / (1 + np.exp(np.clip(-2 * math.log(3) * offset, -50, 50)))
    pairs = np.array([(low, high) for low in _FLOORS for high in _FLOORS if low + high < 0.95])
    log = _log_likelihoods(rise, asked, hits, pairs)
    best = float(log.max())
    belief = np.exp(log - best)
    belief /= belief.sum()
    of_centre, of_width = belief.sum(axis=(0, 2)), belief.sum(axis=(0, 1))
    mean = float(of_centre @ centre)
    spread = math.sqrt(max(float(of_centre @ (centre - mean) ** 2), (span / _CENTRES) ** 2 / 12))
    low, middle, high = (_quantile(width, of_width, level) for level in _LEVELS)
    of_pair = belief.sum(axis=(1, 2))
    return LineFit(
        centre=mean,
        centre_sd=spread,
        width=middle,
        width_low=low,
        width_high=high,
        floor=float(of_pair @ pairs[:, 0]),
        floor_end=float(of_pair @ pairs[:, 1]),
        step_evidence=best - float(log[:, :, 0].max()),
        floor_evidence=best - float(log[pairs.sum(axis=1) == 0].max()),
    )


def _log_likelihoods(rise: np.ndarray, asked: np.ndarray, hits: np.ndarray, floors: np.ndarray) -> np.ndarray:
    """Log-likelihood of answers at P places for rises `(C, W, P)` between floors `(F, 2)`: `(F, C, W)`."""
    flat = np.clip(rise.reshape(-1, rise.shape[-1]), _SURE, 1 - _SURE).astype(np.float32)
    log = np.zeros((len(floors), len(flat)))
    # Most places are unanimous: half of the logarithms are not needed.
    for upwards, counts in ((True, hits), (False, asked - hits)):
        some = counts > 0
        part, weight = flat[:, some], counts[some].astype(np.float32)
        p = np.empty_like(part)
        for number, (low, high) in enumerate(floors.astype(np.float32)):
            first, last = (low, 1 - high) if upwards else (1 - low, high)
            np.multiply(part, last - first, out=p)
            p += first
            np.log(p, out=p)
            log[number] += p @ weight
    return log.reshape(len(floors), *rise.shape[:-1])


def _gathered(
    position: np.ndarray, asked: np.ndarray, hits: np.ndarray, window: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places, with those far outside of the window put together: there the share is that of the floors."""
    span = window[1] - window[0]
    below, above = position < window[0] - span, position > window[1] + span
    inside = ~(below | above)
    far = [side for side in (below, above) if side.any()]
    where = [window[0] - 2 * span if side is below else window[1] + 2 * span for side in far]
    return (
        np.concatenate((position[inside], where)),
        np.concatenate((asked[inside], [asked[side].sum() for side in far])),
        np.concatenate((hits[inside], [hits[side].sum() for side in far])),
    )


def _quantile(values: np.ndarray, belief: np.ndarray, level: float) -> float:
    """A quantile of a belief on a geometric grid; each value stands for the cell around it."""
    total = np.concatenate(([0.0], np.cumsum(belief)))
    ratio = math.sqrt(values[1] / values[0])
    edges = np.concatenate(([values[0] / ratio], values * ratio))
    return float(np.exp(np.interp(level, total / total[-1], np.log(edges))))


class Answers:
    """Everything that was answered on one line."""

    def __init__(self) -> None:
        self._counts: dict[float, list[int]] = {}

    def add(self, positions: np.ndarray, adversarial: np.ndarray, valid: np.ndarray) -> None:
        """Note answers `(M,)` at positions `(M,)`; those that are not valid are left out."""
        for place, hit, there in zip(positions.tolist(), adversarial.tolist(), valid.tolist(), strict=True):
            if there:
                count = self._counts.setdefault(place, [0, 0])
                count[0] += 1
                count[1] += bool(hit)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places `(P,)` in order, answers at each `(P,)` and adversarial ones `(P,)`."""
        places = sorted(self._counts)
        counts = np.array([self._counts[place] for place in places], dtype=np.float64).reshape(-1, 2)
        return np.array(places), counts[:, 0], counts[:, 1]

    def fit(self, window: tuple[float, float]) -> LineFit:
        """See `fit_line`."""
        return fit_line(*self.arrays(), window)


def narrow(answers: Answers, ask: Callable[[np.ndarray], int]) -> tuple[LineFit | None, tuple[float, float]]:
    """Ask in ever smaller windows, until one holds the transition and little else.

    Args:
        answers: what is known of the line; `ask` adds to it.
        ask: asks at places `(M,)`, and returns how many of them it could.

    Returns:
        The last fit, None if nothing could be asked; and the last window.
    """
    window, fit = (0.0, 1.0), None
    for zoom in range(ZOOMS + 1):
        count = ZOOM if zoom else COARSE
        places = window[0] + (window[1] - window[0]) * (np.arange(count) + 0.5) / count
        if ask(np.repeat(places, REPEATS)) == 0:
            break
        fit = answers.fit(window)
        reach = max(4 * fit.centre_sd, 1.6 * fit.width_high, (window[1] - window[0]) / 16)
        if reach > 0.3 * (window[1] - window[0]):
            break
        window = (max(fit.centre - reach, 0.0), min(fit.centre + reach, 1.0))
    return fit, window
