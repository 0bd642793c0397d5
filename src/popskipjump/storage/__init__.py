"""Runs that last: what a run is, and the folder that keeps its results."""

from popskipjump.storage.database import ImageResult
from popskipjump.storage.folder import RESULTS, RunFolder, RunInfo, info, list_runs, read_spec
from popskipjump.storage.journal import Journal, Journalled
from popskipjump.storage.spec import SCHEMA, AttackSpec, RunSpec

__all__ = [
    "RESULTS",
    "SCHEMA",
    "AttackSpec",
    "ImageResult",
    "Journal",
    "Journalled",
    "RunFolder",
    "RunInfo",
    "RunSpec",
    "info",
    "list_runs",
    "read_spec",
]
