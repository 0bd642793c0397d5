"""Attacks, as compositions of shared parts."""

from collections.abc import Callable
from functools import partial
from typing import Any

from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.base import Attack, AttackResult, Progress, Snapshot, Step, Trace, run
from popskipjump.attacks.border import Border
from popskipjump.attacks.boundary import BoundaryAttack
from popskipjump.attacks.directions.adaptive.active_bounds import ActiveBounds
from popskipjump.attacks.directions.adaptive.count import GainOptimalCount
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.directions.adaptive.radius import AdaptiveRadius
from popskipjump.attacks.directions.adaptive.rival_weights import RivalWeights
from popskipjump.attacks.directions.adaptive.spectrum_prior import SpectrumPrior
from popskipjump.attacks.directions.count import DirectionCount
from popskipjump.attacks.directions.far import FarMode
from popskipjump.attacks.directions.gain import MeasuredGain
from popskipjump.attacks.directions.monte_carlo import DistanceSpread, LineSpread, MonteCarlo, TrueDirection
from popskipjump.attacks.hop_skip_jump import HopSkipJump
from popskipjump.attacks.pop_skip_jump import PopSkipJump
from popskipjump.attacks.problem import Problem
from popskipjump.attacks.protocols import Acceptance, Direction, Restart, Search, Start, StepRule
from popskipjump.attacks.quick_skip_jump import QuickSkipJump
from popskipjump.attacks.retry import Retry
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.searches.bisection import BinarySearch
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.settle import Settle, set_aside
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.patterns import PatternStart
from popskipjump.attacks.starts.propose import (
    CheckedPool,
    FromPool,
    Pool,
    find_starts,
    from_noise,
    majority_adversarial,
)
from popskipjump.attacks.starts.restart import NoRestart, RestartIfLost
from popskipjump.attacks.steps.arc import ArcStep
from popskipjump.attacks.steps.straight import FullStep, HalvingStep
from popskipjump.sigmoid import Grid

ATTACKS: dict[str, Callable[[], Any]] = {
    "psj": PopSkipJump,
    "qsj": QuickSkipJump,
    "hsj": HopSkipJump,
    "boundary": BoundaryAttack,
    "psj-true-gradient": partial(PopSkipJump, true_gradient=True),
}

PARTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        GivenStart,
        PatternStart,
        NoRestart,
        RestartIfLost,
        BinarySearch,
        BayesianSearch,
        WarmStartedSearch,
        MonteCarlo,
        LineSpread,
        DistanceSpread,
        DirectionCount,
        TrueDirection,
        AdaptiveDirections,
        AdaptiveRadius,
        GainOptimalCount,
        SpectrumPrior,
        ActiveBounds,
        RivalWeights,
        FarMode,
        MeasuredGain,
        FullStep,
        HalvingStep,
        ArcStep,
        UnlessFaint,
        AcceptIfNearer,
        Grid,
    )
}
"""Every part by its kind: what the specification of a run may name."""

__all__ = [
    "ATTACKS",
    "PARTS",
    "AcceptIfNearer",
    "Acceptance",
    "ActiveBounds",
    "AdaptiveDirections",
    "AdaptiveRadius",
    "ArcStep",
    "Attack",
    "AttackResult",
    "BayesianSearch",
    "BinarySearch",
    "Border",
    "BoundaryAttack",
    "CheckedPool",
    "Direction",
    "DirectionCount",
    "DistanceSpread",
    "FarMode",
    "FromPool",
    "FullStep",
    "GainOptimalCount",
    "GivenStart",
    "HalvingStep",
    "HopSkipJump",
    "LineSpread",
    "MeasuredGain",
    "MonteCarlo",
    "NoRestart",
    "PatternStart",
    "Pool",
    "PopSkipJump",
    "Problem",
    "Progress",
    "QuickSkipJump",
    "Restart",
    "RestartIfLost",
    "Retry",
    "RivalWeights",
    "Search",
    "Settle",
    "Snapshot",
    "SpectrumPrior",
    "Start",
    "Step",
    "StepRule",
    "Trace",
    "TrueDirection",
    "UnlessFaint",
    "WarmStartedSearch",
    "find_starts",
    "from_noise",
    "majority_adversarial",
    "run",
    "set_aside",
]
