"""Number of random directions that a gradient estimate needs (section 3.4 of the paper)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def answer_correlation(offset: Tensor, slope: Tensor, spread: Tensor | float, lost: Tensor | float = 0.0) -> Tensor:
    r"""Correlation alpha between an answer and its perturbation along the true normal (eq. 5 and 6; errata E4).

    For the clipped linear sigmoid, by Proposition 1:
    alpha = (1 - 2 eps) s beta (erf((Delta + 1/2s) / (beta sqrt 2)) - erf((Delta - 1/2s) / (beta sqrt 2))), and
    (1 - 2 eps) sqrt(2/pi) exp(-(Delta/beta)^2 / 2) for s = inf. With two floors, 2 eps is their sum.

    Args:
        offset: `(...)` Delta, from the sampling centre to the sigmoid's centre.
        slope: `(...)` s in (0, inf]; `inf` is a deterministic border.
        spread: `(...)` beta > 0, standard deviation of one perturbation coordinate.
        lost: `(...)` 2 eps in [0, 1), the loss of contrast by the floors.

    Returns:
        `(...)` alpha in [0, sqrt(2/pi)], in the precision of the arguments.
    """
    offset, slope = torch.as_tensor(offset), torch.as_tensor(slope)
    shifted = offset / spread  # alpha(Delta, s, beta) = alpha(Delta / beta, s beta, 1)
    steep = slope * spread
    # On a steep slope the difference of two erf cancels; the Taylor series does not.
    half = 0.5 / steep
    finite = steep * (torch.erf((shifted + half) / math.sqrt(2)) - torch.erf((shifted - half) / math.sqrt(2)))
    is_steep = half < 1e-2
    if bool(is_steep.any()):
        step = math.sqrt(2 / math.pi) * torch.exp(-(shifted**2) / 2)
        series = step * (1 + (shifted**2 - 1) * half**2 / 6)
        finite = torch.where(is_steep, series, finite)
    return (1 - torch.as_tensor(lost)) * finite


def expected_cosine(count: Tensor | float, dimension: int, correlation: Tensor) -> Tensor:
    """Expected cosine between the gradient and its estimate from `count` answers (eq. 3; errata E5).

    Args:
        count: `(...)` n, the number of perturbations.
        dimension: d, of the input.
        correlation: `(...)` alpha.

    Returns:
        `(...)` C = (1 + (d - 1) / (n alpha^2))^(-1/2).
    """
    signal = torch.as_tensor(count) * correlation**2
    return torch.sqrt(signal / (signal + (dimension - 1)))


def queries_for_cosine(cosine: Tensor | float, dimension: int, correlation: Tensor) -> Tensor:
    """The inverse of `expected_cosine` in n (eq. 4): n = C^2 / alpha^2 (d - 1) / (1 - C^2); inf where alpha is 0."""
    squared = torch.as_tensor(cosine) ** 2
    return squared / (1 - squared) * (dimension - 1) / correlation**2


def deterministic_cosine(count: float, dimension: int) -> float:
    """C_det: the expected cosine of HopSkipJump's estimate without noise, at an offset of one beta (errata E7)."""
    correlation = answer_correlation(torch.tensor(1.0, dtype=torch.float64), torch.tensor(math.inf), 1.0)
    # In one dimension there are only two directions; a minimum of 2 avoids d - 1 = 0.
    return float(expected_cosine(count, max(dimension, 2), correlation))
