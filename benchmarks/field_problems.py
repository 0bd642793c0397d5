"""Problems of the leaderboard beside those of `query_problems`: tables, robust nets, targets and L-infinity."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from query_problems import Problem, data_folder, digits, photographs

import popskipjump as psj
from popskipjump.rng import Key, uniform

TABLES = ("breast_cancer", "wine", "digits", "phishing")
CLASSIFIERS = ("forest", "SVM", "MLP")


def targeted(problem: Problem) -> Problem:
    """To the class after the true one."""
    return replace(problem, name=f"{problem.name}, targeted", targets=(problem.labels + 1) % 10)


def linf(problem: Problem) -> Problem:
    """By L-infinity."""
    return replace(problem, name=f"{problem.name}, L-infinity", norm="linf")


def flat(count: int) -> Problem:
    """A plane whose normal is a checker pattern, at a distance of 1 from every image, reached from far starts."""
    side = 12
    signs = 1 - 2 * (torch.arange(side) % 2).to(torch.float32)
    unit = (signs.unsqueeze(1) * signs).flatten() / side
    images, starts = (uniform(Key(seed).roots(torch.arange(size)), side**2) for seed, size in ((5, count), (6, 50)))
    images = 0.3 + 0.4 * images
    images = images - ((images @ unit) + 1).unsqueeze(1) * unit  # at -1 on the normal, and the plane at 0
    starts = (starts - ((starts @ unit) - 0.05).unsqueeze(1) * unit).clamp(0, 1)
    plane = psj.Plane(unit, 0.0)
    shape = (1, side, side)
    starts = starts[plane.labels(starts) == 1].reshape(-1, *shape)
    pool = psj.Pool(starts, torch.ones(len(starts), dtype=torch.int64))
    images, ones = images.reshape(-1, *shape), torch.ones(count, dtype=torch.int64)
    return Problem("plane, far", "noise", plane, plane, None, images, 0 * ones, pool, None, targets=ones)


@lru_cache(maxsize=1)
def robust_nets() -> Any:
    """The module of the folder `robust` of the data that is not part of the repository."""
    place = data_folder() / "robust" / "robust_nets.py"
    spec = importlib.util.spec_from_file_location("robust_nets", place)
    if not place.is_file() or spec is None or spec.loader is None:
        raise SystemExit(f"skipped: no {place.name} in the folder robust of the data")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trades(count: int) -> Problem:
    """An MNIST net of adversarial training (TRADES, L-infinity 0.3)."""
    return digits("MNIST net of TRADES", robust_nets().make_trades_mnist(), None, count, 0)


def provable(count: int) -> Problem:
    """A CIFAR-10 net that is provably robust in L2."""
    return photographs("provably robust CIFAR-10 net", robust_nets().make_provable_cifar_l2(), None, count, 0)


def table(data: str, model: str, count: int) -> Problem:
    """A table, scaled to [0, 1], and a classifier of scikit-learn; attacked are the first rows that it gets right."""
    try:
        from sklearn import ensemble, neural_network, svm
    except ImportError as error:
        raise SystemExit("skipped: the tables need scikit-learn") from error
    values, classes = read_table(data)
    low, high = values.min(axis=0), values.max(axis=0)
    x = ((values - low) / np.where(high > low, high - low, 1)).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], classes[order].astype(np.int64)
    half = len(x) * 7 // 10
    made = {
        "forest": lambda: ensemble.RandomForestClassifier(100, random_state=0),
        "SVM": lambda: svm.SVC(C=10),
        "MLP": lambda: neural_network.MLPClassifier((64,), max_iter=1000, random_state=0),
    }[model]().fit(x[:half], y[:half])
    function = psj.FunctionModel(lambda points: made.predict(points).astype(np.int64))
    right = np.flatnonzero(made.predict(x[half:]) == y[half:])[:count] + half
    inputs, labels = torch.from_numpy(x[right]), torch.from_numpy(y[right])
    pool = psj.Pool(torch.from_numpy(x[:half]), torch.from_numpy(y[:half]))
    which = f"the first {len(right)} rows of the test part that are classified correctly"
    return Problem(f"{data}, {model}", which, function, function, None, inputs, labels, pool, None)


def read_table(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes of a table of scikit-learn, or "phishing" of the package river."""
    if data != "phishing":
        from sklearn import datasets

        loaded = getattr(datasets, f"load_{data}")()
        return loaded.data, loaded.target
    found = importlib.util.find_spec("river")
    if found is None or found.origin is None:
        raise SystemExit("skipped: the table phishing is a file of the package river")
    with gzip.open(Path(found.origin).parent / "datasets" / "phishing.csv.gz", "rt") as file:
        rows = np.array(list(csv.reader(file))[1:], dtype=np.float64)
    return rows[:, :-1], rows[:, -1]
