"""Measure the robustness of any classifier, noisy ones included, from its labels alone."""

from popskipjump import noise, zoo
from popskipjump.attacks import BoundaryAttack, Count, HopSkipJump, Pool, PopSkipJump
from popskipjump.errors import (
    BudgetError,
    DataError,
    InputError,
    MissingExtraError,
    OracleError,
    PopSkipJumpError,
    UnknownNameError,
)
from popskipjump.evaluation import Report, evaluate
from popskipjump.oracles import (
    Classifier,
    FunctionModel,
    Oracle,
    PlanarSigmoid,
    Plane,
    Recorded,
    Replay,
    Sphere,
    Ticket,
    TorchModel,
)
from popskipjump.types import Bounds, Status

__version__ = "0.1.0"

__all__ = [
    "BoundaryAttack",
    "Bounds",
    "BudgetError",
    "Classifier",
    "Count",
    "DataError",
    "FunctionModel",
    "HopSkipJump",
    "InputError",
    "MissingExtraError",
    "Oracle",
    "OracleError",
    "PlanarSigmoid",
    "Plane",
    "Pool",
    "PopSkipJump",
    "PopSkipJumpError",
    "Recorded",
    "Replay",
    "Report",
    "Sphere",
    "Status",
    "Ticket",
    "TorchModel",
    "UnknownNameError",
    "evaluate",
    "noise",
    "zoo",
]
