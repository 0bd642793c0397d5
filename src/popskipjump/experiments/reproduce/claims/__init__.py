"""Checkable sentences of the paper, each with the rule of its verdict, written down before the runs that decide it."""

from popskipjump.experiments.reproduce.claims.rules import Claim, Comparison, Judged, Verdict, judge, verdict_on
from popskipjump.experiments.reproduce.claims.sentences import CLAIMS

__all__ = ["CLAIMS", "Claim", "Comparison", "Judged", "Verdict", "judge", "verdict_on"]
