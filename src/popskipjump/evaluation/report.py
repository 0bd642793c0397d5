"""`Report`: the result of an evaluation, and its text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from popskipjump.adapters.pandas import frame_of
from popskipjump.attacks import Trace
from popskipjump.evaluation import views
from popskipjump.geometry import Norm
from popskipjump.metrics import MajorityBorder, Verdict, border_distance, majority_border, summarise
from popskipjump.oracles import BaseModel, NoiseModel, WhiteBox
from popskipjump.oracles.modes import evaluation_mode
from popskipjump.sigmoid import Estimate
from popskipjump.types import Bounds, Status


class Probes(NamedTuple):
    """What the last search of each image asked at P places of its line, evenly spaced, and what it was answered."""

    position: np.ndarray  # (P,) float64, 0 = the adversarial end
    asked: np.ndarray  # (B, P) int64, decisions
    adversarial: np.ndarray  # (B, P) int64, of those

    @classmethod
    def of(cls, probes: Tensor) -> Probes:
        """From counts `(B, 2, P)`; the places are the middles of P cells (see `Grid.askable`)."""
        places = probes.shape[2]
        return cls((np.arange(places) + 0.5) / places, probes[:, 0].numpy(), probes[:, 1].numpy())


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The outcome for B images, on the CPU and in the order of the images.

    Arrays are NumPy. The parts of `verdict`, `sigmoid` and `trace` are torch tensors, which NumPy's functions take too.
    """

    points: np.ndarray  # (B, *S) float32, as they were asked last; the image itself without a result
    distances: np.ndarray  # (B,) float64, of the points; inf without a result
    walked: np.ndarray  # (B,) float64, the same before the settle phase: what it added is the difference
    success: np.ndarray  # (B,) bool, whether the point is confirmed to be adversarial more often than not
    adversarial_labels: np.ndarray  # (B,) int64, the class answered most often at the point; -1 where it is not known
    queries: np.ndarray  # (B,) int64, everything that was asked, the settle phase and the verdict included
    queries_by_phase: dict[str, np.ndarray]  # phase -> (B,) int64
    status: list[Status]
    messages: dict[int, str]  # row -> what the classifier did, where it failed
    warnings: list[str]  # what a user should know beyond the statuses
    border_distances: np.ndarray | None  # (B,) float64, on the noiseless classifier; None without a white box
    verdict: Verdict | None  # P(adversarial) of each point, from the settle phase or, if asked for, from fresh queries
    sigmoid: Estimate | None  # (B,) mean a posteriori of the last search lines; None for attacks without one
    probes: Probes | None  # of the last search lines, what `sigmoid` was fitted to; None likewise
    trace: Trace
    images: np.ndarray  # (B, *S) float32
    labels: np.ndarray  # (B,) int64
    targets: np.ndarray | None  # (B,) int64
    norm: Norm
    bounds: Bounds
    title: str  # attack and noise, in words
    white_box: WhiteBox | None

    def border_trace(self) -> np.ndarray:
        """Border distance after every iteration, on the noiseless classifier: `(T + 1, B)`; nothing is counted."""
        if self.white_box is None or self.trace.points is None:
            raise ValueError("a border trace needs a white box and keep_trace=True.")
        original = torch.from_numpy(self.images)
        labels = torch.from_numpy(self.labels)
        targets = None if self.targets is None else torch.from_numpy(self.targets)
        rows = []
        with evaluation_mode(self.white_box):
            for points in self.trace.points:
                there = points.reshape(original.shape)
                distance = border_distance(
                    self.white_box, original, there, labels, self.norm, bounds=self.bounds, targets=targets
                )
                rows.append(distance.numpy())
        return np.stack(rows)

    def majority_border(self, noise: str | NoiseModel | None, draws: int = 2048) -> MajorityBorder:
        """Distance of each image to the border of the noisy classifier's majority, on the rays that the attack found.

        Under noise that moves the border (cropping, smoothing, dropout), this is what the attack looked for; it is
        exact where the noise model has exact probabilities, else a Monte Carlo estimate with an interval. No query is
        counted.

        Args:
            noise: the noise of the evaluation.
            draws: sampled answers at one place at most, where they are needed.
        """
        if self.white_box is None:
            raise ValueError("the majority's border needs a model that can be asked without counting: a white box.")
        targets = None if self.targets is None else torch.from_numpy(self.targets)
        images, points, labels = (torch.from_numpy(array) for array in (self.images, self.points, self.labels))
        model = cast(BaseModel, self.white_box)  # what has labels and gradients is a model
        with evaluation_mode(model):
            return majority_border(
                model, noise, images, points, labels, self.norm, bounds=self.bounds, targets=targets, draws=draws
            )

    @property
    def attack_queries(self) -> np.ndarray:
        """Queries without those of the verdict: `(B,)`."""
        verdict = self.queries_by_phase.get("verdict")
        return self.queries if verdict is None else self.queries - verdict

    def __len__(self) -> int:
        return len(self.status)

    def __repr__(self) -> str:
        return views.short(self)

    def _repr_html_(self) -> str:
        return views.table(self)

    def summary(self) -> dict[str, Any]:
        """The report in a few numbers: counts, medians, the share of confirmed points; ready for JSON."""
        return views.summary(self)

    def to_pandas(self) -> Any:
        """One row per image as a pandas frame; needs `pip install "popskipjump[pandas]"`."""
        return frame_of(views.columns(self))

    def save(self, path: str | Path) -> Path:
        """Write everything but the white box to one npz file, without pickle; `psj.load` reads it."""
        from popskipjump.evaluation.saved import save

        return save(self, path)

    def plot(self, kind: str = "images", **options: Any) -> Any:
        """A matplotlib figure: "images" (original, point, difference), "curves" or "sigmoids"; `path=` saves it."""
        return views.drawn("plot", self, kind=kind, **options)

    def to_html(self, path: str | Path | None = None) -> str:
        """One page of HTML with all numbers and pictures, which needs nothing else; `path` also writes it."""
        return str(views.drawn("to_html", self, path=path))

    def __str__(self) -> str:
        lines = [views.confirmed(self)]
        lines += [f"  WARNING: {warning}" for warning in self.warnings]
        counts = Counter(self.status)
        lines += [f"  {count:5d}  {status.name}: {status.value}" for status, count in counts.most_common()]
        at_once = np.array([s is Status.MISCLASSIFIED for s in self.status], dtype=bool)
        attacked = np.isfinite(self.distances) & ~at_once
        if attacked.any():
            lines += self._numbers(attacked)
        lines += [f"  image {row}: {message}" for row, message in sorted(self.messages.items())[:5]]
        return "\n".join(lines)

    def _numbers(self, attacked: np.ndarray) -> list[str]:
        """Medians over the attacked images, with 40th and 60th percentiles."""
        norm = self.norm.name.upper()
        rows = [(f"{norm} distance of the points", self.distances)]
        if self.border_distances is not None:
            rows.append((f"{norm} border distance (noiseless classifier)", self.border_distances))
        lines = []
        for name, values in rows:
            s = summarise(values[attacked])
            lines.append(f"  {name}: median {s.median:.4g} [{s.low:.4g} to {s.high:.4g}]")
        s = summarise(self.attack_queries[attacked])
        lines.append(f"  queries per image: median {s.median:,.0f} [{s.low:,.0f} to {s.high:,.0f}]")
        phases = {p: np.median(q[attacked]) for p, q in self.queries_by_phase.items()}
        lines.append("  median queries by phase: " + ", ".join(f"{p} {q:,.0f}" for p, q in phases.items()))
        if self.verdict is not None and int(self.verdict.queries.max()):
            fresh = " fresh" if "verdict" in self.queries_by_phase else ""
            p = np.asarray(self.verdict.probability)[attacked]
            low = np.asarray(self.verdict.low)[attacked]
            lines.append(
                f"  verdict: P(adversarial) median {np.nanmedian(p):.2f} on up to {int(self.verdict.queries.max())}"
                f"{fresh} queries; above 1/2 with 95% confidence for {int((low > 0.5).sum())} of {int(attacked.sum())}"
            )
        return lines
