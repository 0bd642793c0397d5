"""Questions about a classifier, each answered with its uncertainty: in words, as JSON and as a page."""

from popskipjump.questions.answer import save
from popskipjump.questions.card import card
from popskipjump.questions.certify import certified_radius, certify
from popskipjump.questions.check import check
from popskipjump.questions.compare import compare
from popskipjump.questions.curve import curve_of, robust_accuracy
from popskipjump.questions.gate import gate

__all__ = [
    "card",
    "certified_radius",
    "certify",
    "check",
    "compare",
    "curve_of",
    "gate",
    "robust_accuracy",
    "save",
]
