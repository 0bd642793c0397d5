"""Make what the README shows: its two pictures, and the output under its example.

The picture of curves also shows where HopSkipJump of Foolbox and of ART ends, with their own settings and as many
steps, from images of other classes. An image that a library gives up (a point that it needs was answered wrongly) is
tried again, five times in all, and then counts with its starting point. Needs pip install "popskipjump[rivals]".

python scripts/draw_readme.py            # minutes, one thread
python scripts/draw_readme.py --example  # the output alone, seconds
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = re.compile(r"(<!-- example -->\n```python\n)(.*?)(```\n+```text\n)(.*?)(```)", re.DOTALL)


def write_example(readme: Path) -> None:
    """Run the README's example and put what it prints below it."""
    text = readme.read_text(encoding="utf-8")
    found = EXAMPLE.search(text)
    if found is None:
        raise SystemExit("the README has no example between <!-- example --> and a block of text.")
    done = subprocess.run([sys.executable, "-c", found[2]], capture_output=True, text=True, check=True)  # noqa: S603
    readme.write_text(text[: found.start(4)] + done.stdout + text[found.end(4) :], encoding="utf-8")


class End(NamedTuple):
    """Where another library's attack ends."""

    name: str
    queries: float  # of an image, the median
    border: float  # median border distance
    given_up: int  # images without a point


class Noisy(torch.nn.Module):
    """The embedded network, whose answer is one of the other classes now and then; it counts what it was asked."""

    def __init__(self, rate: float = 0.1, seed: int = 0) -> None:
        super().__init__()
        from popskipjump import zoo

        self.net, self.rate, self.random, self.asked = zoo.mnist_model(), rate, np.random.default_rng(seed), 0

    def forward(self, points: Tensor) -> Tensor:
        """`(M, 1, 28, 28)` -> logits `(M, 10)`."""
        self.asked += len(points)
        logits: Tensor = self.net(points.to(torch.float32))
        wrong = torch.from_numpy(self.random.random(len(points)) < self.rate)
        other = (logits.argmax(dim=1) + torch.from_numpy(self.random.integers(1, 10, len(points)))) % 10
        return torch.where(wrong.unsqueeze(1), 100.0 * torch.nn.functional.one_hot(other, 10), logits)


Attack = Callable[[Noisy, Tensor, Tensor, Tensor], Tensor]  # net, image, label, start -> point, each of one row


def foolbox(net: Noisy, image: Tensor, label: Tensor, start: Tensor) -> Tensor:
    """Foolbox's HopSkipJump."""
    import foolbox as library

    attack = library.attacks.HopSkipJumpAttack(steps=STEPS)
    model = library.PyTorchModel(net, bounds=(0, 1), device="cpu")
    point: Tensor = attack.run(model, image, label, starting_points=start)
    return point


def art(net: Noisy, image: Tensor, label: Tensor, start: Tensor) -> Tensor:
    """ART's HopSkipJump."""
    from art.attacks.evasion import HopSkipJump
    from art.estimators.classification import PyTorchClassifier

    classifier = PyTorchClassifier(
        net, torch.nn.CrossEntropyLoss(), (1, 28, 28), 10, clip_values=(0, 1), device_type="cpu"
    )
    attack = HopSkipJump(classifier, norm=2, max_iter=STEPS, verbose=False)
    one_hot = np.eye(10)[label.numpy()]
    return torch.from_numpy(attack.generate(image.numpy(), y=one_hot, x_adv_init=start.numpy())).to(torch.float32)


STEPS, TRIES = 32, 5


def end_of(name: str, attack: Attack, sample: Any, starts: Tensor) -> End:
    """Attack the images one by one: one that is given up would end all others of its batch."""
    from popskipjump.metrics import border_distance

    images, labels = torch.from_numpy(sample.images), torch.from_numpy(sample.labels)
    points, asked, given_up = starts.clone(), [], 0
    for row in range(len(images)):
        net = Noisy(seed=row).eval()
        one = slice(row, row + 1)
        for attempt in range(TRIES):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    points[one] = attack(net, images[one], labels[one], starts[one])
                break
            except (AssertionError, ValueError):
                given_up += attempt == TRIES - 1
        asked.append(net.asked)
    border = border_distance(sample.model, images, points, labels, "l2")
    return End(name, float(np.median(asked)), float(border.median()), given_up)


def _named(end: End, images: int) -> str:
    return end.name + (f", gave up on {end.given_up} of {images}" if end.given_up else "")


def draw(images: int, shown: int) -> None:
    """The curves and the images of the demonstration at 10% flips."""
    from popskipjump.experiments.demo import ENTRIES, NOISE, row_of, run_entry, sample_images
    from popskipjump.experiments.drawing import draw_curves, draw_images, save
    from popskipjump.oracles.speed import threads

    with threads(1):
        sample = sample_images(images)
        outcomes = [run_entry(entry, sample, STEPS, seed=0) for entry in ENTRIES if entry.noise == NOISE]
        others = [np.flatnonzero(sample.pool.labels.numpy() != label)[row] for row, label in enumerate(sample.labels)]
        starts = sample.pool.images[torch.from_numpy(np.array(others))]
        ends = [end_of("Foolbox's HSJ", foolbox, sample, starts), end_of("ART's HSJ", art, sample, starts)]
    for outcome in outcomes:
        row = row_of(outcome)
        print(
            f"{row.name}: border {row.border.median:.2f}, {row.queries:,.0f} queries, sure {row.sure} of {row.images}"
        )
    figure = draw_curves(outcomes)
    axes = figure.axes[0]
    for end, marker in zip(ends, "X*", strict=True):
        print(f"{end.name}: border {end.border:.2f}, {end.queries:,.0f} queries, {end.given_up} of {images} given up")
        axes.plot(
            [end.queries],
            [end.border],
            marker,
            color="#444444",
            markersize=9,
            label=_named(end, images),
            linestyle="none",
        )
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    axes.set_title(f"10% of the labels flipped, MNIST: median of {images} images", fontsize=11, loc="left")
    save(figure, PICTURES / "readme-curves.png")
    save(draw_images(sample, outcomes, rows=shown), PICTURES / "readme-images.png")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--example", action="store_true", help="write the example's output alone")
    arguments.add_argument("--images", type=int, default=16)
    arguments.add_argument("--shown", type=int, default=3)
    chosen = arguments.parse_args()
    if not chosen.example:
        draw(chosen.images, chosen.shown)
    write_example(ROOT / "README.md")


if __name__ == "__main__":
    main()
