"""Foolbox: our attacks for its users, and its white-box attacks for comparison.

`PopSkipJumpAttack` and `QuickSkipJumpAttack` need Foolbox when they are imported; nothing else here does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from popskipjump.integrations.foolbox.white_box import EXTRA, PACKAGES, require, white_box_attacks

if TYPE_CHECKING:
    from popskipjump.integrations.foolbox.attacks import PopSkipJumpAttack, QuickSkipJumpAttack

__all__ = ["EXTRA", "PACKAGES", "PopSkipJumpAttack", "QuickSkipJumpAttack", "require", "white_box_attacks"]


def __getattr__(name: str) -> Any:
    """Import the attacks, and Foolbox with them, when they are asked for (PEP 562)."""
    if name in ("PopSkipJumpAttack", "QuickSkipJumpAttack"):
        from popskipjump.integrations.foolbox import attacks

        return getattr(attacks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
