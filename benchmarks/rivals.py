"""Our HopSkipJump against Foolbox's and ART's, without noise: time, queries, distance.

    pip install "popskipjump[rivals]"
    python benchmarks/rivals.py --images 100 --repeat 3

The same net, images, starting points and number of iterations for all; one thread; the attacks take turns.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch
from common import correct_images, embedded_pool, header, markdown, seconds, spread

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
        return self.net(x)


def ours(x: np.ndarray, y: np.ndarray, starts: np.ndarray, iterations: int, optimize: bool) -> Attack:
    def work() -> tuple[np.ndarray, float]:
        model = psj.TorchModel(psj.zoo.mnist_model(), optimize=optimize)
        config = psj.HopSkipJump(iterations=iterations)
        report = psj.evaluate(model, x, y, attack=config, starts=starts, verdict=0, keep_trace=False)
        return report.distances, float(report.queries.mean())

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
        attack = HopSkipJump(classifier, norm=2, max_iter=iterations, init_eval=100, max_eval=10_000, verbose=False)
        points = attack.generate(x, y=np.eye(10)[y], x_adv_init=starts)
        return np.linalg.norm((points - x).reshape(len(x), -1), axis=1), net.rows / len(x)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x, y = correct_images(args.images)
    pool = embedded_pool()
    others = [np.flatnonzero(pool.labels.numpy() != label)[i] for i, label in enumerate(y)]
    starts = pool.images.numpy()[others]
    # A start must be adversarial for the net as well.
    with torch.no_grad():
        fooled = psj.zoo.mnist_model()(torch.from_numpy(starts)).argmax(dim=1).numpy() != y
    x, y, starts = x[fooled], y[fooled], starts[fooled]
    attacks = {
        "ours, eager": ours(x, y, starts, args.iterations, optimize=False),
        "ours, optimised": ours(x, y, starts, args.iterations, optimize=True),
        "Foolbox": foolbox(x, y, starts, args.iterations),
        "ART": art(x, y, starts, args.iterations),
    }
    print(header("HopSkipJump, ours and others", f"python benchmarks/rivals.py --images {args.images}"))
    times: dict[str, list[float]] = {name: [] for name in attacks}
    found = {}
    for _ in range(args.repeat):
        for name, work in attacks.items():
            taken, found[name] = seconds(work)
            times[name].append(taken / len(x))
            print(name, f"{taken / len(x):.3f} s/image", f"median L2 {np.median(found[name][0]):.3f}", flush=True)
    rows = [
        (
            name,
            spread(times[name]),
            spread([a / b for a, b in zip(times["ours, eager"], times[name], strict=True)]),
            f"{found[name][1]:,.0f}",
            f"{np.median(found[name][0]):.3f}",
        )
        for name in attacks
    ]
    print("\n" + markdown(("attack", "s / image", "ours, eager / this", "queries / image", "median L2"), rows))


if __name__ == "__main__":
    main()
