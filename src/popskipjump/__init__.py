"""Measure the robustness of any classifier, noisy ones included, from its labels alone.

The public names are imported at their first use, so that `import popskipjump` and `psj --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popskipjump import noise, zoo
    from popskipjump.attacks import (
        BoundaryAttack,
        DirectionCount,
        HopSkipJump,
        Pool,
        PopSkipJump,
        QuickSkipJump,
        Retry,
        Settle,
    )
    from popskipjump.errors import (
        AssumptionError,
        BudgetError,
        BusyRunError,
        DamagedRunError,
        DataError,
        EngineError,
        InputError,
        MissingExtraError,
        NotARunError,
        OracleError,
        PopSkipJumpError,
        StorageError,
        UnknownNameError,
    )
    from popskipjump.evaluation import (
        Hooks,
        Report,
        evaluate,
    )
    from popskipjump.integrations.http import Endpoint
    from popskipjump.memory import keep_memory
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
        threads,
    )
    from popskipjump.questions.card import card
    from popskipjump.questions.certify import certify
    from popskipjump.questions.check import check
    from popskipjump.questions.compare import compare
    from popskipjump.questions.curve import curve_of, robust_accuracy
    from popskipjump.questions.gate import gate
    from popskipjump.runs.opening import load
    from popskipjump.space import Space
    from popskipjump.types import (
        Bounds,
        Status,
    )

__version__ = "0.1.0"

_HOMES = {
    "attacks": (
        "BoundaryAttack",
        "DirectionCount",
        "HopSkipJump",
        "Pool",
        "PopSkipJump",
        "QuickSkipJump",
        "Retry",
        "Settle",
    ),
    "errors": (
        "AssumptionError",
        "BudgetError",
        "BusyRunError",
        "DamagedRunError",
        "DataError",
        "EngineError",
        "InputError",
        "MissingExtraError",
        "NotARunError",
        "OracleError",
        "PopSkipJumpError",
        "StorageError",
        "UnknownNameError",
    ),
    "evaluation": (
        "Hooks",
        "Report",
        "evaluate",
    ),
    "integrations.http": ("Endpoint",),
    "memory": ("keep_memory",),
    "oracles": (
        "Classifier",
        "FunctionModel",
        "Oracle",
        "PlanarSigmoid",
        "Plane",
        "Recorded",
        "Replay",
        "Sphere",
        "Ticket",
        "TorchModel",
        "threads",
    ),
    "runs.opening": ("load",),
    "space": ("Space",),
    "questions": ("card", "certify", "check", "compare", "curve_of", "gate", "robust_accuracy"),
    "types": (
        "Bounds",
        "Status",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("noise", "zoo")

__all__ = [
    "AssumptionError",
    "BoundaryAttack",
    "Bounds",
    "BudgetError",
    "BusyRunError",
    "Classifier",
    "DamagedRunError",
    "DataError",
    "DirectionCount",
    "Endpoint",
    "EngineError",
    "FunctionModel",
    "Hooks",
    "HopSkipJump",
    "InputError",
    "MissingExtraError",
    "NotARunError",
    "Oracle",
    "OracleError",
    "PlanarSigmoid",
    "Plane",
    "Pool",
    "PopSkipJump",
    "PopSkipJumpError",
    "QuickSkipJump",
    "Recorded",
    "Replay",
    "Report",
    "Retry",
    "Settle",
    "Space",
    "Sphere",
    "Status",
    "StorageError",
    "Ticket",
    "TorchModel",
    "UnknownNameError",
    "card",
    "certify",
    "check",
    "compare",
    "curve_of",
    "evaluate",
    "gate",
    "keep_memory",
    "load",
    "noise",
    "robust_accuracy",
    "threads",
    "zoo",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for (PEP 562)."""
    if name in _MODULES:
        return import_module(f"popskipjump.{name}")
    if name in _HOME_OF:
        return getattr(import_module(f"popskipjump.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
