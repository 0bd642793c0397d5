"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from popskipjump.errors import UnknownNameError
from popskipjump.experiments.reproduce.accuracy import AdversarialAccuracy
from popskipjump.experiments.reproduce.base import Experiment
from popskipjump.experiments.reproduce.cosine import Cosine
from popskipjump.experiments.reproduce.levels import NoiseLevel, NoiseLevelComplete
from popskipjump.experiments.reproduce.noise_model import NoiseModel
from popskipjump.experiments.reproduce.radius import Radius
from popskipjump.experiments.reproduce.sample_factor import SampleFactor
from popskipjump.experiments.reproduce.sigmoids import Sigmoids
from popskipjump.experiments.reproduce.tables import Table1, Table2, Table3
from popskipjump.experiments.reproduce.timing import Acceleration, QueriesAndTime
from popskipjump.experiments.reproduce.votes import VotesRatio
from popskipjump.experiments.reproduce.white_box import WhiteBox

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
