"""A noisy model under Foolbox's HopSkipJump and under our attacks, side by side, all called as Foolbox does.

The net answers with a random class in 10% of its answers. HopSkipJump believes every single answer: it may stop with an
error when a point that it needs is not answered as adversarial, or end at points that are not.

    pip install "popskipjump[foolbox]"
    python examples/foolbox_noisy.py
"""

from __future__ import annotations

import warnings

import foolbox
import numpy as np
import torch
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.integrations.foolbox import PopSkipJumpAttack, QuickSkipJumpAttack


class Noisy(nn.Module):
    """A net whose answer is a random class now and then; `seen` counts the rows that it was asked."""

    def __init__(self, net: nn.Module, rate: float, seed: int = 0) -> None:
        super().__init__()
        self.net, self.rate, self.random, self.seen = net, rate, np.random.default_rng(seed), 0

    def forward(self, x: Tensor) -> Tensor:
        """`(M, 1, 28, 28)` -> logits `(M, 10)`."""
        self.seen += len(x)
        logits: Tensor = self.net(x)
        wrong = torch.from_numpy(self.random.random(len(x)) < self.rate)
        classes = torch.from_numpy(self.random.integers(0, 10, len(x)))
        return torch.where(wrong.unsqueeze(1), 100.0 * nn.functional.one_hot(classes, 10), logits)


def main(count: int = 5, budget: int = 1500) -> list[str]:
    """Attack a few images with all three; a line of results for each."""
    net = psj.zoo.mnist_model().eval()
    images, labels = (torch.from_numpy(array) for array in psj.zoo.mnist_images(100))
    starts = torch.stack([images[labels != label][0] for label in labels[:count]])
    attacks = {
        "Foolbox HopSkipJump": foolbox.attacks.HopSkipJumpAttack(steps=10, max_gradient_eval_steps=150),
        "PopSkipJump": PopSkipJumpAttack(budget=budget),
        "QuickSkipJump": QuickSkipJumpAttack(budget=budget),
    }
    lines = []
    for name, attack in attacks.items():
        noisy = Noisy(net, rate=0.1).eval()
        model = foolbox.PyTorchModel(noisy, bounds=(0, 1), device="cpu")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                points = attack.run(model, images[:count], labels[:count], starting_points=starts)
        except (AssertionError, ValueError) as error:
            lines.append(f"{name:20} stopped with {type(error).__name__}: {str(error).strip() or 'no message'}")
            continue
        with torch.no_grad():
            adversarial = int((net(points).argmax(dim=1) != labels[:count]).sum())
        far = float((points - images[:count]).flatten(1).norm(dim=1).median())
        lines.append(
            f"{name:20} {adversarial} of {count} points are adversarial without the noise; median distance {far:.2f}; "
            f"{noisy.seen / count:,.0f} queries an image"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(main()))  # noqa: T201
