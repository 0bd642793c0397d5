"""Border distances of fixed images and seeds, to be compared between versions of the code.

The reference is of the commit that it names, from before the work on speed. It is made by that commit's code and this
file: `PYTHONPATH=<its src> python tests/statistical/quality.py bd4e713 > tests/statistical/quality.json`.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from present import present

import popskipjump as psj

IMAGES = 40
SEEDS = (100, 101, 102)
CASES = {"psj, no noise": ("psj", None), "psj, 10% flips": ("psj", "flip:0.1"), "hsj, no noise": ("hsj", None)}


def log_distances(case: str, seed: int) -> list[float]:
    """log of the L2 border distance of each of the first images that the embedded net takes for what they are.

    An image that found no point, or whose point has no border on its ray, has nan.
    """
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
    found = present(report.border_distances)
    result: list[float] = np.round(np.log(found, where=np.isfinite(found), out=np.full_like(found, np.nan)), 5).tolist()
    return result


def standard_error(found: np.ndarray, seeds: int = 1) -> float:
    """Of the mean log distance of all images in a run of `seeds` seeds: `(seeds, images)` of the reference -> number.

    The images are the same in every run, so only the scatter between the seeds counts.
    """
    scatter = np.nanmean(found.var(axis=0, ddof=1))
    return float(np.sqrt(scatter / found.shape[1] / seeds))


def reference(commit: str) -> dict[str, object]:
    """What is compared with."""
    cases = {}
    for case in CASES:
        found = [log_distances(case, seed) for seed in SEEDS]
        error = standard_error(np.array(found), len(SEEDS))
        cases[case] = {"mean": round(float(np.nanmean(found)), 5), "error": round(error, 5), "log_distances": found}
    return {"commit": commit, "seeds": SEEDS, "cases": cases}


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(reference(sys.argv[1])) + "\n")
