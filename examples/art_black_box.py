"""A label-only classifier of the Adversarial Robustness Toolbox (ART), attacked as ART does.

pip install "popskipjump[art]"
python examples/art_black_box.py
"""

from __future__ import annotations

import numpy as np
import torch
from art.estimators.classification import BlackBoxClassifier

import popskipjump as psj
from popskipjump.integrations.art import QuickSkipJump


def main(count: int = 5, budget: int = 1000) -> str:
    """Attack a few digits; what was found, in one line."""
    net = psj.zoo.mnist_model().eval()
    images, labels = psj.zoo.mnist_images(100)

    def one_hot(batch: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(np.eye(10, dtype=np.float32)[net(torch.from_numpy(batch)).argmax(dim=1).numpy()])

    classifier = BlackBoxClassifier(one_hot, input_shape=(1, 28, 28), nb_classes=10, clip_values=(0.0, 1.0))
    attack = QuickSkipJump(classifier, max_queries=budget)
    starts = np.stack([images[labels != label][0] for label in labels[:count]])
    points = attack.generate(images[:count], np.eye(10)[labels[:count]], x_adv_init=starts)
    fooled = int((one_hot(points).argmax(axis=1) != labels[:count]).sum())
    report = attack.report
    if report is None:  # `generate` always leaves one
        return "nothing was attacked"
    return (
        f"{fooled} of {count} points are adversarial; median distance {np.median(report.distances):.2f}; "
        f"at most {report.queries.max()} queries an image"
    )


if __name__ == "__main__":
    print(main())  # noqa: T201
