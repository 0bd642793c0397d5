"""The high-level interface: `evaluate`, its `Hooks` and its `Report`."""

from popskipjump.evaluation.evaluate import evaluate
from popskipjump.evaluation.hooks import Hooks
from popskipjump.evaluation.report import Report

__all__ = ["Hooks", "Report", "evaluate"]
