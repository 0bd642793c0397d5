"""Classifiers behind a URL: an oracle for inference servers, and a server to try it on."""

from popskipjump.integrations.http.address import is_url
from popskipjump.integrations.http.endpoint import Endpoint
from popskipjump.integrations.http.engine import OverlappingEngine
from popskipjump.integrations.http.outcomes import NoAnswerError, Outcome, Patience, Tally
from popskipjump.integrations.http.overlap import evaluate_overlapped
from popskipjump.integrations.http.plain import PlainJson

__all__ = [
    "Endpoint",
    "NoAnswerError",
    "Outcome",
    "OverlappingEngine",
    "Patience",
    "PlainJson",
    "Tally",
    "evaluate_overlapped",
    "is_url",
]
