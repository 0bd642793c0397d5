"""The settle phase: a sequential test confirms the point that an attack returns, and moves it outward if necessary."""

from popskipjump.attacks.settle.ending import Ending, conclude
from popskipjump.attacks.settle.evidence import log_evidence
from popskipjump.attacks.settle.lines import Line, Lines
from popskipjump.attacks.settle.phase import Settle, Settled
from popskipjump.attacks.settle.reserve import release, set_aside

__all__ = ["Ending", "Line", "Lines", "Settle", "Settled", "conclude", "log_evidence", "release", "set_aside"]
