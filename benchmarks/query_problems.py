"""The problems of `queries.py`, with the images that it may report on, and their white-box distances."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import embedded_pool
from torch import Tensor

import popskipjump as psj
from popskipjump.metrics import border_distance
from popskipjump.noise import KnownNoise, Smoothing, noise_of
from popskipjump.rng import Key, normal, uniform

DATA = "POPSKIPJUMP_DATA"
HELD_OUT = (
    "Reserved for tuning, and not reported: embedded images from number 500 on, CIFAR-10 images from number 400 on."
)
_FIRST_TUNED = {"mnist": 500, "cifar": 400}
_DRAWS = 200  # answers to a point, for the one that is given most often
_MEAN = 64  # draws of the noise whose mean a white-box attack sees


@dataclass(frozen=True, eq=False)
class Problem:
    """Images to attack on a classifier; equal to itself alone."""

    name: str
    which: str  # images
    model: Any  # what `evaluate` takes
    white_box: Any  # noiseless labels, for border distances
    module: torch.nn.Module | None  # for white-box attacks
    images: Tensor  # (B, *S)
    labels: Tensor  # (B,)
    starts: psj.Pool | None
    noise: str | None
    norm: str = "l2"
    targets: Tensor | None = None  # (B,)


Measure = Callable[[Problem, Tensor], np.ndarray]  # points (B, *S) -> distances (B,) of the borders on their rays


def border(problem: Problem, points: Tensor) -> np.ndarray:
    """Of the noiseless classifier: `(B, *S)` -> `(B,)`."""
    distance = border_distance(
        problem.white_box, problem.images, points, problem.labels, problem.norm, targets=problem.targets
    )
    return distance.double().numpy()


def nothing(problem: Problem) -> float:
    """The log-distance of an image without a point: as far as the corners of the cube are apart."""
    return 0.5 * math.log(problem.images[0].numel()) if problem.norm == "l2" else 0.0


def log_distances(problem: Problem, points: Tensor, reached: Tensor, measure: Measure = border) -> np.ndarray:
    """On the rays of points `(B, d)`, finite also where an attack has no point (`reached`, `(B,)`): `(B,)`."""
    distance = measure(problem, points.reshape(problem.images.shape))
    known = np.isfinite(distance) & (distance > 0) & np.isfinite(reached.numpy())
    return np.where(known, np.log(np.where(known, distance, 1.0)), nothing(problem))


def usual_border(problem: Problem, points: Tensor) -> np.ndarray:
    """Of the noisy classifier, by the label that it gives most often: `(B, *S)` -> `(B,)`."""
    usual: Any = _Usual(problem)
    return border_distance(usual, problem.images, points, problem.labels, steps=16, bisections=7).double().numpy()


class _Usual:
    """A noisy classifier's most frequent labels, as those of a white box."""

    def __init__(self, problem: Problem) -> None:
        noise = noise_of(problem.noise)
        if not isinstance(noise, KnownNoise):
            raise SystemExit(f"{problem.noise} has no labels in the long run")
        self.model, self.noise = problem.model, noise

    def labels(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> int64 `(M,)`."""
        return self.noise.truth(self.model, points, _DRAWS).probabilities.argmax(dim=1)


@lru_cache(maxsize=32)
def mnist(noise: str | None, count: int, first: int = 0) -> Problem:
    """The embedded net and the first images, from number `first` on, that it takes for what they are."""
    return digits("MNIST CNN", psj.zoo.mnist_model(), noise, count, first)


@lru_cache(maxsize=8)
def plain(noise: str | None, count: int) -> Problem:
    """The same images and layers, trained as most would: plain gradient descent for ten epochs, less sure of itself."""
    return digits("MNIST CNN by plain descent", _descended(), noise, count, 0)


def digits(name: str, module: torch.nn.Module, noise: str | None, count: int, first: int) -> Problem:
    """A net and the first embedded images, from number `first` on, that it takes for what they are."""
    reserved = _FIRST_TUNED["mnist"]
    x, y = (torch.from_numpy(values[first:]) for values in psj.zoo.mnist_images(reserved if first < reserved else None))
    with torch.no_grad():
        right = (module(x).argmax(dim=1) == y).nonzero().flatten()[:count]
    if len(right) < count:
        raise SystemExit(_too_many("mnist", count, first))
    model = psj.TorchModel(module, optimize=True)
    which = _which("embedded ones", count, first)
    title = f"{name}, {noise or 'no noise'}"
    return Problem(title, which, model, model, module, x[right], y[right], embedded_pool(), noise)


@lru_cache(maxsize=1)
def _descended() -> torch.nn.Module:
    """Trained on the 60,000 images in the folder `mnist` of the data that is not part of the repository: 2 minutes."""
    try:
        x, y = (torch.from_numpy(values) for values in psj.zoo.read_mnist(data_folder() / "mnist", "train"))
    except psj.DataError as error:
        raise SystemExit(f"skipped: {error}") from error
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of the weights, and of dropout
        net = psj.zoo.MnistCnn()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
        for _ in range(10):
            for part in torch.randperm(len(x), generator=generator).split(64):
                _learn(net, optimizer, x[part], y[part])
    return net.eval()


def data_folder() -> Path:
    """The folder of what is not part of the repository."""
    folder = os.environ.get(DATA)
    if not folder or not Path(folder).is_dir():
        raise SystemExit(
            f"skipped: set {DATA} to a folder with mnist, cifar10_resnet20.safetensors and cifar10_test_*.npz"
        )
    return Path(folder)


def _which(images: str, count: int, first: int) -> str:
    """What a page says of its images."""
    return (
        f"the first {count} {images}"
        + (f", from number {first} on," if first else "")
        + " that are classified correctly"
    )


def _too_many(data: str, count: int, first: int) -> str:
    """What to say of more images than there are, before those for tuning or among them."""
    if first >= _FIRST_TUNED[data]:
        return f"there are no {count} images from number {first} on"
    return f"{count} images reach into those used for tuning, from number {_FIRST_TUNED[data]} on"


def for_tuning(data: str, noise: str | None, count: int, targeted: bool = False) -> Problem:
    """Images that no report uses, of "mnist" or "cifar"; targets are the next class."""
    problem = {"mnist": mnist, "cifar": cifar}[data](noise, count, _FIRST_TUNED[data])
    return _to_next_class(problem) if targeted else problem


@lru_cache(maxsize=8)
def cifar(noise: str | None, count: int, first: int = 0) -> Problem:
    """ResNet-20 and CIFAR-10 images, from number `first` on, of a folder that is not part of the repository."""
    weights = data_folder() / "cifar10_resnet20.safetensors"
    if not weights.is_file():
        raise SystemExit(f"skipped: no cifar10_resnet20.safetensors in the folder of {DATA}")
    module = psj.zoo.load_weights(psj.zoo.ResNet20Cifar(), weights).eval()
    return photographs("CIFAR-10 ResNet-20", module, noise, count, first)


def photographs(name: str, module: torch.nn.Module, noise: str | None, count: int, first: int) -> Problem:
    """A net and the first CIFAR-10 images, from number `first` on, that it takes for what they are."""
    files = sorted(data_folder().glob("cifar10_test_*.npz"))
    if not files:
        raise SystemExit(f"skipped: no cifar10_test_*.npz in the folder of {DATA}")
    x, y = (torch.as_tensor(values) for values in psj.zoo.read_npz(files[0]))
    model = psj.TorchModel(module, optimize=True)
    with torch.no_grad():
        right = torch.cat([module(part).argmax(dim=1) for part in torch.split(x, 256)]) == y
    right[:first] = False
    chosen = right.nonzero().flatten()[:count]
    if len(chosen) < count or (first < _FIRST_TUNED["cifar"] <= int(chosen[-1])):
        raise SystemExit(_too_many("cifar", count, first))
    title = f"{name}, {noise or 'no noise'}"
    which = _which("test images", count, first)
    return Problem(title, which, model, model, module, x[chosen], y[chosen], psj.Pool(x, y), noise)


@lru_cache(maxsize=8)
def linear(dimension: int, count: int, noise: str | None = "flip:0.1") -> Problem:
    """A plane through the middle of the cube with a random normal, and random images: nothing to exploit."""
    unit = normal(Key(1).root(), dimension)[0]
    plane = psj.Plane(unit, float(unit.sum() / 2))
    images = uniform(Key(2).roots(torch.arange(count)), dimension)
    name = f"linear, d = {dimension:,}, {noise or 'no noise'}"
    return Problem(name, "uniform noise", plane, plane, None, images, plane.labels(images), None, noise)


def other_ways(count: int) -> list[Problem]:
    """Planes, with starting points that must be guessed; another norm and targets on MNIST."""
    planes = [linear(5, count, None), linear(100, count, None), linear(100, count, "flip:0.25")]
    return planes + [way for noise in (None, "flip:0.1") for way in _norm_and_targets(mnist(noise, count))]


def other_ways_cifar(count: int) -> list[Problem]:
    """Another norm and targets on CIFAR-10."""
    return _norm_and_targets(cifar(None, count))


def _norm_and_targets(problem: Problem) -> list[Problem]:
    """By L-infinity, and to the class after the true one."""
    return [
        replace(problem, name=f"{problem.name}, L-infinity", norm="linf"),
        _to_next_class(problem),
    ]


def _to_next_class(problem: Problem) -> Problem:
    return replace(problem, name=f"{problem.name}, targeted", targets=(problem.labels + 1) % 10)


def elsewhere(count: int) -> list[Problem]:
    """Classifiers of other kinds, never looked at in tuning: a perceptron, a nearest neighbour, rules, a spectrum."""
    x, y = (torch.from_numpy(values) for values in psj.zoo.mnist_images(_FIRST_TUNED["mnist"]))
    seen, unseen = slice(0, 400), slice(400, None)
    net = _perceptron(x[seen], y[seen])
    generator = np.random.default_rng(0)
    table, signals = (generator.random((400, size)).astype(np.float32) for size in (20, 128))

    def nearest(points: np.ndarray) -> np.ndarray:
        distance = torch.cdist(torch.as_tensor(points).flatten(1), x[seen].flatten(1))
        return y[seen][distance.argmin(dim=1)].numpy()

    def rules(points: np.ndarray) -> np.ndarray:
        return ((points[:, 0] > 0.6) & (points[:, 3] < 0.5) | (points[:, 7] > 0.8)).astype(np.int64)

    def tone(points: np.ndarray) -> np.ndarray:
        return (np.abs(np.fft.rfft(points)[:, 5]) > 3).astype(np.int64)

    digits = psj.Pool(x[seen], y[seen])
    problems = [
        _other("perceptron on MNIST", psj.TorchModel(net), x[unseen], y[unseen], digits, None, count),
        _other("perceptron on MNIST, flip:0.1", psj.TorchModel(net), x[unseen], y[unseen], digits, "flip:0.1", count),
        _other("nearest neighbour on MNIST", psj.FunctionModel(nearest), x[unseen], y[unseen], digits, None, count),
    ]
    for name, function, inputs in (("rules on 20 values", rules, table), ("a tone in 128 values", tone, signals)):
        labels = torch.from_numpy(function(inputs))
        points, none = torch.from_numpy(inputs), labels == 0
        pool = psj.Pool(points, labels)
        problems.append(_other(name, psj.FunctionModel(function), points[none], labels[none], pool, None, count))
    return problems


def _perceptron(x: Tensor, y: Tensor) -> torch.nn.Module:
    """784-128-10, trained for a few seconds."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(150):
        _learn(net, optimizer, x, y)
    return net.eval()


def _learn(net: torch.nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """One step of training."""
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _other(
    name: str, model: Any, inputs: Tensor, labels: Tensor, pool: psj.Pool, noise: str | None, count: int
) -> Problem:
    """A problem on the first inputs that are classified correctly."""
    right = (model.labels(inputs) == labels).nonzero().flatten()[:count]
    which = f"the first {len(right)} that are classified correctly"
    return Problem(name, which, model, model, None, inputs[right], labels[right], pool, noise)


@lru_cache(maxsize=8)
def floors(problem: Problem) -> tuple[np.ndarray | None, str]:
    """The nearest point of the white-box attacks that are installed, for each image `(B,)`; and which these were.

    Without any, None and why.
    """
    if problem.module is None:
        return None, "no net"
    try:
        fb: Any = importlib.import_module("foolbox")
    except ImportError as error:
        return None, f"Foolbox is not installed ({error})"
    model = fb.PyTorchModel(problem.module.eval(), bounds=(0, 1), device="cpu")
    _, points, found = fb.attacks.DDNAttack(steps=500)(model, problem.images, problem.labels, epsilons=None)
    best, which = _fooling_distance(problem, points), "DDN (500 steps)"
    try:
        from popskipjump.integrations.foolbox import l2_brendel_bethge, require

        require()
    except psj.MissingExtraError as error:
        return best.numpy(), f"{which} alone: {error}"
    starts = torch.where(found.reshape(-1, 1, 1, 1), points, _other_class(problem))
    second = l2_brendel_bethge(problem.module, problem.images, problem.labels, starts, 500)
    return torch.minimum(best, _fooling_distance(problem, second)).numpy(), f"the nearer of {which} and Brendel-Bethge"


def nearest_under_noise(problem: Problem) -> tuple[Tensor | None, str]:
    """Near points of the smoothed classifier by a white-box attack on the mean of many draws, `(B, *S)`; and which."""
    noise = noise_of(problem.noise)
    if problem.module is None or not isinstance(noise, Smoothing):
        return None, "no net with noise on its inputs"
    try:
        fb: Any = importlib.import_module("foolbox")
    except ImportError as error:
        return None, f"Foolbox is not installed ({error})"
    model = fb.PyTorchModel(_Mean(problem.module, noise.sigma).eval(), bounds=(0, 1), device="cpu")
    _, points, _ = fb.attacks.DDNAttack(steps=200)(model, problem.images, problem.labels, epsilons=None)
    return points, f"DDN (200 steps) on the mean of {_MEAN} draws"


class _Mean(torch.nn.Module):
    """The mean of a net's probabilities over draws of noise on its input, the same for all inputs."""

    def __init__(self, module: torch.nn.Module, sigma: float) -> None:
        super().__init__()
        self.module, self.sigma = module, sigma

    def forward(self, points: Tensor) -> Tensor:
        """`(M, *S)` -> `(M, K)` logarithms."""
        noise = normal(Key(3).roots(torch.arange(_MEAN)), points[0].numel()).reshape(_MEAN, *points.shape[1:])
        noisy = (points.unsqueeze(1) + self.sigma * noise).flatten(0, 1)
        chances = torch.softmax(self.module(noisy), dim=1)
        return chances.reshape(len(points), _MEAN, -1).mean(dim=1).clamp(min=1e-12).log()


def _fooling_distance(problem: Problem, points: Tensor) -> Tensor:
    """L2 distance of points that change the label, `(B, *S)` -> float64 `(B,)`; inf for those that do not."""
    if problem.module is None:
        raise SystemExit("no net to fool")
    with torch.no_grad():
        fooled = problem.module(points).argmax(dim=1) != problem.labels
    size = (points - problem.images).flatten(1).norm(dim=1)
    return torch.where(fooled, size, torch.inf).double()


def _other_class(problem: Problem) -> Tensor:
    """For each image one of another class: `(B, *S)`."""
    pool = problem.starts
    if pool is None:
        raise SystemExit("no images to start from")
    images: Tensor = pool.images
    return images[[int((pool.labels != label).nonzero()[0]) for label in problem.labels]]
