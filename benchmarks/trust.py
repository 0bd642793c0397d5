"""Whether results can be trusted: returned points are judged by the noiseless classifier, or by fresh answers.

python benchmarks/trust.py                 # a quick look
python benchmarks/trust.py --images 200    # the sizes of docs/reliability.md are named there
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import correct_images, embedded_pool, save

import popskipjump as psj
from popskipjump.noise import noise_of
from popskipjump.rng import Key, normal, uniform

NOISELESS = (("qsj", 300), ("qsj", 1000), ("psj", 1500), ("hsj", 1500), ("boundary", 1500))
NOISY = (("qsj", 1000), ("qsj", 4000), ("psj", 4000))
NOISES = ("flip:0.1", "flip:0.25", "logit:1", "smoothing:0.2", "dropout:0.5")


class Row(NamedTuple):
    """One line of a table."""

    case: str
    images: int  # that were attacked
    confirmed: int
    wrong: int  # of these
    unconfirmed: int
    median: float  # queries of the settle phase
    mean: float
    added: float  # mean log-distance of the settle phase
    walked: int  # points that were not adversarial before it; -1 if nobody looked

    def __str__(self) -> str:
        return (
            f"| {self.case} | {self.images} | {self.confirmed} | {self.wrong} | {self.unconfirmed} | {self.median:.0f} "
            f"| {self.mean:.1f} | {self.added:.4f} |"
        )


HEAD = (
    "| case | images | confirmed | of these wrong | unconfirmed | settle queries, median | mean | log-distance |\n"
    "|---|---|---|---|---|---|---|---|"
)


def row_of(case: str, report: psj.Report, adversarial: np.ndarray) -> Row:
    """A report in numbers; adversarial `(B,)` is the truth of its points."""
    attacked = np.array([s.name not in {"MISCLASSIFIED", "NO_START"} for s in report.status])
    good = report.success & attacked
    queries = report.queries_by_phase.get("settle", np.zeros(len(attacked)))[attacked]
    with np.errstate(divide="ignore"):  # a walk may have ended at the image itself
        added = np.log(report.distances[good] / report.walked[good])
    names = Counter(s.name for s in report.status)
    return Row(
        case,
        int(attacked.sum()),
        int(good.sum()),
        int((good & ~adversarial).sum()),
        names["UNCONFIRMED"],
        float(np.median(queries)) if len(queries) else 0.0,
        float(queries.mean()) if len(queries) else 0.0,
        float(added[np.isfinite(added)].mean()) if len(added) else 0.0,
        -1,
    )


def analytic(images: int) -> Iterator[tuple[str, Any, torch.Tensor, torch.Tensor]]:
    """Planes and spheres: name, model, images, labels."""
    for d in (2, 3, 30, 100, 784):
        points = uniform(Key(1).roots(torch.arange(images)), d)
        weight = normal(Key(2).roots(torch.tensor([d])), d)[0]
        plane = psj.Plane(weight, float(weight.sum()) / 2)
        yield f"plane {d}", plane, points, plane.labels(points)
        sphere = psj.Sphere(torch.full((d,), 0.5), float((points - 0.5).norm(dim=1).median()))
        inside = sphere.labels(points) == 0  # from outside, noise is no start
        yield f"sphere {d}", sphere, points[inside], sphere.labels(points[inside])


def noiseless(images: int) -> Iterator[Row]:
    """Every attack and norm on classifiers without noise; the truth is asked alone, one point at a time."""
    for attack, budget in NOISELESS:
        for norm in ("l2", "linf"):
            for name, model, points, labels in analytic(images):
                report = psj.evaluate(model, points, labels, attack, norm=norm, budget=budget)
                alone = torch.cat([model.labels(point[None]) for point in torch.from_numpy(report.points)])
                yield row_of(f"{name}, {attack} {budget}, {norm}", report, (alone != labels).numpy())


def noisy(images: int, noises: list[str], draws: int) -> Iterator[Row]:
    """Noise on the embedded net; the truth is `draws` fresh answers at each point."""
    batch, labels = correct_images(images)
    model, pool = psj.TorchModel(psj.zoo.mnist_model()), embedded_pool()
    for noise in noises:
        for attack, budget in NOISY:
            report = psj.evaluate(model, batch, labels, attack, noise, starts=pool, budget=budget)
            truth = noise_of(noise).truth(model, torch.from_numpy(report.points), draws=draws)  # type: ignore[union-attr]
            right = truth.probabilities[torch.arange(len(labels)), torch.from_numpy(labels)].numpy()
            yield row_of(f"{noise}, {attack} {budget}", report, right < 0.5)


def transient(runs: int) -> str:
    """One image, and a classifier of which 0.5% of the calls fail."""
    done = 0
    for run in range(runs):
        calls = [0]
        fails = uniform(Key(run).child("fails").root(), 20_000)[0] < 0.005
        plane = psj.Plane(torch.ones(20), 10.0)

        def ask(batch: np.ndarray, calls: list[int] = calls, fails: torch.Tensor = fails) -> np.ndarray:
            calls[0] += 1
            if bool(fails[calls[0]]):
                raise TimeoutError("no answer")
            return psj.Plane(torch.ones(20), 10.0).labels(torch.from_numpy(batch)).numpy()

        image = uniform(Key(run).root(), 20) * 0.8
        report = psj.evaluate(ask, image, plane.labels(image), "qsj", budget=300, retry=psj.Retry(wait=0))
        done += int(report.success.all())
    return f"0.5% of calls failing, 1 image: {done} of {runs} runs ended with a confirmed point."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20, help="of each noiseless case")
    parser.add_argument("--noisy-images", type=int, default=10, help="of each noisy case; 0 for none")
    parser.add_argument("--noises", nargs="*", default=list(NOISES))
    parser.add_argument("--draws", type=int, default=1000, help="fresh answers at each point")
    parser.add_argument("--runs", type=int, default=50, help="with a failing classifier")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [HEAD]
    rows = list(noiseless(options.images)) if options.images else []
    total = [sum(getattr(row, name) for row in rows) for name in ("images", "confirmed", "wrong", "unconfirmed")]
    lines += [str(row) for row in rows if row.wrong or row.unconfirmed or row.mean > 10]
    lines.append(
        f"\nNoiseless, {len(rows)} cases: {total[0]} images, {total[1]} confirmed, of these {total[2]} wrong, "
    )
    lines.append(
        f"{total[3]} unconfirmed; settle queries {np.mean([row.mean for row in rows] or [0]):.2f} in the mean.\n"
    )
    if options.noisy_images:
        lines += [HEAD, *map(str, noisy(options.noisy_images, options.noises, options.draws)), ""]
    if options.runs:
        lines.append(transient(options.runs))
    save(options.out, "\n".join(lines))


if __name__ == "__main__":
    main()
