"""Randomized defences of the literature under four attacks, at equal queries: writes docs/defences.md.

    python benchmarks/defences.py --images 8 --budget 8000 --out docs/defences.md

The embedded net, images that no parameter was tuned on, every attack with the same starting points and the same
budget for each image. Distances are those of the border on the ray through the returned point: of the majority
classifier (the most frequent answer under the defence) and of the net without the defence.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import command, correct_images, embedded_pool, header, markdown
from torch import nn

import popskipjump as psj
from popskipjump.metrics import majority_border, summarise
from popskipjump.noise import Switching, describe, noise_of, truth_of

FIRST = 400  # the images from number 500 on are those that QSJ was tuned on
PERIOD = 100
ATTACKS: dict[str, tuple[Any, int]] = {
    "PSJ": (psj.PopSkipJump(), 1),
    "QSJ": ("qsj", 1),
    "HSJ": (psj.HopSkipJump(), 1),
    "HSJ, 3 votes": (psj.HopSkipJump(), 3),
}
DEFENCES: dict[str, str | None] = {
    "none": None,
    "random noise (RND)": "rnd:0.2",
    "boundary defence": "boundary-defence:0.99,2",
    "feature noise": "feature-noise:1,fc1",
    "resizing and padding": "resize-pad:0.8,1",
    "random bit depth": "bit-depth:1,3",
    "random compression": "jpeg:1,20",
    "ensemble, switching": "switching",
}


class Blurred(nn.Module):
    """The embedded net behind a 3 x 3 mean filter."""

    def __init__(self) -> None:
        super().__init__()
        self.net = psj.zoo.mnist_model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.net(nn.functional.avg_pool2d(x, 3, stride=1, padding=1))
        return logits


def coarse() -> nn.Module:
    """The embedded net with its weights rounded to 15 values for each layer."""
    net = psj.zoo.mnist_model()
    with torch.no_grad():
        for weights in net.parameters():
            step = weights.abs().max() / 7
            weights.copy_((weights / step).round() * step)
    return net


def noise_for(spelling: str | None) -> Any:
    """A defence; the ensemble has members that no spelling can hold."""
    return Switching([Blurred(), coarse()], PERIOD) if spelling == "switching" else noise_of(spelling)


class Result(NamedTuple):
    """One attack on one defence."""

    majority: np.ndarray  # (B,) border distances
    base: np.ndarray  # (B,)
    sure: float  # median share of adversarial answers at the points
    queries: float  # median
    width: float  # median width of the majority's interval, relative; 0 where exact

    def cell(self) -> str:
        """For the table."""
        lost = int(np.isinf(self.majority).sum())
        none = f"; {lost} without a border" if lost else ""
        middle, base = summarise(self.majority).median, summarise(self.base).median
        return f"{middle:.2f} ({base:.2f}), {100 * self.sure:.0f}%{none}"


def measured(noise: Any, attack: Any, votes: int, x: np.ndarray, y: np.ndarray, budget: int) -> Result:
    """Attack all images, and measure where the rays through the points meet both borders."""
    model = psj.TorchModel(psj.zoo.mnist_model())
    report = psj.evaluate(
        model, x, y, attack=attack, noise=noise, votes=votes, starts=embedded_pool(), budget=budget, keep_trace=False
    )
    original, points, labels = (torch.from_numpy(a) for a in (x, report.points, y))
    found = majority_border(model, noise, original, points, labels, draws=512, bisections=5)
    distance = found.distance.double().numpy()
    width = ((found.high - found.low) / found.distance).double().numpy()
    width = width[np.isfinite(distance) & np.isfinite(width)]
    sure = np.nan if report.verdict is None else float(np.nanmedian(report.verdict.probability))
    return Result(
        distance,
        np.asarray(report.border_distances),
        sure,
        float(np.median(report.queries)),
        float(np.median(width)) if len(width) else 0.0,
    )


def paired(other: Result, reference: Result) -> str:
    """Geometric mean of the ratios of majority distances, image by image, with its standard error."""
    both = np.isfinite(other.majority) & np.isfinite(reference.majority) & (reference.majority > 0)
    logs = np.log(other.majority[both] / reference.majority[both])
    if len(logs) < 2:
        return "–"
    return f"{np.exp(logs.mean()):.2f} ± {np.exp(logs.mean()) * logs.std(ddof=1) / np.sqrt(len(logs)):.2f}"


TEXT = """
How four decision-based attacks fare on randomized defences of the literature: does the noise protect, or does it only
break attacks that expect none? The command above wrote this page.

- **Net and images**: the embedded MNIST network; {images} images from number {first} on that it classifies rightly and
  whose most frequent answer is right under the defence. No parameter of any attack was tuned on them.
- **Budget**: {budget:,} queries for each image and attack, votes and verdict included. All start from one
  pool of images; QSJ takes the nearest of it.
- **A cell** holds the median L2 distance of the majority classifier's border on the ray through the returned point, in
  brackets that of the net without the defence, and the median share of adversarial answers at the returned point
  itself. A small distance with a share near 0% is no adversarial point: the attack was lured across the border.
- **The last columns** compare the majority distances image by image: geometric mean of the ratio, with one standard
  error. Above 1: PSJ is nearer.
- The majority classifier answers with the most frequent label. Its border is exact where the class probabilities are,
  and otherwise from a sequential test; the second column has half the width of its 99% interval (median; the attack
  with the widest).
"""

AFTER = """
The levels: RND adds N(0, 0.2²) to each pixel; the boundary defence adds N(0, 2²) to each logit where the largest
probability is below 0.99; feature noise adds N(0, 1) to the output of `fc1`; images are shrunk to 23 to 28 pixels and
put anywhere; depths of 1 to 3 bits; qualities of 1 to 20; the ensemble is the net, the net behind a 3 x 3 mean filter
and the net with weights of 15 values, and one of the three answers {period} queries in a row.

How each defence is written (`noise="rnd:0.2"`, `--noise rnd:0.2`) is in the [guide to noise](guide/noise.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--budget", type=int, default=8_000)
    parser.add_argument("--only", default=None, help="one defence, by its name in the table")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    x, y = correct_images(args.images, FIRST)
    rows: list[tuple[str, ...]] = []
    start = time.process_time()
    model = psj.TorchModel(psj.zoo.mnist_model())
    for name, spelling in DEFENCES.items():
        if args.only not in (None, name):
            continue
        noise = noise_for(spelling)
        truth = truth_of(noise, model, torch.from_numpy(x), 500).probabilities
        right = float(truth.gather(1, torch.from_numpy(y).unsqueeze(1)).mean())
        stays = truth.argmax(dim=1).numpy() == y
        results = {}
        for attack, (config, votes) in ATTACKS.items():
            began = time.process_time()
            results[attack] = measured(noise, config, votes, x[stays], y[stays], args.budget)
            print(name, attack, results[attack].cell(), f"{time.process_time() - began:.0f} s", flush=True)
        width = max(result.width for result in results.values())
        rows.append(
            (
                f"{name}: `{describe(noise)}`" if noise is not None else name,
                f"{100 * right:.1f}%, {'exact' if not width else f'± {50 * width:.1f}%'}",
                *(result.cell() for result in results.values()),
                *(paired(results[other], results["PSJ"]) for other in ("QSJ", "HSJ", "HSJ, 3 votes")),
            )
        )
        write(page_of(rows, args, time.process_time() - start), args.out)


def page_of(rows: list[tuple[str, ...]], args: argparse.Namespace, seconds: float) -> str:
    """The page, with as many defences as are measured so far."""
    columns = ("defence", "right answers; majority's border", *ATTACKS, "QSJ / PSJ", "HSJ / PSJ", "HSJ, 3 votes / PSJ")
    missing = len(DEFENCES) - len(rows)
    return (
        header("Randomized defences", command())
        + TEXT.format(images=args.images, first=FIRST, budget=args.budget)
        + f"\n{markdown(columns, rows)}\n"
        + (f"\nNot measured yet: {', '.join(list(DEFENCES)[-missing:])}.\n" if missing else "")
        + AFTER.format(period=PERIOD)
        + f"\nProcessor time: {seconds:.0f} s on one thread.\n"
    )


def write(page: str, out: Path | None) -> None:
    """Show the page, and keep it; after every defence, so that a run that is stopped leaves what it found."""
    print(page, flush=True)
    if out is not None:
        out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
