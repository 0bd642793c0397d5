"""What an attack achieved: distances, accuracy, summaries, and a verdict from answers alone."""

from popskipjump.metrics.accuracy import adversarial_accuracy
from popskipjump.metrics.curve import Curve, curve_over_queries
from popskipjump.metrics.distance import border_distance
from popskipjump.metrics.summary import Summary, paper_unit, summarise
from popskipjump.metrics.verdict import Verdict, verdict_of, wilson_interval

__all__ = [
    "Curve",
    "Summary",
    "Verdict",
    "adversarial_accuracy",
    "border_distance",
    "curve_over_queries",
    "paper_unit",
    "summarise",
    "verdict_of",
    "wilson_interval",
]
