"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from popskipjump.errors import UnknownNameError
from popskipjump.experiments.reproduce.base import Experiment
from popskipjump.experiments.reproduce.figures.accuracy import AdversarialAccuracy
from popskipjump.experiments.reproduce.figures.cosine import Cosine
from popskipjump.experiments.reproduce.figures.levels import NoiseLevel, NoiseLevelComplete
from popskipjump.experiments.reproduce.figures.noise_model import NoiseModel
from popskipjump.experiments.reproduce.figures.radius import Radius
from popskipjump.experiments.reproduce.figures.sample_factor import SampleFactor
from popskipjump.experiments.reproduce.figures.sigmoids import Sigmoids
from popskipjump.experiments.reproduce.figures.tables import Table1, Table2, Table3
from popskipjump.experiments.reproduce.figures.timing import Acceleration, QueriesAndTime
from popskipjump.experiments.reproduce.figures.votes import VotesRatio
from popskipjump.experiments.reproduce.figures.white_box import WhiteBox

ALL = "all"
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Cosine(),
        Table1(),
        Table2(),
        Table3(),
        Radius(),
        AdversarialAccuracy(),
        NoiseLevel(),
        NoiseLevelComplete(),
        NoiseModel(),
        VotesRatio(),
        WhiteBox(),
        Sigmoids(),
        SampleFactor(),
        QueriesAndTime(),
        Acceleration(),
    )
}


def experiments_of(name: str) -> list[Experiment]:
    """The experiment of a name, or every one for "all"."""
    if name == ALL:
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise UnknownNameError("experiment", name, {ALL, *EXPERIMENTS})
    return [EXPERIMENTS[name]]
