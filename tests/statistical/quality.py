"""Border distances of fixed images and seeds, to be compared between versions of the code.

python tests/statistical/quality.py tests/statistical/quality.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

import popskipjump as psj

IMAGES = 40
CASES = {"psj, no noise": ("psj", None), "psj, 10% flips": ("psj", "flip:0.1"), "hsj, no noise": ("hsj", None)}


def log_distances(case: str, seed: int) -> list[float]:
    """log of the L2 border distance of each of the first images that the embedded net takes for what they are."""
    attack, noise = CASES[case]
    images, labels = (torch.from_numpy(values) for values in psj.zoo.mnist_images())
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    right = (model.labels(images) == labels).nonzero().flatten()[:IMAGES]
    report = psj.evaluate(
        model,
        images[right],
        labels[right],
        attack,
        noise,
        starts=psj.Pool(images, labels),
        seed=seed,
        verdict=0,
        keep_trace=False,
    )
    return [round(value, 5) for value in np.log(report.border_distances).tolist()]


def main() -> None:
    """Write the reference."""
    torch.set_num_threads(1)
    found = {case: [log_distances(case, seed) for seed in (100, 101, 102)] for case in CASES}
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
