"""Runs that last: what a run is, and the folder that keeps its results."""

from popskipjump.storage.database import Database, ImageResult
from popskipjump.storage.folder import RunFolder, RunInfo, info, list_runs, read_spec
from popskipjump.storage.journal import Journal, Journalled
from popskipjump.storage.spec import SCHEMA, AttackSpec, RunSpec

__all__ = [
    "SCHEMA",
    "AttackSpec",
    "Database",
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
