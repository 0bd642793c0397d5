"""Classifiers whose noise is known, built from a seed: for `check`, which must not know them. Imported by the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

D, IMAGES = 24, 6
KINDS = (
    "deterministic",
    "cached flips",
    "flips",
    "logit sampling",
    "smoothing",
    "dropout",
    "drifting border",
    "drifting rate",
    "rejections",
    "cached sampling",
)
Logits = Callable[[np.ndarray], np.ndarray]  # (M, D) -> (M, K)


@dataclass
class Case:
    """A classifier, images of its own, and the truth about its noise."""

    name: str
    kind: str  # as `check` names it
    model: Callable[[np.ndarray], np.ndarray]
    images: torch.Tensor  # (B, D)
    labels: torch.Tensor  # (B,)
    true_share: Callable[[np.ndarray, int], np.ndarray]  # points (M, D), label -> P(another label) (M,)

    @property
    def noise_at_images(self) -> float:
        """Mean probability of a wrong answer at the images."""
        pairs = zip(self.images.numpy(), self.labels.tolist(), strict=True)
        return float(np.mean([self.true_share(image[None], label)[0] for image, label in pairs]))

    def width(self, row: int, end: torch.Tensor) -> float:
        """L2 distance from a quarter to three quarters of the way between the noise at both ends of a line."""
        image, place = self.images[row].numpy(), np.linspace(0, 1, 201)
        points = image + place[:, None] * (end.numpy() - image)
        share = self.true_share(points.astype(np.float32), int(self.labels[row]))
        # Monte Carlo shares are rough: take the middle between the monotone curves above and below them.
        share = (np.maximum.accumulate(share) + np.minimum.accumulate(share[::-1])[::-1]) / 2
        low, high = share[0], share[-1]
        first, last = (float(np.interp(low + part * (high - low), share, place)) for part in (0.25, 0.75))
        return (last - first) * float(np.linalg.norm(end.numpy() - image))


def _network(rng: np.random.Generator, classes: int) -> Logits:
    """A random network of one hidden layer with logits of useful size."""
    first, bias = rng.normal(size=(D, 40)) / np.sqrt(D), rng.normal(size=40) * 0.3
    second = rng.normal(size=(40, classes))
    scale = rng.uniform(8, 20)

    def logits(batch: np.ndarray) -> np.ndarray:
        hidden = np.tanh(3 * ((batch.reshape(len(batch), -1) - 0.5) @ first) + bias)
        out = hidden @ second
        return np.asarray(scale * (out - out.mean(axis=1, keepdims=True)) / np.sqrt(40))

    return logits


def _images(rng: np.random.Generator, logits: Logits, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Images that the network is sure of, of two classes at least."""
    points = rng.uniform(0, 1, size=(6000, D)).astype(np.float32)
    points[3000:] = np.round(points[3000:])
    out = logits(points)
    ordered = np.sort(out, axis=1)
    sure = np.flatnonzero(ordered[:, -1] - ordered[:, -2] > margin)
    labels = out.argmax(axis=1)
    usual = [sure[labels[sure] == label][: IMAGES // 2] for label in np.unique(labels[sure])]
    chosen = np.concatenate(sorted(usual, key=len)[-3:])[-IMAGES:]
    return torch.from_numpy(points[chosen]), torch.from_numpy(labels[chosen])


def _softmax(values: np.ndarray) -> np.ndarray:
    grown = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def _drawn(rng: np.random.Generator, p: np.ndarray) -> np.ndarray:
    return np.asarray((p.cumsum(axis=1) < rng.uniform(size=(len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1))


def _flipped(rng: np.random.Generator, labels: np.ndarray, rate: Any, classes: int) -> np.ndarray:
    other = (labels + rng.integers(1, classes, size=len(labels))) % classes
    return np.where(rng.uniform(size=len(labels)) < rate, other, labels)


def _seeded(point: np.ndarray) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(blake2b(point.tobytes(), digest_size=8).digest(), "little"))


def _monte_carlo(draw: Callable[[np.ndarray], np.ndarray], times: int = 300) -> Callable[[np.ndarray, int], np.ndarray]:
    def share(points: np.ndarray, label: int) -> np.ndarray:
        return np.asarray(np.mean([draw(points) != label for _ in range(times)], axis=0))

    return share


def classifiers(seeds: Iterable[int]) -> Iterator[Case]:
    """One classifier for each seed, the kinds in turn."""
    for seed in seeds:
        yield _case(seed)


def _case(seed: int) -> Case:
    rng = np.random.default_rng([2026, seed])
    name = KINDS[seed % len(KINDS)]
    classes = int(rng.integers(2, 8))
    logits = _network(rng, classes)
    images, labels = _images(rng, logits, margin=4.0)
    rate = float(rng.uniform(0.01, 0.4))

    def step(points: np.ndarray, label: int) -> np.ndarray:
        return np.asarray((logits(points).argmax(axis=1) != label).astype(float))

    def plain(batch: np.ndarray) -> np.ndarray:
        return np.asarray(logits(batch).argmax(axis=1))

    def case(kind: str, model: Callable[[np.ndarray], np.ndarray], share: Any, detail: float = 0.0) -> Case:
        return Case(f"{name} {detail:.2f}", kind, model, images, labels, share)

    if name == "deterministic":
        return case("deterministic", plain, step)
    if name == "flips":
        flips = lambda points, label: rate + (1 - rate * classes / (classes - 1)) * step(points, label)  # noqa: E731
        return case("constant", lambda b: _flipped(rng, plain(b), rate, classes), flips, rate)
    if name.startswith("cached"):
        rate = max(rate, 0.05)

        def cached(batch: np.ndarray) -> np.ndarray:
            if name == "cached flips":
                return np.array([_flipped(_seeded(p), plain(p[None]), rate, classes)[0] for p in batch])
            return np.array([_drawn(_seeded(p), _softmax(logits(p[None])))[0] for p in batch])

        return case("cached", cached, step, rate)
    if name == "logit sampling":
        heat = float(rng.uniform(0.5, 2))
        share = lambda points, label: 1 - _softmax(logits(points) / heat)[:, label]  # noqa: E731
        return case("growing", lambda b: _drawn(rng, _softmax(logits(b) / heat)), share, heat)
    if name == "smoothing":
        sigma = float(rng.uniform(0.03, 0.15))
        smooth = lambda b: plain(b + sigma * rng.normal(size=b.shape))  # noqa: E731
        return case("growing", smooth, _monte_carlo(smooth), sigma)
    if name == "dropout":
        drop = float(rng.uniform(0.05, 0.2))
        thinned = lambda b: plain(0.5 + (b - 0.5) * (rng.uniform(size=b.shape) > drop))  # noqa: E731
        return case("growing", thinned, _monte_carlo(thinned), drop)
    return _changing(name, rng, logits, classes, case, step)


def _changing(
    name: str, rng: np.random.Generator, logits: Logits, classes: int, case: Callable[..., Case], step: Any
) -> Case:
    """Classifiers that drift or reject."""
    asked = [0]
    speed = float(rng.uniform(0.05, 0.15))
    direction = rng.choice([-1.0, 1.0], size=D)

    def drifting_border(batch: np.ndarray) -> np.ndarray:
        asked[0] += len(batch)
        moved = batch + speed * min(asked[0] / (500 * IMAGES), 1.0) * direction
        return np.asarray(logits(moved).argmax(axis=1))

    def drifting_rate(batch: np.ndarray) -> np.ndarray:
        asked[0] += len(batch)
        rate = 0.02 + 0.3 * min(asked[0] / (500 * IMAGES), 1.0)
        return _flipped(rng, logits(batch).argmax(axis=1), rate, classes)

    share = float(rng.uniform(0.03, 0.3))

    def rejecting(batch: np.ndarray) -> np.ndarray:
        if len(batch) and _seeded(np.round(batch[0], 2)).uniform() < share:
            raise ValueError("this input is not accepted")
        return np.asarray(logits(batch).argmax(axis=1))

    if name == "drifting border":
        return case("drifting", drifting_border, step, speed)
    if name == "drifting rate":
        return case("drifting", drifting_rate, step)
    return case("rejecting", rejecting, step, share)
