"""From names of experiments to their folders."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch

from popskipjump import __version__
from popskipjump.experiments.reproduce.base import Evidence, Experiment, Finding, WhiteBoxAttack
from popskipjump.experiments.reproduce.pages import Origin, load_arrays, save_arrays, write_experiment
from popskipjump.experiments.reproduce.study import MEASURED, Study, found_runs


class Outcome(NamedTuple):
    """What became of an experiment."""

    experiment: Experiment
    finding: Finding
    folder: Path


def write_all(
    study: Study,
    experiments: Sequence[Experiment],
    out: Path,
    command: str,
    white_box: Mapping[str, WhiteBoxAttack],
    on_experiment: Callable[[Experiment], None],
) -> Iterator[Outcome]:
    """Write the folders of experiments whose runs have been made, one after another."""
    for experiment in experiments:
        on_experiment(experiment)
        runs = found_runs(study, experiment, out)
        place = out / MEASURED / f"{experiment.name}-{study.digest(experiment)}.npz"
        measured = load_arrays(place)
        if measured is None:
            measured = experiment.measure(study.lab(white_box), runs)
            if measured:
                save_arrays(place, measured)
        evidence = Evidence(study.setup, runs, measured)
        folder = out / experiment.name
        yield Outcome(experiment, write_experiment(folder, experiment, evidence, origin_of(study, command)), folder)


def origin_of(study: Study, command: str) -> Origin:
    """Where the numbers of a study come from."""
    versions = {
        "popskipjump": __version__,
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
        "NumPy": np.__version__,
        "Matplotlib": mpl.__version__,
    }
    return Origin(
        command=command,
        date=time.strftime("%Y-%m-%d"),
        seed=study.seed,
        preset=study.setup.size.name,
        dataset=study.source.dataset,
        model=study.source.model_name,
        versions=versions,
    )
