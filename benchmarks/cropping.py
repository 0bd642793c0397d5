"""Random crops, judged by the majority of all crops: PSJ sees single crops, HSJ attacks the majority itself.

python benchmarks/cropping.py --images 100 --sizes 26 --keep DIR

Cropping moves the border: most answers are those of another classifier, the majority of all crops, whose
probabilities are exact. HSJ attacks that majority without noise. All distances are to the majority's border.
"psj-capped" has no budget but all of its 32 iterations, of at most 1,000 directions and 100 queries a search.
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
CAPPED = psj.PopSkipJump(count=psj.DirectionCount(limit=1_000), search_limit=100)  # all 32 iterations, no budget
TOGETHER = 25  # images attacked together, and kept together with --keep


def median_ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """The ratio of two medians over the same images, with a bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(above), size=(RESAMPLES, len(above)))
    ratios = np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1)
    low, high = np.quantile(ratios, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(np.median(above) / np.median(below)), float(low), float(high)


def found_by(
    name: str, model: psj.TorchModel, noise: str, batch: np.ndarray, labels: np.ndarray, budget: int
) -> dict[str, np.ndarray]:
    """Distances `(B,)` to the majority's border on the rays of one attack, and its queries."""
    attacked = MajorityClassifier(model, noise) if name == "hsj" else model
    attack = CAPPED if name == "psj-capped" else name
    settings = {"starts": embedded_pool(), "budget": None if name == "psj-capped" else budget}
    report = psj.evaluate(attacked, batch, labels, attack, None if name == "hsj" else noise, **settings)  # type: ignore[arg-type]
    original, points, truth = (torch.from_numpy(array) for array in (batch, report.points, labels))
    border = majority_border(model, noise, original, points, truth).distance.double().numpy()
    return {"distance": border, "queries": np.asarray(report.queries)}


def row_of(size: int, images: int, budget: int, keep: Path | None, rivals: list[str]) -> list[object]:
    """Both attacks on the images that the majority of crops gets right; parts of `TOGETHER` images are kept."""
    noise = f"cropping:{size}"
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    majority = MajorityClassifier(model, noise)
    batch, labels = correct_images(2 * images)
    right = (majority.labels(torch.from_numpy(batch)) == torch.from_numpy(labels)).numpy()
    batch, labels = batch[right][:images], labels[right][:images]
    parts: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in ("hsj", *rivals)}
    for first in range(0, len(batch), TOGETHER):
        some = slice(first, first + TOGETHER)
        for name, found in parts.items():
            file = None if keep is None else keep / f"cropping-{size}-{name}-{budget}-{first}-{len(batch[some])}.npz"
            if file is not None and file.is_file():
                with np.load(file, allow_pickle=False) as archive:
                    found.append(dict(archive))
                continue
            found.append(found_by(name, model, noise, batch[some], labels[some], budget))
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.savez(file, **found[-1])  # type: ignore[arg-type]  # its stub takes the names for options
    distances = {name: np.concatenate([part["distance"] for part in found]) for name, found in parts.items()}
    asked = {name: np.median(np.concatenate([part["queries"] for part in found])) for name, found in parts.items()}
    known = np.isfinite(np.stack(list(distances.values()))).all(axis=0)
    cells = [f"{np.median(distances[name][known]):.3f} @ {asked[name]:,.0f}" for name in ("hsj", *rivals)]
    for name in rivals:
        value, low, high = median_ratio(distances[name][known], distances["hsj"][known])
        cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return [size, int(known.sum()), *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[26, 22])
    parser.add_argument("--budget", type=int, default=13_000)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--rivals", nargs="+", default=["psj", "psj-capped", "qsj"])
    parser.add_argument("--keep", type=Path, default=None, help="folder of finished parts; the same command goes on")
    args = parser.parse_args()
    names = [name.upper() for name in args.rivals]
    columns = ["crop", "images", "HSJ, majority of all crops", *(f"{name}, single crops" for name in names)]
    columns += [f"{name} / HSJ" for name in names]
    with psj.threads(1):
        head = header("PSJ under random crops, beside HSJ on the majority of all crops", command())
        what = (
            "Median L2 distance to the majority's border @ median queries; ratios of medians, 95% bootstrap intervals."
        )
        rows = []
        for size in args.sizes:
            rows.append(row_of(size, args.images, args.budget, args.keep, args.rivals))
            save(args.out, f"{head}\n{what}\n\n{markdown(columns, rows)}")


if __name__ == "__main__":
    main()
