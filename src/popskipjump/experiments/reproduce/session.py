"""A reproduction session: experiments by name, their runs, and their output folders."""

from __future__ import annotations

import os
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
from popskipjump.experiments.reproduce.study import MEASURED, Job, Study, found_runs, make
from popskipjump.runs.collect import RunProgress
from popskipjump.runs.engine import Engine


class Outcome(NamedTuple):
    """What became of an experiment."""

    experiment: Experiment
    headline: str  # what the figure shows, in one line
    finding: Finding
    folder: Path


class Hooks(NamedTuple):
    """What a progress bar wants to hear."""

    on_job: Callable[[Job], None]  # a run begins
    on_queries: Callable[[int], None]  # so many were asked
    on_progress: Callable[[RunProgress], None]  # of the run
    on_experiment: Callable[[Experiment], None]  # its runs are done


def reproduce(
    study: Study,
    experiments: Sequence[Experiment],
    jobs: Sequence[Job],
    out: Path,
    command: str,
    white_box: Mapping[str, WhiteBoxAttack],
    hooks: Hooks,
    engine: Engine | None = None,
) -> Iterator[Outcome]:
    """Make the runs that are missing, and write the folder of each experiment as soon as it has its own.

    Args:
        study: what is attacked.
        experiments: in the order in which they are written.
        jobs: the runs that are missing; see `still_to_do`.
        out: where to.
        command: what the user typed.
        white_box: attacks for the experiments that need them.
        hooks: for a progress bar.
        engine: where images are attacked; see `collect`.
    """
    left = list(jobs)
    for experiment in experiments:
        needed = {ask.way for ask in experiment.plan(study.setup)}
        for job in [job for job in left if job.way in needed]:
            hooks.on_job(job)
            make(study, job, out, hooks.on_queries, hooks.on_progress, engine)
            left.remove(job)
        hooks.on_experiment(experiment)
        evidence = evidence_of(study, experiment, out, white_box)
        folder = out / experiment.name
        finding = write_experiment(folder, experiment, evidence, origin_of(study, command))
        yield Outcome(experiment, experiment.headline(evidence), finding, folder)


def evidence_of(study: Study, experiment: Experiment, out: Path, white_box: Mapping[str, WhiteBoxAttack]) -> Evidence:
    """The runs of an experiment, all of which have been made, and what it measures besides, once."""
    runs = found_runs(study, experiment, out)
    place = out / MEASURED / f"{experiment.name}-{study.digest(experiment)}.npz"
    measured = load_arrays(place)
    if measured is None:
        measured = experiment.measure(study.lab(white_box), runs)
        if measured:
            save_arrays(place, measured)
    return Evidence(study.setup, runs, measured)


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
        machine=f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores",
        versions=versions,
    )
