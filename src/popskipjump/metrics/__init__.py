"""What an attack achieved: distances, accuracy, summaries, and a verdict from answers alone."""

from popskipjump.metrics.accuracy import adversarial_accuracy
from popskipjump.metrics.distance import border_distance
from popskipjump.metrics.summary import Summary, paper_unit, summarise
from popskipjump.metrics.verdict import Verdict, verdict_of, wilson_interval

__all__ = [
    "Summary",
    "Verdict",
    "adversarial_accuracy",
    "border_distance",
    "paper_unit",
    "summarise",
    "verdict_of",
    "wilson_interval",
]
