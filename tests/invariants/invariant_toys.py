"""All attacks, a classifier whose answers do not depend on the batch, and an oracle that watches."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import Any

import torch
from present import present
from torch import Tensor

from popskipjump import BoundaryAttack, Classifier, HopSkipJump, Pool, PopSkipJump, QuickSkipJump, Report, evaluate
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.straight import FullStep
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.noise import Flip
from popskipjump.oracles import Ticket
from popskipjump.oracles.classifier import MAX_ROWS
from popskipjump.rng import Key, normal, uniform

ATTACKS: dict[str, AttackConfig | str] = {
    "psj": "psj",
    "hsj": "hsj",
    "qsj": "qsj",
    "qsj-other-parts": QuickSkipJump(
        start=GivenStart(), direction=AdaptiveDirections(learn_spectrum=False), acceptance=UnlessFaint()
    ),
    "qsj-straight": QuickSkipJump(step=FullStep(1.3), search=BayesianSearch(), restart=NoRestart()),
    "boundary": BoundaryAttack(proposals=20),
    "psj-true-gradient": "psj-true-gradient",
    "hsj-psj-radius": HopSkipJump(psj_radius=True),
    "psj-shrink": PopSkipJump(shrink_priors=True),
    "psj-5-per-step": PopSkipJump(per_step=5),
    "psj-5-spread": PopSkipJump(per_step=5, spread_over=0.9),
    "psj-map": PopSkipJump(estimate="map"),
    "psj-point": PopSkipJump(sample_size="point"),
    "psj-signal": PopSkipJump(sample_size="signal"),
    "psj-sample-size": PopSkipJump(acquisition="sample-size", resolution=12, slopes=4),
    "psj-paper": PopSkipJump(enlarge=1.5, baseline=False, sample_size="posterior", floors=((0.01, 0.1), (0.0, 0.0))),
}
SHAPE = (1, 4, 5)


class Linear:
    """Three classes by the largest of three linear logits, each computed on its row alone."""

    classes = 3
    device = torch.device("cpu")

    def __init__(self, dimension: int = 20, seed: int = 0) -> None:
        self.weights = normal(Key(seed).child("linear").roots(torch.arange(3)), dimension) / dimension**0.5
        self.offset = -self.weights.sum(dim=1) / 2  # all three meet in the middle of the cube

    def logits(self, points: Tensor) -> Tensor:
        flat = points.flatten(1)
        return torch.stack([(flat * w).sum(dim=1) + b for w, b in zip(self.weights, self.offset, strict=True)], dim=1)

    def labels(self, points: Tensor) -> Tensor:
        return self.logits(points).argmax(dim=1)

    def log_probs(self, points: Tensor) -> Tensor:
        return self.logits(points).log_softmax(dim=1)

    def margin_gradient(self, points: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
        others = self.logits(points).scatter(1, labels.unsqueeze(1), -torch.inf).argmax(dim=1)
        rival = others if targets is None else targets
        result: Tensor = (self.weights[rival] - self.weights[labels]).reshape(points.shape)
        return result


class Watch:
    """An oracle that counts the queries of every image and keeps the range of what it saw."""

    def __init__(self, oracle: Classifier) -> None:
        self.oracle, self.model = oracle, oracle.model
        self.count: Counter[int] = Counter()
        self.low, self.high = float("inf"), -float("inf")

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.count.update(ticket.image.tolist())
        self.low, self.high = min(self.low, float(points.min())), max(self.high, float(points.max()))
        return self.oracle.ask(points, ticket)


def images_of(count: int = 3, shape: tuple[int, ...] = SHAPE, seed: int = 5) -> Tensor:
    """Random images; every third value is at one of the bounds."""
    size = int(torch.tensor(shape).prod())
    values = uniform(Key(seed).child("images").roots(torch.arange(count)), size)
    values[:, ::6], values[:, 3::6] = 0.0, 1.0
    return values.reshape(count, *shape)


def setting(
    norm: str = "l2",
    targeted: bool = False,
    flip: float = 0.0,
    seed: int = 0,
    shape: tuple[int, ...] = SHAPE,
    count: int = 3,
    max_rows: int = MAX_ROWS,
) -> tuple[Watch, tuple[Tensor, Tensor], dict[str, Any]]:
    """An oracle, and the arguments of `evaluate` that go with it."""
    size = int(torch.tensor(shape).prod())
    model = Linear(size)
    images = images_of(count, shape)
    labels = model.labels(images)
    options: dict[str, Any] = {"norm": norm, "seed": seed, "iterations": 2, "verdict": 10}
    if targeted:
        others = uniform(Key(9).roots(torch.arange(60)), size).reshape(60, *shape)
        options |= {"targets": (labels + 1) % 3, "starts": Pool(others, model.labels(others))}
    watch = Watch(Classifier(model, Flip(flip) if flip else None, seed, max_rows))
    return watch, (images, labels), options


@lru_cache(maxsize=256)
def watched(
    attack: str, norm: str = "l2", targeted: bool = False, flip: float = 0.0, seed: int = 0
) -> tuple[Report, Watch]:
    """One run, shared by the tests that only look at it."""
    watch, data, options = setting(norm, targeted, flip, seed)
    return evaluate(watch, *data, ATTACKS[attack], **options), watch


def parts(report: Report, row: int | None = None) -> dict[str, bytes]:
    """Everything that a report says of an image (or of all), as bytes."""
    rows = slice(None) if row is None else slice(row, row + 1)
    trace = report.trace
    values = {
        "points": torch.from_numpy(report.points)[rows],
        "distances": torch.from_numpy(report.distances)[rows],
        "queries": torch.from_numpy(report.queries)[rows],
        **{f"phase {phase}": torch.from_numpy(count)[rows] for phase, count in report.queries_by_phase.items()},
        **{
            f"trace {name}": getattr(trace, name)[:, rows].clone()
            for name in ("distance", "queries", "points", "centre", "slope", "low", "high", "gap")
        },
        "verdict": torch.stack([v.double()[rows] for v in present(report.verdict)]),
    }
    if report.border_distances is not None:
        values["border distances"] = torch.from_numpy(report.border_distances)[rows]
    found = {name: value.contiguous().numpy().tobytes() for name, value in values.items() if bool((value != 0).any())}
    return found | {"status": str([s.name for s in report.status[rows]]).encode()}


def digest(report: Report) -> str:
    """A fingerprint of everything that a report says."""
    text = hashlib.sha256()
    for name, value in sorted(parts(report).items()):
        text.update(name.encode() + value)
    return text.hexdigest()
