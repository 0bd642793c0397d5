"""Random crops, judged by the majority of all crops: PSJ sees single crops, HSJ attacks the majority itself.

python benchmarks/cropping.py --images 100 --sizes 26

Cropping moves the border: most answers are those of another classifier, the majority of all crops, whose
probabilities are exact. HSJ attacks that majority without noise. All distances are to the majority's border.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from common import command, correct_images, embedded_pool, header, markdown, save

import popskipjump as psj
from popskipjump.metrics import MajorityClassifier, majority_border

RESAMPLES, LEVEL = 2_000, 0.95


def median_ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """The ratio of two medians over the same images, with a bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(above), size=(RESAMPLES, len(above)))
    ratios = np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1)
    low, high = np.quantile(ratios, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(np.median(above) / np.median(below)), float(low), float(high)


def row_of(size: int, images: int, budget: int) -> list[object]:
    """Both attacks on the images that the majority of crops gets right."""
    noise = f"cropping:{size}"
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    majority = MajorityClassifier(model, noise)
    batch, labels = correct_images(2 * images)
    right = (majority.labels(torch.from_numpy(batch)) == torch.from_numpy(labels)).numpy()
    batch, labels = batch[right][:images], labels[right][:images]
    pool = embedded_pool()
    distances, asked = {}, {}
    for name, attacked, noisy in (("psj", model, noise), ("hsj", majority, None), ("qsj", model, noise)):
        report = psj.evaluate(attacked, batch, labels, name, noisy, starts=pool, budget=budget)
        original, points, truth = (torch.from_numpy(array) for array in (batch, report.points, labels))
        distances[name] = majority_border(model, noise, original, points, truth).distance.double().numpy()
        asked[name] = float(np.median(report.queries))
    known = np.isfinite(np.stack(list(distances.values()))).all(axis=0)
    shown = {name: np.median(values[known]) for name, values in distances.items()}
    cells = [f"{shown[name]:.3f} @ {asked[name]:,.0f}" for name in ("psj", "hsj", "qsj")]
    for name in ("psj", "qsj"):
        value, low, high = median_ratio(distances[name][known], distances["hsj"][known])
        cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return [size, int(known.sum()), *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[26, 22])
    parser.add_argument("--budget", type=int, default=13_000)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    columns = ["crop", "images", "PSJ, single crops", "HSJ, majority of all crops", "QSJ, single crops"]
    columns += ["PSJ / HSJ", "QSJ / HSJ"]
    with psj.threads(1):
        head = header("PSJ under random crops, beside HSJ on the majority of all crops", command())
        what = (
            "Median L2 distance to the majority's border @ median queries; ratios of medians, 95% bootstrap intervals."
        )
        rows = []
        for size in args.sizes:
            rows.append(row_of(size, args.images, args.budget))
            save(args.out, f"{head}\n{what}\n\n{markdown(columns, rows)}")


if __name__ == "__main__":
    main()
