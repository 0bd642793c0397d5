"""Every table and figure of the paper, each with the claim that it tests."""

from popskipjump.experiments.reproduce.base import Evidence, Experiment, Finding, Setup, Table
from popskipjump.experiments.reproduce.presets import DECIDE, DEFAULT, PAPER, QUICK, Size
from popskipjump.experiments.reproduce.registry import ALL, EXPERIMENTS, experiments_of

__all__ = [
    "ALL",
    "DECIDE",
    "DEFAULT",
    "EXPERIMENTS",
    "PAPER",
    "QUICK",
    "Evidence",
    "Experiment",
    "Finding",
    "Setup",
    "Size",
    "Table",
    "experiments_of",
]
