"""Attacks, as compositions of shared parts."""

from collections.abc import Callable
from functools import partial
from typing import Any

from popskipjump.attacks.base import Attack, AttackResult, Progress, Step, Trace, run
from popskipjump.attacks.border import Advance, Border, Direction, Locate
from popskipjump.attacks.boundary import BoundaryAttack
from popskipjump.attacks.hop_skip_jump import HopSkipJump
from popskipjump.attacks.parts.direction import Count
from popskipjump.attacks.parts.start import Pool, find_starts, from_noise, from_pool, majority_adversarial
from popskipjump.attacks.pop_skip_jump import PopSkipJump
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.quick_skip_jump import QuickSkipJump

ATTACKS: dict[str, Callable[[], Any]] = {
    "psj": PopSkipJump,
    "qsj": QuickSkipJump,
    "hsj": HopSkipJump,
    "boundary": BoundaryAttack,
    "psj-true-gradient": partial(PopSkipJump, true_gradient=True),
}

__all__ = [
    "ATTACKS",
    "Advance",
    "Attack",
    "AttackResult",
    "Border",
    "BoundaryAttack",
    "Count",
    "Direction",
    "HopSkipJump",
    "Locate",
    "Pool",
    "PopSkipJump",
    "Problem",
    "Progress",
    "QuickSkipJump",
    "Step",
    "Trace",
    "find_starts",
    "from_noise",
    "from_pool",
    "majority_adversarial",
    "run",
]
