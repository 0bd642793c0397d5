"""Metrics of an attack's result: distances, adversarial accuracy, summaries, and a verdict from answers alone."""

from popskipjump.metrics.accuracy import adversarial_accuracy
from popskipjump.metrics.curve import Curve, curve_over_queries
from popskipjump.metrics.distance import border_distance
from popskipjump.metrics.majority import MajorityBorder, MajorityClassifier, majority_border
from popskipjump.metrics.noise_seen import Seen, noise_warnings, transition_width
from popskipjump.metrics.summary import Summary, paper_unit, summarise
from popskipjump.metrics.verdict import Verdict, anytime_interval, verdict_anytime, verdict_of, wilson_interval

__all__ = [
    "Curve",
    "MajorityBorder",
    "MajorityClassifier",
    "Seen",
    "Summary",
    "Verdict",
    "adversarial_accuracy",
    "anytime_interval",
    "border_distance",
    "curve_over_queries",
    "majority_border",
    "noise_warnings",
    "paper_unit",
    "summarise",
    "transition_width",
    "verdict_anytime",
    "verdict_of",
    "wilson_interval",
]
