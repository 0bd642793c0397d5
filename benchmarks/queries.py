"""QuickSkipJump beside PopSkipJump and HopSkipJump with votes: queries at equal distance, distances at equal queries.

    python benchmarks/queries.py --sections mnist-clean mnist-flips --out benchmarks/results
    POPSKIPJUMP_DATA=<folder> python benchmarks/queries.py --sections plain-logit cifar-clean cifar-flips cifar-reach

The same images, starting points and seed for all attacks; queries are counted at the classifier, below the votes.
Distances are L2 border distances of the noiseless classifier on the ray of each iteration's point; in the sections
"-own", of the noisy one. PSJ's runs are shared by the sections of one command, and each section writes its page and its
picture as soon as it is done.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import header, markdown, save
from equal_terms import Mark, Ratio, Track, compare, paired
from query_problems import (
    HELD_OUT,
    Measure,
    Problem,
    border,
    cifar,
    elsewhere,
    floors,
    linear,
    log_distances,
    mnist,
    nearest_under_noise,
    nothing,
    other_ways,
    other_ways_cifar,
    plain,
    usual_border,
)

import popskipjump as psj
from popskipjump.attacks import QuickSkipJump
from popskipjump.attacks.acceptance.if_nearer import AcceptIfNearer
from popskipjump.attacks.acceptance.unless_faint import UnlessFaint
from popskipjump.attacks.base import Trace
from popskipjump.attacks.directions.adaptive.estimator import AdaptiveDirections
from popskipjump.attacks.directions.adaptive.radius import AdaptiveRadius
from popskipjump.attacks.directions.adaptive.spectrum_prior import SpectrumPrior
from popskipjump.attacks.searches.warm import WarmStartedSearch
from popskipjump.attacks.starts.given import GivenStart
from popskipjump.attacks.starts.restart import NoRestart
from popskipjump.attacks.steps.straight import FullStep

FRESH = 300  # number of an embedded image
LOOKS = 60  # iterations of a run whose border distances are measured
FEW_LOOKS = 20  # the same, where that takes many answers
SEED = 0
SEEDS = 4  # of QSJ, where its chance is looked at


class Goal(NamedTuple):
    """What a number must be, and should be; at least, or at most."""

    must: float
    aim: float
    most: bool = False

    def judge(self, value: float) -> str:
        """A cell of a table."""
        reached = [value <= bound if self.most else value >= bound for bound in (self.must, self.aim)]
        return "pass, and the aim" if reached[1] else "pass" if reached[0] else "FAIL"

    def cells(self) -> tuple[str, str]:
        """The columns "must" and "aim"."""
        sign = "<=" if self.most else ">="
        return f"{sign} {self.must:g}", f"{sign} {self.aim:g}"


@dataclass(frozen=True)
class Contest:
    """A row, or several, of the table of what must be shown."""

    problem: Callable[[int], Problem]
    images: int
    goals: dict[Mark, Goal]
    geometric: bool = False  # means of log-distances instead of medians
    limit: int | None = None  # of PSJ's n_t, where its own would take days
    measure: Measure = border  # of distances

    @property
    def reference(self) -> str | psj.PopSkipJump:
        """PSJ."""
        return "psj" if self.limit is None else psj.PopSkipJump(count=psj.DirectionCount(limit=self.limit))

    @property
    def length(self) -> tuple[int, int | None]:
        """How long PSJ must run: iterations, and queries if it is these that are told."""
        told = [mark.queries for mark in self.goals if mark.queries is not None]
        if told:
            return 64, max(told)
        return max(mark.iteration or 0 for mark in self.goals), None

    def queries(self, reference: Track) -> int:
        """Queries for QSJ: half as many again as the requirement allows."""
        most = [1.5 * np.median(mark.of(reference)[0]) / goal.must for mark, goal in self.goals.items()]
        return int(max(most)) + 500


@lru_cache(maxsize=4)  # as many as one section makes: traces are large
def run(problem: Problem, attack: Any, iterations: int | None, budget: int | None, votes: int, seed: int) -> Trace:
    """The way of an attack."""
    report = psj.evaluate(
        problem.model,
        problem.images,
        problem.labels,
        attack=attack,
        noise=problem.noise,
        norm=problem.norm,
        targets=problem.targets,
        starts=problem.starts,
        iterations=iterations,
        budget=budget,
        votes=votes,
        seed=seed,
        verdict=0,
    )
    print(
        f"{problem.name}: {attack if isinstance(attack, str) else 'variant'}, {report.queries.mean():,.0f} queries",
        flush=True,
    )
    return report.trace


def track(
    problem: Problem,
    attack: Any,
    iterations: int | None,
    budget: int | None,
    votes: int = 1,
    measure: Measure = border,
    seed: int = SEED,
) -> Track:
    """Run an attack and measure the borders along its way; once for equal arguments, however they are given."""
    return _track(problem, attack, iterations, budget, votes, measure, seed)


@lru_cache(maxsize=64)
def _track(
    problem: Problem, attack: Any, iterations: int | None, budget: int | None, votes: int, measure: Measure, seed: int
) -> Track:
    found = run(problem, attack, iterations, budget, votes, seed)
    if found.points is None:
        raise SystemExit("a run without its trace cannot be measured")
    steps, most = len(found.queries), LOOKS if measure is border else FEW_LOOKS
    looks = np.unique(np.geomspace(1, steps, min(most, steps)).round().astype(int)) - 1
    if steps <= most:
        looks = np.arange(steps)
    logs = [log_distances(problem, found.points[step], found.distance[step], measure) for step in looks]
    return Track(found.queries.numpy()[looks], np.stack(logs), nothing(problem))


def centre_of(geometric: bool) -> Callable[..., np.ndarray]:
    return np.mean if geometric else np.median


def cells(name: str, other: str, mark: Mark, ratio: Ratio, goal: Goal | None) -> tuple[object, ...]:
    value = f"{ratio.value:.2f}" if np.isfinite(ratio.value) else "not reached"
    judged = (*goal.cells(), goal.judge(ratio.value)) if goal is not None else ("", "", "")
    return (
        name,
        other,
        str(mark),
        f"{ratio.distance:.4g} @ {ratio.queries:,.0f}",
        f"{ratio.needed:,.0f}" if np.isfinite(ratio.needed) else "-",
        f"{value} [{ratio.low:.2f} to {ratio.high:.2f}]",
        f"{ratio.curves:.2f}" if np.isfinite(ratio.curves) else "-",
        f"{ratio.difference:+.3f} ± {ratio.error:.3f}",
        *judged,
    )


COLUMNS = (
    "problem",
    "attack",
    "at PSJ's",
    "PSJ",
    "queries",
    "PSJ / attack [95%]",
    "curve / curve",
    "log-difference at equal queries",
)
JUDGED = ("must", "aim", "")


def contest(config: Contest, images: int | None, picture: Path | None) -> str:
    """PSJ, QSJ and HSJ with votes on one problem."""
    problem = config.problem(images or config.images)
    measure = config.measure
    reference = track(problem, config.reference, *config.length, measure=measure)
    centre = centre_of(config.geometric)
    votes = 3 if problem.noise else 1
    others = {
        "QSJ": long_enough(config, problem, reference, centre),
        f"HSJ, {votes} vote{'s' if votes > 1 else ''}": track(
            problem, "hsj", 32, int(np.median(reference.asked[-1])), votes, measure
        ),
    }
    rows = []
    for mark, goal in config.goals.items():
        for name, other in others.items():
            ratio = compare(reference, other, mark, centre)
            rows.append(cells(problem.name, name, mark, ratio, goal if name == "QSJ" else None))
    if picture is not None:
        draw(picture, problem.name, {"PSJ": reference, **others}, centre)
    limit = f" PSJ's n_t is at most {config.limit:,}." if config.limit else ""
    return described(problem) + limit + "\n\n" + markdown((*COLUMNS, *JUDGED), rows)


def under_noise(config: Contest, images: int | None, picture: Path | None) -> str:
    """A contest by the border of the noisy classifier itself; and how near to the net's border its near points are."""
    text = contest(config, images, picture)
    problem = config.problem(images or config.images)
    points, which = nearest_under_noise(problem)
    if points is None:
        return f"{text}\n\nWithout a white box: {which}."
    iterations, _ = config.length
    rows = []
    for measure, name in ((border, "the net's"), (usual_border, "the noisy classifier's")):
        reference = track(problem, config.reference, *config.length, measure=measure)
        values = Mark(iteration=iterations).of(reference)[1], np.log(measure(problem, points))
        shown = [f"{np.exp(centre(v)):.3f}" for v in values for centre in (np.median, np.mean)]
        rows.append((name, *shown))
    columns = ("border", f"PSJ, t={iterations}: median", "geometric mean", "white box: median", "geometric mean")
    return f"{text}\n\nWhite box: {which}.\n\n" + markdown(columns, rows)


def logit_bound(images: int | None, picture: Path | None) -> str:
    """What is left to win under logit sampling: QSJ beside QSJ without any noise, for the distance of PSJ under it."""
    rows = []
    for which, first, count in (("the first", 0, 20), (f"from number {FRESH} on", FRESH, 60)):
        noisy, clean = (mnist(noise, images or count, first) for noise in ("logit:1", None))
        reference = track(noisy, "psj", 8, None)
        for name, problem in (("QSJ", noisy), ("QSJ without noise", clean)):
            ratio = compare(reference, track(problem, "qsj", None, 4000), Mark(iteration=8), np.median)
            rows.append((which, len(noisy.images), *cells(noisy.name, name, Mark(iteration=8), ratio, None)[1:8]))
    columns = ("images", "number", *COLUMNS[1:8])
    return "PSJ under logit sampling with T = 1 is the reference of all rows.\n\n" + markdown(columns, rows)


def smoothing_seeds(images: int | None, picture: Path | None) -> str:
    """How much of a ratio is QSJ's own chance, where its curve is flat: the same images with several seeds."""
    problem, mark, budget = mnist("smoothing:0.2", images or 30), Mark(iteration=16), 40_000
    reference = track(problem, "psj", 16, None)
    rows = []
    for seed in range(SEEDS):
        ratio = compare(reference, track(problem, "qsj", None, budget, seed=seed), mark, np.median)
        rows.append((f"QSJ, seed {seed}", *cells(problem.name, "QSJ", mark, ratio, None)[2:8]))
    return described(problem).replace("seed", "PSJ's seed") + "\n\n" + markdown(("attack", *COLUMNS[2:8]), rows)


def long_enough(config: Contest, problem: Problem, reference: Track, centre: Callable[..., np.ndarray]) -> Track:
    """QSJ with as many queries as the requirement allows, or four times that if some images need them."""
    budget = config.queries(reference)
    ours = track(problem, "qsj", None, budget, measure=config.measure)
    if all(compare(reference, ours, mark, centre).low > 0 for mark in config.goals):
        return ours
    return track(problem, "qsj", None, 4 * budget, measure=config.measure)


def described(problem: Problem) -> str:
    """Which images, and which were used for tuning."""
    noise = problem.noise or "no noise"
    return f"{problem.name}: {len(problem.labels)} images ({problem.which}), {noise}, seed {SEED}. {HELD_OUT}"


def draw(path: Path, title: str, tracks: dict[str, Track], centre: Callable[..., np.ndarray]) -> None:
    """Curves of distance against queries."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name, line in tracks.items():
        places = line.places()
        places = places[places >= line.asked[0].max()]  # from where on every image has a point
        axes.plot(places, np.exp(centre(line.at(places), axis=1)), label=name)
    axes.set(xscale="log", yscale="log", xlabel="queries per image", ylabel="L2 border distance", title=title)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def budget_first(images: int | None, picture: Path | None) -> str:
    """What 1,000 queries give."""
    problem = mnist("flip:0.1", images or 60)
    ours, theirs = (track(problem, attack, None, 1000) for attack in ("qsj", "psj"))
    values = [float(np.exp(np.median(t.at(1000)))) for t in (ours, theirs)]
    goal = Goal(0.6, 0.4, most=True)
    ratio = values[0] / values[1]
    difference, error = paired(theirs, ours, 1000)
    row = (problem.name, f"{values[0]:.3f}", f"{values[1]:.3f}", f"{ratio:.3f}", f"{difference:+.3f} ± {error:.3f}")
    if picture is not None:
        draw(picture, f"{problem.name}, 1,000 queries", {"PSJ": theirs, "QSJ": ours}, np.median)
    columns = ("problem", "QSJ", "PSJ", "ratio", "log-difference", *JUDGED)
    return described(problem) + "\n\n" + markdown(columns, [(*row, *goal.cells(), goal.judge(ratio))])


def floor(images: int | None, picture: Path | None) -> str:
    """How near to the best of two white-box attacks PSJ's own budget brings QSJ."""
    rows, text = [], ""
    goal = Goal(1.15, 1.05, most=True)
    for noise in (None, "flip:0.1"):
        problem = mnist(noise, images or 60)
        best, which = floors(problem)
        if best is None:
            return f"Skipped: {which}"
        reference = track(problem, "psj", 32, None)
        budget = int(np.median(reference.asked[-1]))
        ours = track(problem, "qsj", None, budget)
        ratios = [float(np.exp(np.median(t.at(budget)[0] - np.log(best)))) for t in (ours, reference)]
        rows.append(
            (
                problem.name,
                f"{budget:,}",
                f"{np.median(best):.3f}",
                *(f"{r:.3f}" for r in ratios),
                *goal.cells(),
                goal.judge(ratios[0]),
            )
        )
        text = f"{described(problem)} White box: {which}"
    columns = ("problem", "queries", "white box, median", "QSJ / white box", "PSJ / white box", *JUDGED)
    return text + "\n\n" + markdown(columns, rows)


def reach(images: int | None, picture: Path | None) -> str:
    """Mean queries until L2 <= 1.0 on CIFAR-10."""
    problem, goal = cifar(None, images or 30), Goal(300, 100, most=True)
    rows = []
    for attack in ("qsj", "psj", "hsj"):
        report = psj.evaluate(
            problem.model, problem.images, problem.labels, attack, starts=problem.starts, budget=20_000,
            stop_distance=1.0, verdict=0, keep_trace=False, seed=SEED,
        )  # fmt: skip
        there = report.distances <= 1.0
        mean = float(report.queries.mean())
        judged = (*goal.cells(), goal.judge(mean) if there.all() else "FAIL") if attack == "qsj" else ("", "", "")
        rows.append(
            (
                attack.upper(),
                f"{mean:,.0f}",
                f"{np.median(report.queries):,.0f}",
                f"{there.sum()} of {len(there)}",
                *judged,
            )
        )
    columns = ("attack", "mean queries", "median", "images reached", *JUDGED)
    return described(problem) + "\n\n" + markdown(columns, rows)


PLAIN = AdaptiveDirections(learn_spectrum=False, local=False, centring=0.0, tangential=False)


def others(images: int | None, picture: Path | None) -> str:
    """Classifiers that were never looked at in tuning."""
    return side_by_side(elsewhere(images or 30))


def ways(images: int | None, picture: Path | None) -> str:
    """Borders without noise that are flat, starting points that must be guessed, another norm, and targets."""
    return side_by_side(other_ways(images or 30))


def cifar_ways(images: int | None, picture: Path | None) -> str:
    """Another norm and targets on CIFAR-10."""
    return side_by_side(other_ways_cifar(images or 12))


def side_by_side(problems: list[Problem]) -> str:
    """Geometric means of the distance after equal queries."""
    places, rows = np.array([300, 1000, 3000]), []
    for problem in problems:
        for attack in ("psj", "hsj", "qsj"):
            reached = track(problem, attack, None if attack == "qsj" else 64, 3000).at(places)
            rows.append((problem.name, attack.upper(), *(f"{value:.3f}" for value in np.exp(reached.mean(axis=1)))))
    columns = ("problem", "attack", "after 300 queries", "1,000", "3,000")
    count = len(problems[0].images)
    return f"{count} inputs each, none of them used in tuning, seed {SEED}.\n\n" + markdown(columns, rows)


VARIANTS = {
    "centring": QuickSkipJump(direction=AdaptiveDirections(centring=0.0)),
    "learned spectrum": QuickSkipJump(direction=AdaptiveDirections(learn_spectrum=False)),
    "spectrum prior": QuickSkipJump(direction=AdaptiveDirections(prior=SpectrumPrior(power=0.0))),
    "local directions": QuickSkipJump(direction=AdaptiveDirections(local=False)),
    "tangential directions": QuickSkipJump(direction=AdaptiveDirections(tangential=False)),
    "active bounds": QuickSkipJump(direction=AdaptiveDirections(active_bounds=None)),
    "nearest image of the pool as a start": QuickSkipJump(nearest_start=False),
    "start by large steps and patterns": QuickSkipJump(start=GivenStart(), restart=NoRestart()),
    "arc (a straight step instead)": QuickSkipJump(step=FullStep()),
    "warm start of the search": QuickSkipJump(search=WarmStartedSearch(keep=0.0, uniform=1.0)),
    "deviations in refusals": QuickSkipJump(acceptance=AcceptIfNearer(slack=0.0)),
    "all but the arc and the search": QuickSkipJump(
        direction=PLAIN, start=GivenStart(), restart=NoRestart(), nearest_start=False
    ),
    "all but the learned spectrum and the search": QuickSkipJump(
        direction=AdaptiveDirections(local=False, centring=0.0, tangential=False),
        step=FullStep(),
        start=GivenStart(),
        restart=NoRestart(),
        acceptance=UnlessFaint(),
        nearest_start=False,
    ),
}
NOISY_VARIANTS = {
    "rival weights": QuickSkipJump(direction=AdaptiveDirections(rivals=None)),
    "directions as wide as the transition": QuickSkipJump(
        direction=AdaptiveDirections(radius=AdaptiveRadius(widths=0.0))
    ),
}


_ABLATION = (
    "Positive differences: further away without it. An interval that begins at 0: the goal was not always reached."
)


def ablation(images: int | None, picture: Path | None) -> str:
    """Each part off, one at a time."""
    return without([mnist(None, images or 60), mnist("flip:0.1", images or 60)], VARIANTS)


def cifar_ablation(images: int | None, picture: Path | None) -> str:
    """The same on a larger net."""
    return without([cifar(None, images or 30)], VARIANTS)


def noisy_ablation(images: int | None, picture: Path | None) -> str:
    """The parts that only much noise concerns."""
    return without([mnist(noise, images or 60) for noise in ("flip:0.25", "logit:0.3")], NOISY_VARIANTS)


def without(problems: list[Problem], variants: dict[str, QuickSkipJump]) -> str:
    """Log-distances of variants at equal queries, against the default on the same images."""
    rows = []
    for problem in problems:
        default = track(problem, QuickSkipJump(), None, 3000)
        for name, variant in variants.items():
            other = track(problem, variant, 1000, 3000)
            parts = [paired(default, other, queries) for queries in (500, 1000, 3000)]
            ratio = compare(other, default, Mark(queries=3000), np.median)
            value = f"{ratio.value:.2f}" if np.isfinite(ratio.value) else "below 1"
            need = f"{value} [{ratio.low:.2f} to {ratio.high:.2f}]"
            rows.append((problem.name, name, *(f"{mean:+.3f} ± {error:.3f}" for mean, error in parts), need))
    columns = (
        "problem",
        "off",
        "log-difference at 500",
        "at 1,000",
        "at 3,000",
        "queries, without / with, at equal distance",
    )
    return "\n".join(map(described, problems)) + "\n\n" + _ABLATION + "\n\n" + markdown(columns, rows)


def t(*iterations: int, goal: Goal) -> dict[Mark, Goal]:
    return {Mark(iteration=i): goal for i in iterations}


CIFAR_GOALS = {2_000: Goal(2.5, 4), 5_000: Goal(1.8, 3), 13_000: Goal(1.3, 3)}
CONTESTS = {
    "mnist-clean": Contest(partial(mnist, None), 60, t(16, 32, goal=Goal(3.5, 6))),
    "mnist-flips": Contest(partial(mnist, "flip:0.1"), 60, t(16, 32, goal=Goal(4, 8))),
    "mnist-smoothing": Contest(partial(mnist, "smoothing:0.2"), 30, t(16, goal=Goal(20, 40))),
    "mnist-dropout": Contest(partial(mnist, "dropout:0.5"), 60, t(16, goal=Goal(3, 8)), limit=5_000),
    "mnist-cropping": Contest(partial(mnist, "cropping:26"), 60, t(16, goal=Goal(3, 8)), limit=5_000),
    "mnist-flips-25": Contest(partial(mnist, "flip:0.25"), 60, t(16, goal=Goal(3, 8))),
    "mnist-logit": Contest(partial(mnist, "logit:1"), 20, t(8, goal=Goal(50, 150))),
    "mnist-logit-03": Contest(partial(mnist, "logit:0.3"), 20, t(8, goal=Goal(5, 20))),
    # Gradual noise once more, on images that no earlier state of the attack was reported on.
    "fresh-smoothing": Contest(partial(mnist, "smoothing:0.2", first=FRESH), 60, t(16, goal=Goal(20, 40))),
    "fresh-logit": Contest(partial(mnist, "logit:1", first=FRESH), 60, t(8, goal=Goal(50, 150))),
    "fresh-logit-03": Contest(partial(mnist, "logit:0.3", first=FRESH), 60, t(8, goal=Goal(5, 20))),
    # Another net, which no attack was tuned on.
    "plain-clean": Contest(partial(plain, None), 60, t(16, 32, goal=Goal(3.5, 6))),
    "plain-flips": Contest(partial(plain, "flip:0.1"), 60, t(16, 32, goal=Goal(4, 8))),
    "plain-smoothing": Contest(partial(plain, "smoothing:0.2"), 60, t(16, goal=Goal(20, 40))),
    "plain-logit": Contest(partial(plain, "logit:1"), 60, t(8, goal=Goal(50, 150))),
    "plain-logit-03": Contest(partial(plain, "logit:0.3"), 60, t(8, goal=Goal(5, 20))),
    "cifar-clean": Contest(partial(cifar, None), 30, {Mark(queries=q): g for q, g in CIFAR_GOALS.items()}, True),
    "cifar-flips": Contest(partial(cifar, "flip:0.1"), 30, {Mark(queries=8_000): Goal(3, 5)}, True),
    "linear-100": Contest(partial(linear, 100), 60, t(16, 32, goal=Goal(0.9, 1.5))),
    "linear-3072": Contest(partial(linear, 3072), 30, t(16, 32, goal=Goal(0.9, 1.5))),
}
# The same by the border of the smoothed classifier, where the nearest points of the net's are not its nearest.
OWN = {f"{name}-own": replace(CONTESTS[name], measure=usual_border) for name in ("mnist-smoothing", "fresh-smoothing")}
SECTIONS: dict[str, Callable[[int | None, Path | None], str]] = {
    **{name: partial(contest, config) for name, config in CONTESTS.items()},
    **{name: partial(under_noise, config) for name, config in OWN.items()},
    "budget": budget_first,
    "floor": floor,
    "cifar-reach": reach,
    "others": others,
    "logit-bound": logit_bound,
    "smoothing-seeds": smoothing_seeds,
    "ways": ways,
    "ways-cifar": cifar_ways,
    "ablation": ablation,
    "ablation-cifar": cifar_ablation,
    "ablation-noise": noisy_ablation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=sorted(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--images", type=int, default=None, help="instead of each section's own number")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for section in args.sections:
        words = f"python benchmarks/queries.py --sections {section}" + (
            f" --images {args.images}" if args.images else ""
        )
        picture = None if args.out is None else args.out / f"queries-{section}.png"
        try:
            text = SECTIONS[section](args.images, picture)
        except SystemExit as reason:
            print(f"{section}: {reason}", flush=True)
            continue
        page = None if args.out is None else args.out / f"queries-{section}.md"
        save(page, header(f"Queries: {section}", words) + "\n" + text)


if __name__ == "__main__":
    main()
