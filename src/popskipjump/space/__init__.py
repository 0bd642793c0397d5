"""The space of allowed changes: bounds, scales, immutable features, integers and categories."""

from popskipjump.space.chart import Chart
from popskipjump.space.oracle import SpaceOracle
from popskipjump.space.space import Space

__all__ = ["Chart", "Space", "SpaceOracle"]
