"""Runs that last: what a run is, and the folder that keeps its results."""

from popskipjump.storage.spec import SCHEMA, AttackSpec, RunSpec

__all__ = ["SCHEMA", "AttackSpec", "RunSpec"]
