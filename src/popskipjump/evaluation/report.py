"""What an evaluation found, and how it reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Trace
from popskipjump.geometry import Norm
from popskipjump.metrics import Verdict, border_distance, summarise
from popskipjump.oracles import WhiteBox
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


@dataclass(frozen=True, eq=False)
class Report:
    """The outcome for B images; arrays are NumPy, on the CPU, in the order of the images."""

    points: np.ndarray  # (B, *S) float32: on the adversarial side with confidence; the image itself without a result
    distances: np.ndarray  # (B,) float64, of the points; inf without a result
    queries: np.ndarray  # (B,) int64, everything that was asked, the verdict included
    queries_by_phase: dict[str, np.ndarray]  # phase -> (B,) int64
    status: list[Status]
    messages: dict[int, str]  # row -> what the classifier did, where it failed
    border_distances: np.ndarray | None  # (B,) float64, on the noiseless classifier; None without a white box
    verdict: Verdict | None  # P(adversarial) of each point from fresh queries; None if not asked for
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
        for points in self.trace.points:
            there = points.reshape(original.shape)
            distance = border_distance(
                self.white_box, original, there, labels, self.norm, bounds=self.bounds, targets=targets
            )
            rows.append(distance.numpy())
        return np.stack(rows)

    @property
    def attack_queries(self) -> np.ndarray:
        """Queries without those of the verdict: `(B,)`."""
        verdict = self.queries_by_phase.get("verdict")
        return self.queries if verdict is None else self.queries - verdict

    def __str__(self) -> str:
        lines = [f"{self.title}: {len(self.status)} images"]
        counts = Counter(self.status)
        lines += [f"  {count:5d}  {status.name}: {status.value}" for status, count in counts.most_common()]
        attacked = np.array([s.has_point and s is not Status.MISCLASSIFIED for s in self.status], dtype=bool)
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
            p = np.asarray(self.verdict.probability)[attacked]
            low = np.asarray(self.verdict.low)[attacked]
            lines.append(
                f"  verdict: P(adversarial) median {np.nanmedian(p):.2f} on {int(self.verdict.queries.max())}"
                f" fresh queries; above 1/2 with 95% confidence for {int((low > 0.5).sum())} of {int(attacked.sum())}"
            )
        return lines
