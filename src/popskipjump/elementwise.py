"""Functions of single numbers whose last digit does not depend on where in a tensor the number stands.

Torch computes most functions with vector instructions and the numbers at a tensor's end one by one. For some functions
(sigmoid, powers, logaddexp, softplus, exp2) the two ways differ in the last digit, so that an image's numbers would
depend on how many images share its batch. For exp and log they do not differ, and these functions are made of those.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_TINY = 1e-300  # stands for a base of 0


def logistic_(values: Tensor) -> Tensor:
    """1 / (1 + e^-x), in place."""
    return values.neg_().exp_().add_(1).reciprocal_()


def logistic(values: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return logistic_(values.clone())


def power(base: Tensor | float, exponent: Tensor | float) -> Tensor:
    """A power of a number of at least 0; one of the two is a tensor."""
    logarithm = base.log() if isinstance(base, Tensor) else math.log(max(base, _TINY))
    found: Tensor = torch.exp(exponent * logarithm)  # type: ignore[arg-type]  # a tensor, as one factor is
    return found


def log_of_sum(one: Tensor, other: Tensor) -> Tensor:
    """log(e^a + e^b); at least one of the two is finite."""
    larger = torch.maximum(one, other)
    return larger + (torch.exp(one - larger) + torch.exp(other - larger)).log()
