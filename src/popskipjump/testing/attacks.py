"""Contract of every attack."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.evaluation import Hooks, Report, evaluate
from popskipjump.oracles import Classifier, Oracle, Ticket
from popskipjump.testing.borders import known_borders
from popskipjump.testing.claims import claim

BUDGETS = (1, 7, 50, 333)


class _Watch:
    """An oracle that counts the queries of every image and keeps the range of what it saw."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.count: Counter[int] = Counter()
        self.low, self.high = float("inf"), -float("inf")

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        self.count.update(ticket.image.tolist())
        self.low, self.high = min(self.low, float(points.min())), max(self.high, float(points.max()))
        return self.oracle.ask(points, ticket)


class AttackContract:
    """Claims about an attack; a subclass named `Test...` says how to make it.

    `iterations` and `factor` may be changed: how long the attack runs, and how many times as far as the nearest border
    point its median result may then be. `confident` is the smallest share of returned points that must be adversarial
    where answers are certain.
    """

    iterations = 4
    factor = 1.6
    confident = 0.8

    def make_attack(self) -> Any:
        """The attack's configuration, or its name."""
        raise NotImplementedError("say in your subclass how the attack is made")

    def attacked(self, name: str = "plane", rows: list[int] | None = None, **options: Any) -> tuple[Report, _Watch]:
        """Attack the images of a known border; returns the report, and what the oracle saw."""
        case = known_borders()[name]
        noise = options.pop("noise", None)
        watches: list[_Watch] = []

        def wrap(oracle: Oracle) -> Oracle:
            watches.append(_Watch(oracle))
            return watches[-1]

        chosen = torch.arange(len(case.images)) if rows is None else torch.tensor(rows)
        report = evaluate(
            case.model,
            case.images[chosen],
            case.labels[chosen],
            self.make_attack(),
            noise,
            starts=case.starts[chosen],
            image_ids=chosen,
            hooks=Hooks(wrap_oracle=wrap),
            **{"iterations": self.iterations, "verdict": 10} | options,
        )
        return report, watches[0]

    def test_every_known_border_is_approached(self) -> None:
        """The median distance is at most `factor` times the true one, and points are on the adversarial side."""
        found = []
        for name, case in known_borders().items():
            report, _ = self.attacked(name)
            claim(np.isfinite(report.distances).all(), f"{name}: images ended without a point: {report.status}.")
            ratio = report.distances / case.distances.numpy()
            shown = f"{name}: the points are {np.round(ratio, 3)} times as far as the border."
            claim(0.97 <= np.median(ratio) <= self.factor, shown)
            found.append(case.model.labels(torch.from_numpy(report.points)) != case.labels)
        share = float(torch.cat(found).float().mean())
        claim(share >= self.confident, f"{share:.0%} of the returned points are adversarial.")

    def test_every_query_is_counted(self) -> None:
        """The report's queries are those that the classifier saw, with and without noise."""
        for noise in (None, "flip:0.1"):
            report, watch = self.attacked(noise=noise)
            seen = [watch.count[row] for row in range(len(report.queries))]
            claim(report.queries.tolist() == seen, f"{report.queries.tolist()} queries counted, {seen} asked.")

    def test_nothing_leaves_the_bounds(self) -> None:
        """Neither a query nor a returned point."""
        report, watch = self.attacked(noise="flip:0.1")
        low, high = min(watch.low, report.points.min()), max(watch.high, report.points.max())
        claim(low >= 0 and high <= 1, f"points from {low} to {high} in bounds of 0 and 1.")

    def test_distances_are_those_of_the_points(self) -> None:
        """In both norms."""
        for norm in ("l2", "linf"):
            report, _ = self.attacked(norm=norm)
            change = (report.points - report.images).reshape(len(report.points), -1).astype(np.float64)
            size = np.abs(change).max(axis=1) if norm == "linf" else np.sqrt((change**2).sum(axis=1))
            claim(np.allclose(report.distances, size, rtol=1e-5), f"{norm}: {report.distances} said, {size} measured.")

    def test_the_same_seed_gives_the_same_points(self) -> None:
        """To the bit, with noise; another seed gives others."""
        first, second, other = (self.attacked(noise="flip:0.1", seed=seed)[0].points for seed in (0, 0, 1))
        claim(first.tobytes() == second.tobytes(), "two runs of one seed differ: use the streams of `problem.key`.")
        claim(first.tobytes() != other.tobytes(), "another seed changes nothing.")

    def test_images_do_not_influence_each_other(self) -> None:
        """A batch of three is three runs of one."""
        together, _ = self.attacked(noise="flip:0.1")
        for row in range(3):
            alone, _ = self.attacked(noise="flip:0.1", rows=[row])
            same = alone.points[0].tobytes() == together.points[row].tobytes()
            claim(same and alone.queries[0] == together.queries[row], f"image {row} ends elsewhere when it is alone.")

    def test_a_budget_is_never_exceeded(self) -> None:
        """Whatever it is."""
        for budget in BUDGETS:
            report, watch = self.attacked(noise="flip:0.1", budget=budget)
            most = max(watch.count.values(), default=0)
            claim(most <= budget, f"{most} queries of an image with a budget of {budget}.")
            claim(report.queries.max() == most, "the report does not say what was asked.")

    def test_a_classifier_that_never_changes_its_answer_ends_with_a_status(self) -> None:
        """And not with an error or an endless loop."""
        report = evaluate(
            lambda x: np.zeros(len(x), int), np.full((2, 5), 0.5), [0, 0], self.make_attack(), iterations=2
        )
        claim(not any(s.has_point for s in report.status), f"a point was found where there is none: {report.status}.")

    def test_the_attack_is_the_same_below_an_oracle(self) -> None:
        """The way in which a classifier is passed changes nothing."""
        case = known_borders()["plane"]
        wrapped = evaluate(
            Classifier(case.model),
            case.images,
            case.labels,
            self.make_attack(),
            starts=case.starts,
            iterations=self.iterations,
            verdict=10,
        )
        report, _ = self.attacked()
        claim(wrapped.points.tobytes() == report.points.tobytes(), "an oracle and its model give different points.")
