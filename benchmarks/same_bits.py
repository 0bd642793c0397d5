"""Compares two checkouts: points, queries and traces of every attack must be equal to the bit.

usage: python benchmarks/same_bits.py CHECKOUT [CHECKOUT] [--walks] [--only ATTACK ...]
       (the second checkout is this one by default)

Each checkout runs the same cases in a process of its own, from its own `src`. Every case that differs is printed, and
the exit code is 1 if there is one. A change that is meant to keep all results is measured with it before it lands.

With `--walks`, the border points and the number of queries of each image are compared iteration by iteration, up to the
end of the shorter walk. Two checkouts whose attacks are equal but end differently, such as before and after the settle
phase, have equal walks. For a case that differs, the first iteration that differs is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
IMAGES = 5

Case = tuple[str, dict[str, Any]]
Walks = list[list[str]]  # for each image, a digest for each iteration in which it asked


def cases() -> Iterator[Case]:
    """Names and arguments of `evaluate`; only names that every checkout knows."""
    import popskipjump as psj

    noises = (None, "flip:0.1", "flip:0.3", "logit:1", "smoothing:0.2", "dropout:0.5")
    lengths: dict[str, dict[str, Any]] = {
        "psj": {"iterations": 3},
        "qsj": {"budget": 700},
        "hsj": {"iterations": 3},
        "boundary": {"attack": psj.BoundaryAttack(iterations=3, proposals=60)},
        "psj-true-gradient": {"iterations": 3},
    }
    for attack, sizes in lengths.items():
        for noise in noises:
            yield f"{attack} l2 {noise}", {"attack": attack, "noise": noise, **sizes}
        for noise in (None, "flip:0.1"):
            yield f"{attack} linf {noise}", {"attack": attack, "noise": noise, "norm": "linf", **sizes}
            yield f"{attack} targeted {noise}", {"attack": attack, "noise": noise, "targeted": True, **sizes}
    yield "boundary budget", {"attack": "boundary", "noise": "flip:0.1", "budget": 300}
    yield "psj budget", {"attack": "psj", "noise": "flip:0.1", "budget": 900}
    yield "qsj long", {"attack": "qsj", "noise": "flip:0.1", "budget": 3000}
    yield "qsj long, smoothing", {"attack": "qsj", "noise": "smoothing:0.2", "budget": 3000}
    targeted = {"attack": without_far_mode(), "noise": "flip:0.1", "targeted": True, "budget": 700}
    yield "qsj targeted, no far mode", targeted
    yield "qsj iterations", {"attack": "qsj", "iterations": 6}
    yield "hsj votes", {"attack": "hsj", "noise": "flip:0.1", "votes": 3, "iterations": 2}


def without_far_mode() -> Any:
    """QuickSkipJump as it is in a checkout without the far mode."""
    import popskipjump as psj

    try:
        from popskipjump.attacks import AdaptiveDirections, FarMode  # noqa: F401
    except ImportError:
        return psj.QuickSkipJump()
    return psj.QuickSkipJump(direction=AdaptiveDirections(far_mode=None))


def results(only: tuple[str, ...], of: Callable[[Any], Any]) -> dict[str, Any]:
    """What a function makes of the report of each case, in the checkout that this process imports."""
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
        if not name.startswith(only):
            continue
        arguments = dict(case)
        mine = slice(20, 20 + IMAGES)
        if arguments.pop("targeted", False):
            arguments["targets"] = (np.asarray(labels[mine]) + 1) % 10
        report = psj.evaluate(model, images[mine], labels[mine], starts=pool, seed=3, verdict=0, **arguments)
        found[name] = of(report)
        print(name, file=sys.stderr, flush=True)
    return found


def digest(*parts: Any) -> str:
    """Of the bytes of arrays."""
    import numpy as np

    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(np.asarray(part)).tobytes())
    return found.hexdigest()[:16]


def whole(report: Any) -> str:
    """A digest of points, distances and queries."""
    trace = report.trace
    return digest(trace.points, trace.distance, trace.queries, report.queries)


def walks(report: Any) -> Walks:
    """For each image, a digest of border point and queries for each iteration in which it asked."""
    trace, found = report.trace, []
    for image in range(trace.queries.shape[1]):
        queries = trace.queries[:, image].tolist()
        asked = 1 + max((i for i in range(1, len(queries)) if queries[i] > queries[i - 1]), default=0)
        found.append([digest(trace.points[i, image], queries[i]) for i in range(asked)])
    return found


def results_of(checkout: Path, only: list[str], by_iteration: bool) -> dict[str, Any]:
    """The results of a checkout, from a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    options = [*(["--walks"] if by_iteration else []), "--only", *only]
    command = [sys.executable, str(Path(__file__).resolve()), "--digests", *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=checkout)  # noqa: S603
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def difference(old: Any, new: Any, by_iteration: bool) -> str | None:
    """What differs between the results of a case; None if nothing does."""
    if not by_iteration:
        return None if old == new else "another result"
    found = []
    for image, (before, after) in enumerate(zip(old, new, strict=True)):
        common = min(len(before), len(after))
        first = next((i for i in range(common) if before[i] != after[i]), None)
        if first is not None:
            found.append(f"image {image} from iteration {first} of {common - 1}")
    return ", ".join(found) or None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--digests", action="store_true", help="Print the digests of this process's checkout.")
    parser.add_argument("--walks", action="store_true", help="Compare the walks alone, iteration by iteration.")
    parser.add_argument("--only", nargs="+", default=[""], help="Cases whose names begin like this.")
    arguments = parser.parse_args()
    if arguments.digests:
        print(json.dumps(results(tuple(arguments.only), walks if arguments.walks else whole)))
        return 0
    before, after = [*(path.resolve() for path in arguments.checkouts), HERE][:2]
    old, new = (results_of(path, arguments.only, arguments.walks) for path in (before, after))
    found = {name: difference(old[name], new[name], arguments.walks) for name in old}
    for name, what in found.items():
        if what is not None:
            print(f"differs: {name}: {what}")
    equal = sum(what is None for what in found.values())
    print(f"{equal} of {len(found)} cases are equal to the bit.")
    return 0 if equal == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
