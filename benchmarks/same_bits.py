"""Compares two checkouts: points, queries and traces of every attack must be equal to the bit.

usage: python benchmarks/same_bits.py CHECKOUT [CHECKOUT]      (the second is this one by default)

Each checkout runs the same cases in a process of its own, from its own `src`. Every case that differs is printed, and
the exit code is 1 if there is one. A change that is meant to keep all results is measured with it before it lands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
IMAGES = 5

Case = tuple[str, dict[str, Any]]


def cases() -> Iterator[Case]:
    """Names and arguments of `evaluate`; only names that every checkout knows."""
    noises = (None, "flip:0.1", "flip:0.3", "logit:1", "smoothing:0.2", "dropout:0.5")
    for attack, sizes in {
        "psj": {"iterations": 3},
        "qsj": {"budget": 700},
        "hsj": {"iterations": 3},
        "boundary": {"budget": 300},
        "psj-true-gradient": {"iterations": 3},
    }.items():
        for noise in noises:
            cap = {"budget": 2500} if attack.startswith("psj") else {}
            yield f"{attack} l2 {noise}", {"attack": attack, "noise": noise, **sizes, **cap}
        for noise in (None, "flip:0.1"):
            yield f"{attack} linf {noise}", {"attack": attack, "noise": noise, "norm": "linf", **sizes}
            yield f"{attack} targeted {noise}", {"attack": attack, "noise": noise, "targeted": True, **sizes}
    yield "psj budget", {"attack": "psj", "noise": "flip:0.1", "budget": 900}
    yield "qsj long", {"attack": "qsj", "noise": "flip:0.1", "budget": 3000}
    yield "qsj long, smoothing", {"attack": "qsj", "noise": "smoothing:0.2", "budget": 3000}
    yield "qsj iterations", {"attack": "qsj", "iterations": 6}
    yield "hsj votes", {"attack": "hsj", "noise": "flip:0.1", "votes": 3, "iterations": 2}


def digests() -> dict[str, str]:
    """Of each case in the checkout that this process imports."""
    import numpy as np
    import torch

    import popskipjump as psj
    from popskipjump import zoo

    torch.set_num_threads(1)
    images, labels = zoo.mnist_images()
    model = zoo.mnist_model()
    pool = psj.Pool(torch.as_tensor(images[500:800]), torch.as_tensor(labels[500:800]))
    found = {}
    for name, case in cases():
        arguments = dict(case)
        mine = slice(20, 20 + IMAGES)
        if arguments.pop("targeted", False):
            arguments["targets"] = (np.asarray(labels[mine]) + 1) % 10
        report = psj.evaluate(model, images[mine], labels[mine], starts=pool, seed=3, verdict=0, **arguments)
        parts = (report.trace.points, report.trace.distance, report.trace.queries, report.queries)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(np.ascontiguousarray(np.asarray(part)).tobytes())
        found[name] = digest.hexdigest()[:16]
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def digests_of(checkout: Path) -> dict[str, str]:
    """The same, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(Path(__file__).resolve()), "--digests"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=checkout)  # noqa: S603
    read: dict[str, str] = json.loads(done.stdout)
    return read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--digests", action="store_true", help="Print the digests of this process's checkout.")
    arguments = parser.parse_args()
    if arguments.digests:
        print(json.dumps(digests()))
        return 0
    before, after = [*(path.resolve() for path in arguments.checkouts), HERE][:2]
    old, new = digests_of(before), digests_of(after)
    different = [name for name in old if old[name] != new.get(name)]
    for name in different:
        print(f"differs: {name}")
    print(f"{len(old) - len(different)} of {len(old)} cases are equal to the bit.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
