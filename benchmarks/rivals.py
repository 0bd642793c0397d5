"""Our HopSkipJump against Foolbox's and ART's, without noise: time, queries, distance.

    pip install "popskipjump[rivals]"
    python benchmarks/rivals.py --images 100 --repeat 3 --out benchmarks/results/rivals.md

The same net, images, starting points and number of iterations for all; one thread; the attacks take turns. ART takes
its images one by one, so that its time per image does not depend on their number: it gets the first few of them. The
others' own settings are left as they come. The bare net answers the queries of our attack on these few images.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import CLOCKS, Goal, command, correct_images, embedded_pool, header, markdown, save, seconds, spread

import popskipjump as psj

Attack = Callable[[], tuple[np.ndarray, float]]


class CountedNet(torch.nn.Module):
    """The embedded net, counting the rows it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.net = psj.zoo.mnist_model()
        self.rows = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        self.rows += len(x)
        logits: torch.Tensor = self.net(x.to(torch.float32))  # ART's points are float64 with some versions of NumPy
        return logits


def ours(x: np.ndarray, y: np.ndarray, starts: np.ndarray, iterations: int, optimize: bool) -> Attack:
    def work() -> tuple[np.ndarray, float]:
        model = psj.TorchModel(psj.zoo.mnist_model(), optimize=optimize)
        config = psj.HopSkipJump(iterations=iterations)
        report = psj.evaluate(model, x, y, attack=config, starts=starts, verdict=0, keep_trace=False)
        return report.distances, float(report.queries.mean())

    return work


def bare(x: np.ndarray, y: np.ndarray, starts: np.ndarray, iterations: int) -> Attack:
    """The net alone on the queries of our attack, in batches of 512: what no attack that asks them can go below."""
    net, seen = psj.zoo.mnist_model(), []
    hook = net.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    config = psj.HopSkipJump(iterations=iterations)
    report = psj.evaluate(psj.TorchModel(net), x, y, attack=config, starts=starts, verdict=0, keep_trace=False)
    hook.remove()
    queries = torch.cat(seen)[: int(report.queries.sum())]

    def work() -> tuple[np.ndarray, float]:
        with torch.no_grad():
            for batch in torch.split(queries, BATCH):
                net(batch)
        return report.distances, len(queries) / len(x)

    return work


def foolbox(x: np.ndarray, y: np.ndarray, starts: np.ndarray, iterations: int) -> Attack:
    import foolbox as fb

    def work() -> tuple[np.ndarray, float]:
        net = CountedNet().eval()
        model = fb.PyTorchModel(net, bounds=(0, 1), device="cpu")
        attack = fb.attacks.HopSkipJumpAttack(steps=iterations)
        images, labels = torch.from_numpy(x), torch.from_numpy(y)
        points = attack.run(model, images, labels, starting_points=torch.from_numpy(starts))
        return (points - images).flatten(1).norm(dim=1).numpy(), net.rows / len(x)

    return work


def art(x: np.ndarray, y: np.ndarray, starts: np.ndarray, iterations: int) -> Attack:
    from art.attacks.evasion import HopSkipJump
    from art.estimators.classification import PyTorchClassifier

    def work() -> tuple[np.ndarray, float]:
        net = CountedNet().eval()
        classifier = PyTorchClassifier(
            net,
            torch.nn.CrossEntropyLoss(),
            input_shape=x.shape[1:],
            nb_classes=10,
            clip_values=(0, 1),
            device_type="cpu",
        )
        attack = HopSkipJump(classifier, norm=2, max_iter=iterations, verbose=False)
        points = attack.generate(x, y=np.eye(10)[y], x_adv_init=starts)
        return np.linalg.norm((points - x).reshape(len(x), -1), axis=1), net.rows / len(x)

    return work


# which of ours is compared with whom: time per image, ours / theirs
GOALS = {"Foolbox": Goal(1 / 2, 1 / 4), "ART": Goal(1 / 3, 1 / 10)}
OURS, OPTIMISED, BARE = "ours, eager", "ours, optimised", "the bare net, eager, on our queries"
BATCH = 512


def problem(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels, and for each image another that the net takes for another class."""
    x, y = correct_images(count)
    pool = embedded_pool()
    with torch.no_grad():
        seen = psj.zoo.mnist_model()(pool.images).argmax(dim=1).numpy()
    others = [np.flatnonzero((pool.labels.numpy() != label) & (seen != label))[i] for i, label in enumerate(y)]
    return x, y, pool.images.numpy()[others]


def judged(name: str, times: dict[str, list[float]]) -> tuple[str, ...]:
    """Times of ours, of the bare net and of ours with `optimize=True` against an attack's, by repetition; the goal."""
    ratios = [
        [mine / theirs for mine, theirs in zip(times[our], times[name], strict=True)] for our in (OURS, BARE, OPTIMISED)
    ]
    goals = [GOALS[name].judge(float(np.median(values))) for values in ratios] if name in GOALS else []
    verdict = f"eager {goals[0]}; optimised {goals[2]}" if goals else ""
    return (*map(spread, ratios), verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--art-images", type=int, default=10, help="ART takes its images one by one, and long")
    parser.add_argument("--iterations", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: one thread on a busy machine")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x, y, starts = problem(args.images)
    few = slice(args.art_images)
    attacks = {
        OURS: (ours(x, y, starts, args.iterations, optimize=False), len(x)),
        OPTIMISED: (ours(x, y, starts, args.iterations, optimize=True), len(x)),
        BARE: (bare(x[few], y[few], starts[few], args.iterations), len(x[few])),
        "Foolbox": (foolbox(x, y, starts, args.iterations), len(x)),
        "ART": (art(x[few], y[few], starts[few], args.iterations), len(x[few])),
    }
    title = header("HopSkipJump, ours and others", command())
    times: dict[str, list[float]] = {name: [] for name in attacks}
    found = {}
    for _ in range(args.repeat):
        for name, (work, images) in attacks.items():
            taken, found[name] = seconds(work, args.clock)
            times[name].append(taken / images)
            print(name, f"{taken / images:.3f} s/image", f"median L2 {np.median(found[name][0]):.3f}", flush=True)
    rows = [
        (
            name,
            images,
            spread(times[name]),
            f"{found[name][1]:,.0f}",
            f"{np.median(found[name][0]):.3f}",
            f"{np.median(found[name][0][few]):.3f}",
            *judged(name, times),
        )
        for name, (_, images) in attacks.items()
    ]
    columns = ("attack", "images", "s / image", "queries / image", "median L2", f"median L2, first {args.art_images}")
    ratios = (f"{OURS} / this", "bare net / this", f"{OPTIMISED} / this", "goal")
    save(args.out, title + "\n" + markdown((*columns, *ratios), rows))


if __name__ == "__main__":
    main()
