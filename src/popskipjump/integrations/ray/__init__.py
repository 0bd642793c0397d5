"""Runs on Ray: images attacked by many processes, on one machine or a cluster, into one run's folder."""

from popskipjump.integrations.ray.engine import RayEngine

__all__ = ["RayEngine"]
