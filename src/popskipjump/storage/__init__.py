"""Persistent runs: the specification of a run, and the folder that stores its results."""

from popskipjump.storage.attack_spec import AttackSpec
from popskipjump.storage.database import Database, ImageResult
from popskipjump.storage.folder import RunFolder, RunInfo, info, list_runs, read_spec
from popskipjump.storage.journal import Journal
from popskipjump.storage.journalled import Journalled
from popskipjump.storage.spec import SCHEMA, RunSpec

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
