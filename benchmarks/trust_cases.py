"""The cases of `trust.py`: a classifier, images, an attack, and how the truth of a returned point is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from common import correct_images, embedded_pool
from large import POOL, TUNING, problem_of
from torch import Tensor

import popskipjump as psj
from popskipjump.noise import noise_of
from popskipjump.rng import Key, normal, uniform

DIMENSIONS = (2, 3, 30, 100, 784)
NOISELESS = (("qsj", 300), ("qsj", 1000), ("psj", 1500), ("hsj", 1000), ("boundary", 1000))
NOISES = ("flip:0.1", "flip:0.25", "logit:1", "smoothing:0.2", "dropout:0.5")
NOISY = (("qsj", 1000), ("qsj", 4000), ("psj", 4000))
FIRST_DRAWS, DRAWS = 500, 5000  # fresh answers at a point; the second where the first leave doubt
DOUBT = 0.15  # about 1/2: five standard deviations of 500 answers are 0.11


@dataclass(frozen=True)
class Inputs:
    """What `evaluate` is given."""

    model: Any
    images: Any  # (n, *S)
    labels: Any  # (n,)
    starts: Any = None
    targets: Any = None


@dataclass(frozen=True)
class Case:
    """One row of images, or a block of it, and everything that identifies it."""

    section: str
    name: str
    attack: str
    budget: int
    block: int  # blocks of the same row hold different images
    make: Callable[[], Inputs]
    noise: str | None = None
    norm: str = "l2"

    def run(self, inputs: Inputs) -> psj.Report:
        """The report of the attack."""
        return psj.evaluate(
            inputs.model, inputs.images, inputs.labels, self.attack, self.noise, self.norm, budget=self.budget,
            starts=inputs.starts, targets=inputs.targets, seed=self.block, keep_trace=False,
        )  # fmt: skip

    def adversarial(self, inputs: Inputs, report: psj.Report) -> np.ndarray:
        """The truth: without noise each point is asked alone; with noise the majority's class decides: bool `(n,)`."""
        goal = torch.as_tensor(np.asarray(inputs.labels if inputs.targets is None else inputs.targets))
        points = torch.from_numpy(report.points)
        if self.noise is None:
            labels = torch.cat([labels_of(inputs.model, point[None]) for point in points])
            return np.asarray(((labels == goal) if inputs.targets is not None else (labels != goal)).numpy())
        return np.asarray(right_answers(inputs.model, self.noise, points, goal) < 0.5)


def labels_of(model: Any, points: Tensor) -> Tensor:
    """Noiseless labels, not counted."""
    if hasattr(model, "labels"):
        return torch.as_tensor(model.labels(points))
    return torch.as_tensor(np.asarray(model.predict(points.numpy())))


def right_answers(model: Any, noise: str, points: Tensor, labels: Tensor) -> np.ndarray:
    """P(true class) at each point: exact where the noise has exact probabilities, else from fresh answers: `(n,)`."""
    truth: Any = noise_of(noise)
    rows = torch.arange(len(points))
    first = truth.truth(model, points, draws=FIRST_DRAWS).probabilities[rows, labels].numpy()
    doubtful = np.abs(first - 0.5) < DOUBT
    if doubtful.any():
        again = truth.truth(model, points[doubtful], draws=DRAWS, key=Key(77)).probabilities
        first[doubtful] = again[torch.arange(int(doubtful.sum())), labels[doubtful]].numpy()
    return np.asarray(first)


def _plane(d: int, count: int, block: int, targeted: bool) -> Inputs:
    points = uniform(Key(block).child("plane").roots(torch.arange(count)), d)
    weight = normal(Key(2).roots(torch.tensor([d])), d)[0]
    plane = psj.Plane(weight, float(weight.sum()) / 2)
    labels = plane.labels(points)
    return Inputs(plane, points, labels, targets=1 - labels if targeted else None)


def _sphere(d: int, count: int, block: int, targeted: bool) -> Inputs:
    """Untargeted from the inside; targeted from the outside, from where the border is concave."""
    points = uniform(Key(block).child("sphere").roots(torch.arange(4 * count)), d)
    sphere = psj.Sphere(torch.full((d,), 0.5), float((points - 0.5).norm(dim=1).median()))
    inside = sphere.labels(points) == 0
    chosen = points[~inside if targeted else inside][:count]
    labels = sphere.labels(chosen)
    starts = psj.Pool(points[inside], sphere.labels(points[inside])) if targeted else None
    return Inputs(sphere, chosen, labels, starts, 1 - labels if targeted else None)


def mnist(count: int, block: int, targeted: bool = False) -> Inputs:
    """The embedded net; targets are the class after the true one."""
    images, labels = correct_images(count, first=block * count)
    targets = (labels + 1) % 10 if targeted else None
    return Inputs(psj.TorchModel(psj.zoo.mnist_model()), images, labels, embedded_pool(), targets)


@lru_cache(maxsize=1)
def _network() -> Any:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    return MLPClassifier((64,), max_iter=60, random_state=0).fit(images, labels), images, labels


def _sklearn(count: int, block: int, targeted: bool) -> Inputs:
    net, images, labels = _network()
    right = np.flatnonzero(net.predict(images) == labels)[block * count : (block + 1) * count]
    targets = (labels[right] + 1) % 10 if targeted else None
    return Inputs(net, images[right], labels[right], psj.Pool(images, labels), targets)


def noiseless(count: int, blocks: int) -> Iterator[Case]:
    """Every attack, norm and classifier, targeted and not."""
    kinds: list[tuple[str, Any]] = [(f"plane {d}", (_plane, d)) for d in DIMENSIONS]
    kinds += [(f"sphere {d}", (_sphere, d)) for d in DIMENSIONS]
    kinds += [("MNIST net", (mnist,)), ("scikit-learn net", (_sklearn,))]
    for block in range(blocks):
        for attack, budget in NOISELESS:
            for norm in ("l2", "linf"):
                for name, (of, *d) in kinds:
                    for targeted in (False, True):

                        def make(of: Any = of, d: Any = d, block: int = block, targeted: bool = targeted) -> Inputs:
                            result: Inputs = of(*d, count, block, targeted)
                            return result

                        title = f"{name}, {norm}{', targeted' if targeted else ''}"
                        yield Case("noiseless", title, attack, budget, block, make, norm=norm)


def noisy(count: int, blocks: int) -> Iterator[Case]:
    """Every noise on the embedded net, block by block, so that an unfinished run has something of every row."""
    for block in range(blocks):
        for noise in NOISES:
            for attack, budget in NOISY:
                yield Case("noisy", noise, attack, budget, block, lambda block=block: mnist(count, block), noise)  # type: ignore[misc]


def large(count: int, budget: int) -> Iterator[Case]:
    """Photographs of 224 x 224 from given starts, which the table compares with the results."""

    def make() -> Inputs:
        problem = problem_of(None, False, tuple(TUNING)[:count])
        pool = problem.starts
        if pool is None:
            raise SystemExit(f"no starting points: images {POOL} of the data")
        place = [int((torch.as_tensor(pool.labels) != label).nonzero()[row % 8]) for row, label in
                 enumerate(problem.labels)]  # fmt: skip
        return Inputs(problem.model, problem.images, problem.labels, torch.as_tensor(pool.images)[place])

    for attack in ("qsj", "psj", "hsj"):
        yield Case("large", "photographs", attack, budget, 0, make)


def failing(run: int) -> tuple[Any, Tensor, Tensor]:
    """A plane of which 0.5% of the calls fail, one image and its label."""
    calls = [0]
    fails = uniform(Key(run).child("fails").root(), 20_000) < 0.005
    plane = psj.Plane(torch.ones(20), 10.0)

    def ask(batch: np.ndarray) -> np.ndarray:
        calls[0] += 1
        if bool(fails.flatten()[calls[0]]):
            raise TimeoutError("no answer")
        return plane.labels(torch.from_numpy(batch)).numpy()

    image = uniform(Key(run).root(), 20).reshape(1, 20) * 0.8
    return ask, image, plane.labels(image)
