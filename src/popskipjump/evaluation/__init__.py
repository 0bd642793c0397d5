"""The one-call surface: `evaluate` and its `Report`."""

from popskipjump.evaluation.evaluate import evaluate
from popskipjump.evaluation.report import Report

__all__ = ["Report", "evaluate"]
