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
        Count,
        HopSkipJump,
        Pool,
        PopSkipJump,
        QuickSkipJump,
    )
    from popskipjump.errors import (
        BudgetError,
        BusyRunError,
        DamagedRunError,
        DataError,
        InputError,
        MissingExtraError,
        NotARunError,
        OracleError,
        PopSkipJumpError,
        StorageError,
        UnknownNameError,
    )
    from popskipjump.evaluation import (
        Report,
        evaluate,
    )
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
    from popskipjump.types import (
        Bounds,
        Status,
    )

__version__ = "0.1.0"

_HOMES = {
    "attacks": (
        "BoundaryAttack",
        "Count",
        "HopSkipJump",
        "Pool",
        "PopSkipJump",
        "QuickSkipJump",
    ),
    "errors": (
        "BudgetError",
        "BusyRunError",
        "DamagedRunError",
        "DataError",
        "InputError",
        "MissingExtraError",
        "NotARunError",
        "OracleError",
        "PopSkipJumpError",
        "StorageError",
        "UnknownNameError",
    ),
    "evaluation": (
        "Report",
        "evaluate",
    ),
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
    "types": (
        "Bounds",
        "Status",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("noise", "zoo")

__all__ = [
    "BoundaryAttack",
    "Bounds",
    "BudgetError",
    "BusyRunError",
    "Classifier",
    "Count",
    "DamagedRunError",
    "DataError",
    "FunctionModel",
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
    "Sphere",
    "Status",
    "StorageError",
    "Ticket",
    "TorchModel",
    "UnknownNameError",
    "evaluate",
    "noise",
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
