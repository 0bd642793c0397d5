"""Oracles: classifiers that are queried for labels, and wrappers that count, vote, record and replay."""

from popskipjump.oracles.analytic import PlanarSigmoid, Plane, Sphere
from popskipjump.oracles.base import Oracle, Ticket, WhiteBox, device_of
from popskipjump.oracles.classifier import BaseModel, Classifier, FunctionModel, NoiseModel, TorchModel
from popskipjump.oracles.criteria import Criterion, Targeted, Untargeted
from popskipjump.oracles.ledger import UNLIMITED, Counted, Ledger
from popskipjump.oracles.limit import TimeLimit
from popskipjump.oracles.speed import FastForward, threads
from popskipjump.oracles.wrappers import MajorityVote, Recorded, Replay

__all__ = [
    "UNLIMITED",
    "BaseModel",
    "Classifier",
    "Counted",
    "Criterion",
    "FastForward",
    "FunctionModel",
    "Ledger",
    "MajorityVote",
    "NoiseModel",
    "Oracle",
    "PlanarSigmoid",
    "Plane",
    "Recorded",
    "Replay",
    "Sphere",
    "Targeted",
    "Ticket",
    "TimeLimit",
    "TorchModel",
    "Untargeted",
    "WhiteBox",
    "device_of",
    "threads",
]
