"""The calibration studies of the questions: `python benchmarks/questions.py STUDY [options]`.

forecast: queries that `check` predicts for QSJ and PSJ, held against runs.
check: kinds of noise named by `check` on classifiers built from seeds, and coverage of its intervals.
certify: certified radius, found distance and closed form on linear classifiers.
compare: verdicts of `compare` on two copies of one network.
defences: verdicts of `compare` under the paper's five noise models and on an adversarially trained network.
bands: coverage of the bands around the curve of robust accuracy.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import correct_images, embedded_pool

import popskipjump as psj
from popskipjump.questions import certified_radius, robust_accuracy

ROOT = Path(__file__).resolve().parents[1]
NOISES = "none,flip:0.1,logit:1,smoothing:0.05"


def forecast(options: argparse.Namespace) -> None:
    """Predictions of `check` for problems from which its laws were not read, held against runs."""
    agreed: dict[str, list[int]] = {}
    for name, net, images, labels in _problems(options.images, options.seed):
        for noise in (None if name == "none" else name for name in options.noises.split(",")):
            plain = psj.check(net, images, labels, noise=noise)
            for goal, distance in (("nearest", None), ("half", 0.5), ("third", 0.33)):
                far = None if distance is None else distance * float(np.nanmedian(plain.border))
                attacks = options.attacks.split(",")
                answer = psj.check(
                    net, images, labels, noise=noise, distance=far, run=options.budget, run_attacks=attacks
                )
                predicted = {item.attack: item for item in answer.forecasts}
                for trial in answer.trials:
                    item = predicted[trial.attack]
                    agrees = trial.agrees(item)
                    counts = agreed.setdefault(f"{trial.attack}, {goal}", [0, 0, 0])
                    counts[2 if agrees is None else int(not agrees)] += 1
                    print(f"{name:10s} {noise or 'none':14s} {trial.attack} {goal:8s} predicted {item.queries}, "
                          f"needed {trial.median:,.0f}: {agrees}", flush=True)  # fmt: skip
    for goal, (right, wrong, open_) in agreed.items():
        print(f"{goal}: {right} predictions hold, {wrong} do not, {open_} runs were too short to tell")


def _problems(count: int, seed: int) -> list[tuple[str, torch.nn.Module, torch.Tensor, torch.Tensor]]:
    """Small random networks, and the embedded one."""
    found = []
    for number in range(6):
        net, images, labels = _copies(seed + number, (10, 20, 40, 80, 160, 320)[number])
        found.append((f"net {images.shape[1]}", net, images[:count], labels[:count]))
    pictures, classes = (torch.from_numpy(v) for v in correct_images(count, first=100))
    return [*found, ("mnist", psj.zoo.mnist_model(), pictures, classes)]


def _copies(seed: int, size: int = 16) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A small random network, and images that it is sure of."""
    draw = torch.Generator().manual_seed(seed)
    first, second = torch.randn(size, 32, generator=draw), torch.randn(32, 4, generator=draw)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 4 * torch.tanh((x.flatten(1) - 0.5) @ first) @ second

    images = torch.rand(400, size, generator=draw)
    best = Net()(images).sort(dim=1).values
    sure = (best[:, -1] - best[:, -2]).argsort(descending=True)[:200:20]
    return Net(), images[sure], Net()(images[sure]).argmax(dim=1)


def compare(options: argparse.Namespace) -> None:
    """Verdicts on two copies of one small network: no noise, flips and logit sampling in turn."""
    counts: dict[str, int] = {}
    different = 0
    for done, study in enumerate(range(options.studies), start=1):
        net, images, labels = _copies(options.seed + study)
        noise = (None, "flip:0.1", "logit:1")[study % 3]
        answer = psj.compare(
            net,
            net,
            images,
            labels,
            defended_noise=noise,
            budget=options.budget,
            scale=1.6 if noise else 1.0,
            seed=study,
        )
        name = f"{noise or 'none'}: {answer.verdict}{', border moved' if answer.border_moved else ''}"
        counts[name] = counts.get(name, 0) + 1
        different += answer.verdict in ("more robust", "less robust") or answer.border_moved
        if done % 20 == 0:
            print(f"{done} studies, {different} say different; {counts}", flush=True)


def defences(options: argparse.Namespace) -> None:
    """The paper's five noise models on the embedded network, and a robust network if --data names its folder."""
    images, labels = correct_images(options.images, first=100)
    model, pool = psj.zoo.mnist_model(), embedded_pool()
    for noise in ("flip:0.1", "logit:1", "dropout:0.25", "smoothing:0.1", "cropping:26"):
        answer = psj.compare(model, model, images, labels, defended_noise=noise, starts=pool, budget=options.budget)
        print(f"{noise}: {answer.page().headline}", flush=True)
    if options.data is not None:
        sys.path.insert(0, str(options.data))
        from robust_nets import make_trades_mnist  # of the folder --data

        answer = psj.compare(model, make_trades_mnist(), images, labels, starts=pool, budget=options.budget)
        print(f"trades: {answer.page().headline}", flush=True)


def bands(options: argparse.Namespace) -> None:
    """How often the band holds the whole true curve, by the number of images and the share of misclassified ones."""
    rng = np.random.default_rng(options.seed)
    places = np.linspace(0, 6, 400)
    for count in (30, 100, 300):
        for wrong, noisy in ((0.0, False), (0.1, False), (0.1, True)):
            held = 0
            for study in range(options.studies):
                distances = np.where(rng.uniform(size=count) < wrong, 0.0, rng.gamma(3, 0.5, size=count))
                # Verdicts of 50 answers at points where 5% of the answers are right all the same.
                fooled = rng.binomial(50, 0.05, size=count) / 50 if noisy else None
                answer = robust_accuracy(distances, p_true_adversarial=fooled, seed=study)
                above = (1 - wrong) * np.exp(-2 * places) * (1 + 2 * places + 2 * places**2)
                true = above + (1 - above) * (0.05 if noisy else 0.0)
                place = np.searchsorted(answer.etas, places, side="right") - 1
                held += bool(((answer.low[place] <= true + 1e-12) & (true <= answer.high[place] + 1e-12)).all())
            print(f"images {count}, misclassified {wrong}, noisy {noisy}: {held / options.studies:.3f}", flush=True)


def certify(options: argparse.Namespace) -> None:
    """10,000 simulated radii against the closed form; then 500 images of a plane, certified and attacked."""
    rng = np.random.default_rng(options.seed)
    sigma, samples = 0.5, 10_000
    true = sigma * rng.uniform(0.6, 2.0, size=10_000)
    counts = rng.binomial(samples, torch.special.ndtr(torch.from_numpy(true / sigma)).numpy())
    radius, _ = certified_radius(counts, samples, sigma, 5e-4)  # what `certify` allows a single image
    share = radius / true
    print(f"simulated: {(radius <= true).mean():.4%} at most the true radius; over it: median {np.median(share):.3f}, "
          f"within 10% in {(share >= 0.9).mean():.1%}")  # fmt: skip
    plane = psj.Plane(torch.ones(20), 10.0)
    images = torch.from_numpy(rng.uniform(0.1, 0.45, size=(500, 20)).astype(np.float32))
    answer = psj.certify(plane, images, [0] * 500, 0.25, samples=300, budget=200, seed=options.seed)
    distance = plane.distance(images).numpy()
    found = np.isfinite(answer.found)
    print(f"500 images: radius above the true one {int((answer.radius > distance).sum())}, attack below the true one "
          f"{int((answer.found < distance - 1e-4).sum())}, attack below the radius {len(answer.crossed)}, "
          f"verified points {int(found.sum())}, median found/true {np.median((answer.found / distance)[found]):.3f}, "
          f"median radius/true {np.median(answer.radius / distance):.3f}")  # fmt: skip


def check(options: argparse.Namespace) -> None:
    """Kinds of noise named on classifiers of the tests' generator, in sets of 20, and coverage of the intervals."""
    sys.path.insert(0, str(ROOT / "tests" / "unit" / "questions"))
    from noise_zoo import classifiers

    totals = np.zeros(4, dtype=int)
    for first in range(options.seed, options.seed + options.studies, 20):
        counts = np.zeros(4, dtype=int)  # classifiers, named right, intervals, that cover
        most = 0
        for case in classifiers(range(first, min(first + 20, options.seed + options.studies))):
            answer = psj.check(case.model, case.images, case.labels)
            most = max(most, int(answer.queries.max()))
            pairs = [(answer.noise_at_images.low, case.noise_at_images, answer.noise_at_images.high)]
            if answer.kind == "growing":
                rows = [(row, torch.from_numpy(end)) for row, end in enumerate(answer.line) if end is not None]
                pairs += [(answer.width_low[row], case.width(row, end), answer.width_high[row]) for row, end in rows]
            if answer.kind not in ("constant", "growing"):
                pairs = []
            counts += [1, answer.kind == case.kind, len(pairs), sum(low <= true <= high for low, true, high in pairs)]
            if answer.kind != case.kind:
                print(f"  seed {first + counts[0] - 1}, {case.name}: called {answer.kind}")
        totals += counts
        print(f"seeds {first} to {first + counts[0] - 1}: {counts[1]} of {counts[0]} named right, {counts[3]} of "
              f"{counts[2]} intervals cover the truth, at most {most} queries", flush=True)  # fmt: skip
    print(f"all: {totals[1]} of {totals[0]} named right, {totals[3]} of {totals[2]} intervals "
          f"({totals[3] / max(totals[2], 1):.1%}) cover the truth")  # fmt: skip


STUDIES: dict[str, Any] = {
    "forecast": forecast,
    "compare": compare,
    "defences": defences,
    "bands": bands,
    "certify": certify,
    "check": check,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--budget", type=int, default=5000)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--attacks", default="qsj", help="of `forecast`")
    parser.add_argument("--noises", default=NOISES, help="of `forecast`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="folder of the robust networks, for the last part of `compare`")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("python", " ".join(["benchmarks/questions.py", *sys.argv[1:]]))
    start = time.process_time()
    STUDIES[options.study](options)
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
