"""Reserve: queries of the budget that a walk leaves for the settle phase."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from popskipjump.attacks.border import Border
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.settle.evidence import information
from popskipjump.attacks.settle.lines import is_sharp

_FEWEST, _MOST = 30, 400  # limits of the reserve: a sharp border needs 8 queries, a gradual one far more
_PATIENT = 0.1  # of the budget, on a gradual border: a place nearer to it can then be confirmed
_CONFIRMED = math.log(125)  # log-evidence that confirms the first position
_GRADUAL = 0.68  # P(adversarial) at the position where a gradual border is confirmed
_SPARE = 2.5  # factor on the expected number of queries
_ASTRAY = 500.0  # further queries per unit of contrast lost to noise: points are wrong more often, and by more
_NOISELESS = 0.06  # contrast that seems lost without noise, because few answers cannot exclude it


def set_aside(problem: Problem, border: Border | None = None) -> None:
    """Reserve queries for the settle phase: a fixed number before the first border, later what each border needs.

    The reserve is at most a quarter of the budget; for small budgets it may be up to 12 queries, at most a third.
    """
    ledger = problem.ledger
    if ledger.budget is None:
        return
    least = torch.minimum(torch.full_like(ledger.budget, 12), ledger.budget // 3)
    most = torch.maximum(ledger.budget // 4, least)
    if border is None:
        ledger.reserved = problem.verdict + most.clamp(max=_FEWEST)
    elif isinstance(ledger.reserved, Tensor):
        rows = border.rows
        needed = _needed(border, ledger.budget[rows])
        ledger.reserved[rows] = problem.verdict + torch.minimum(needed, most[rows])


def _needed(border: Border, budget: Tensor) -> Tensor:
    """Queries that confirm a point on this border, with a margin: budgets `(A,)` -> int64 `(A,)`."""
    if border.estimate is None:
        return torch.full_like(border.rows, _FEWEST)
    estimate = border.estimate
    far = 1 - estimate.low
    probability = torch.where(is_sharp(border), far, far.clamp(max=_GRADUAL)).clamp(min=0.51)
    queries = _SPARE * _CONFIRMED / information(probability) + _ASTRAY * (estimate.lost - _NOISELESS).clamp(min=0.0)
    patient = torch.where(is_sharp(border), 0.0, _PATIENT * budget)
    return torch.maximum(queries, patient).clamp(_FEWEST, _MOST).to(torch.int64)


def release(problem: Problem) -> None:
    """Release the reserve for the settle phase."""
    problem.ledger.reserved = problem.verdict
