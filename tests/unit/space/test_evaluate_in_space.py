"""`evaluate` within a space: valid inputs alone are asked and returned, and distances are theirs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from space_toys import WEIGHTS, Recording, mixed_rows, mixed_space, score

import popskipjump as psj
from popskipjump import Status
from popskipjump.evaluation.spaced_report import SpacedReport

ATTACKS = ("psj", "qsj", "hsj", "boundary")
QUICK: dict[str, Any] = {"iterations": 4, "budget": 600, "verdict": 10}


def _problem(count: int = 4) -> tuple[np.ndarray, np.ndarray, psj.Pool]:
    rows = mixed_rows(200, 1)
    labels = (score(rows.astype(np.float64)) > 0).astype(np.int64)
    return rows[:count], labels[:count], psj.Pool(torch.from_numpy(rows), torch.from_numpy(labels))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_asked_and_returned_row_is_valid(attack: str, norm: str) -> None:
    rows, labels, pool = _problem()
    model, space = Recording(), mixed_space()
    report = psj.evaluate(model, rows, labels, attack, norm=norm, starts=pool, space=space, **QUICK)
    space.check(model.rows)
    space.check(report.points)
    assert len(model.rows) == report.queries.sum()
    assert np.array_equal(report.points[:, 8], rows[:, 8])
    assert np.allclose(report.distances, space.distance(report.points, rows, norm))
    assert np.isin(model.rows[:, 8], rows[:, 8]).all()


def test_noise_votes_and_starts_from_noise_ask_valid_rows_too() -> None:
    rows, labels, _ = _problem()
    model, space = Recording(), mixed_space()
    wrapped = psj.FunctionModel(model, classes=2)
    report = psj.evaluate(wrapped, rows, labels, "psj", "flip:0.1", votes=3, space=space, **QUICK)
    space.check(model.rows)
    space.check(report.points)
    assert "flip:0.1" in report.title


def test_the_report_says_its_unit_and_how_many_features_may_change() -> None:
    rows, labels, pool = _problem(2)
    text = str(psj.evaluate(Recording(), rows, labels, starts=pool, space=mixed_space(), **QUICK))
    assert "ranges of the features" in text
    assert "8 of 9 features may change" in text


def test_a_returned_point_is_one_that_was_asked_and_changes_the_class() -> None:
    rows, labels, pool = _problem(6)
    model = Recording()
    report = psj.evaluate(model, rows, labels, "hsj", starts=pool, space=mixed_space(), iterations=6)
    asked = {row.tobytes() for row in model.rows}
    assert all(point.tobytes() in asked for point in report.points)
    assert (model(report.points) != labels).all()


SCALES = np.array([1.0, 100.0, 0.01, 5.0, 20.0, 1.0])
NORMAL = np.array([1.0, 0.02, 90.0, -0.1, 0.03, 0.7])


def _plane(rows: np.ndarray) -> np.ndarray:
    return np.asarray((rows.astype(np.float64) @ NORMAL > 3.4).astype(np.int64))


def _plane_problem(count: int) -> tuple[np.ndarray, np.ndarray]:
    rows = (np.random.default_rng(0).uniform(0.35, 0.65, (60, 6)) * SCALES).astype(np.float32)
    rows = rows[_plane(rows) == 0][:count]
    return rows, np.zeros(len(rows), dtype=np.int64)


@pytest.mark.parametrize("attack", ["psj", "qsj", "hsj"])
@pytest.mark.parametrize("free", [slice(None), slice(0, 4)])
def test_the_nearest_point_in_scaled_units_of_the_free_features_is_found(attack: str, free: slice) -> None:
    rows, labels = _plane_problem(6)
    mask = np.zeros(6, bool)
    mask[free] = True
    truth = (3.4 - rows @ NORMAL) / np.linalg.norm((NORMAL * SCALES)[mask])
    report = psj.evaluate(
        _plane, rows, labels, attack, bounds=(np.zeros(6), SCALES), mask=mask, iterations=12, verdict=0
    )
    assert (report.distances >= truth * 0.999).all()
    # of 144 runs over four seeds, the worst ended at 1.16
    assert (report.distances <= truth * 1.35).all(), report.distances / truth


def test_scalar_bounds_and_no_rule_change_no_digit() -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (3, 5)).astype(np.float32)
    labels = (rows.sum(axis=1) > 2.5).astype(np.int64)

    def model(batch: np.ndarray) -> np.ndarray:
        return np.asarray((batch.sum(axis=1) > 2.5).astype(np.int64))

    plain = psj.evaluate(model, rows, labels, **QUICK)
    ruled = psj.evaluate(model, rows, labels, space=psj.Space(0, 1, scale=1, shape=(5,)), **QUICK)
    assert np.array_equal(plain.points, ruled.points)
    assert np.array_equal(plain.queries, ruled.queries)


def test_integers_end_near_the_best_of_all_of_them() -> None:
    normal = np.array([1.0, 0.7, 0.45])

    def model(rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows.astype(np.float64) @ normal > 14.2).astype(np.int64))

    rows = np.array([[3, 3, 3], [5, 2, 4], [1, 6, 2], [4, 4, 4]], dtype=np.float32)
    space = psj.Space(0, 10, integer=[0, 1, 2], scale=1.0, shape=(3,))
    every = np.array(list(itertools.product(range(11), repeat=3)), dtype=np.float32)
    over = every[model(every) == 1]
    best = np.array([np.linalg.norm(over - row, axis=1).min() for row in rows])
    report = psj.evaluate(model, rows, np.zeros(4, dtype=np.int64), "hsj", space=space, iterations=15, verdict=0)
    assert (report.distances >= best - 1e-5).all()
    assert (report.distances <= 1.35 * best).all(), report.distances / best


def _best(row: np.ndarray, label: int) -> float:
    """The nearest valid row of the other class: all combinations of steps and categories, then the two numbers."""
    space, sign = mixed_space(), 1 if label == 0 else -1
    combined = [
        (*row[:2], rooms, grade, *np.eye(3)[colour], town, row[8])
        for rooms, grade, colour, town in itertools.product(range(1, 10), (0, 1, 2, 4), range(3), range(4))
    ]
    every = np.array(combined)
    paid = space.distance(every, np.tile(row, (len(every), 1)))
    need = -sign * score(every)  # what the two numbers must add; nothing if negative
    weight = sign * WEIGHTS[:2] * space.scale[:2]
    low, high = ((end[:2] - row[:2]) / space.scale[:2] for end in (space.low, space.high))
    # Of all changes that add as much, the shortest is along the weights, as far as the bounds let each number go.
    along = np.linspace(0, 20, 20_001)[:, None]
    change = np.clip(along * weight, low, high)
    added, size = change @ weight, np.linalg.norm(change, axis=1)
    place = np.searchsorted(added, need)  # both grow along the line
    far = np.where(place < len(added), size[np.minimum(place, len(added) - 1)], np.inf)
    return float(np.hypot(paid, np.where(need <= 0, 0.0, far)).min())


@pytest.mark.parametrize("attack", ["hsj", "qsj"])
def test_mixed_features_end_near_the_best_of_all_combinations(attack: str) -> None:
    rows, labels, pool = _problem(10)
    best = np.array([_best(row, label) for row, label in zip(rows.astype(np.float64), labels, strict=True)])
    report = psj.evaluate(Recording(), rows, labels, attack, starts=pool, space=mixed_space(), budget=500, verdict=0)
    ratio = report.distances / best
    assert (ratio > 0.995).all()
    # a category that is not needed may stay changed: 1.18 over 16 rows
    assert np.exp(np.log(ratio).mean()) < 1.4, ratio


# Masks of each image.


def _masks(rows: np.ndarray) -> np.ndarray:
    masks = np.ones(rows.shape, bool)
    masks[0, :2] = masks[2, :2] = False
    masks[1, 3] = False
    return masks


@pytest.mark.parametrize("attack", ["psj", "qsj"])
def test_an_image_with_its_own_mask_does_not_depend_on_its_company(attack: str) -> None:
    rows, labels, pool = _problem(4)
    masks, space = _masks(rows), mixed_space()
    quick = QUICK | {"budget": 250}
    together = psj.evaluate(Recording(), rows, labels, attack, starts=pool, space=space, mask=masks, **quick)
    for row in range(4):
        one = slice(row, row + 1)
        alone = psj.evaluate(
            Recording(), rows[one], labels[one], attack, starts=pool, space=space, mask=masks[row],
            image_ids=[row], **quick,
        )  # fmt: skip
        assert np.array_equal(alone.points[0], together.points[row])
        assert alone.queries[0] == together.queries[row]
        assert alone.status[0] is together.status[row]
        assert alone.trace.distance[-1, 0] == together.trace.distance[-1, row]
    assert vars(together)["free"].tolist() == [6, 7, 6, 8]
    frozen = ~masks
    assert np.array_equal(together.points[frozen], rows[frozen])
    assert sum(counts.sum() for counts in together.queries_by_phase.values()) == together.queries.sum()


def test_one_groups_failure_is_not_that_of_the_others() -> None:
    rows, labels, pool = _problem(3)
    masks = _masks(rows)
    fine = Recording()

    def model(batch: np.ndarray) -> np.ndarray:
        if np.isin(batch[:, 8], rows[1, 8]).any():
            raise RuntimeError("no answer for this age")
        return fine(batch)

    report = psj.evaluate(model, rows, labels, starts=pool, space=mixed_space(), mask=masks, **QUICK)
    assert report.status[1] is Status.ORACLE_FAILED
    assert "no answer" in report.messages[1]
    assert np.isinf(report.distances[1])
    assert np.array_equal(report.points[1], rows[1])
    assert report.status[0].has_point
    assert report.status[2].has_point
    assert np.isfinite(report.distances[[0, 2]]).all()
    assert str(report)


def test_an_interruption_ends_the_groups_that_follow() -> None:
    rows, labels, pool = _problem(3)
    calls = itertools.count()
    fine = Recording()

    def model(batch: np.ndarray) -> np.ndarray:
        if next(calls) == 60:
            raise KeyboardInterrupt
        return fine(batch)

    report = psj.evaluate(model, rows, labels, starts=pool, space=mixed_space(), mask=_masks(rows), **QUICK)
    assert report.status == [Status.INTERRUPTED] * 3
    assert report.queries[1] == 0
    assert np.array_equal(report.points[1], rows[1])


# Images.


def test_a_patch_of_an_image_changes_and_nothing_else() -> None:
    images, labels = psj.zoo.mnist_images(3)
    mask = np.zeros((28, 28), bool)
    mask[6:22, 6:22] = True
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(100)))
    report = psj.evaluate(psj.zoo.mnist_model(), images, labels, "qsj", starts=pool, mask=mask, budget=400, verdict=0)
    outside = np.broadcast_to(~mask, images.shape)
    found = [row for row, state in enumerate(report.status) if state.has_point]
    assert found
    assert np.array_equal(report.points[outside], images[outside])
    sizes = np.linalg.norm((report.points - images).reshape(3, -1), axis=1)
    assert np.allclose(report.distances[found], sizes[found], rtol=1e-4)
    assert report.border_distances is not None
    assert (report.border_distances[found] <= report.distances[found] * 1.001).all()


def test_a_scale_of_an_image_divides_its_distances() -> None:
    images, labels = psj.zoo.mnist_images(2)
    model = psj.zoo.mnist_model()
    rest: dict[str, Any] = {"iterations": 3, "verdict": 0}
    plain = psj.evaluate(model, images, labels, "hsj", **rest)
    halved = psj.evaluate(model, images, labels, "hsj", scale=2.0, **rest)
    assert np.allclose(halved.distances, np.linalg.norm((halved.points - images).reshape(2, -1), axis=1) / 2, rtol=1e-4)
    assert (np.abs(np.log(2 * halved.distances / plain.distances)) < 1).all()
    trace = halved.border_trace()
    assert trace.shape == (4, 2)
    assert np.isfinite(trace).all()


def test_the_true_gradient_works_where_every_input_is_valid() -> None:
    images, labels = psj.zoo.mnist_images(2)
    report = psj.evaluate(
        psj.zoo.mnist_model(), images, labels, "psj-true-gradient", scale=0.5, iterations=3, verdict=0
    )
    assert np.isfinite(report.distances).all()


# What is refused, before the first query.


def _nothing(batch: np.ndarray) -> np.ndarray:
    raise AssertionError("asked")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mask": np.zeros(9)}, "no feature free"),
    ({"mask": np.concatenate((np.ones((3, 9)), np.zeros((1, 9))))}, "mask of images 3"),
    ({"mask": np.ones(7)}, "does not fit"),
    ({"mask": np.array([1, 1, 1, 1, 1, 0, 1, 1, 1])}, "some of it is immutable"),
    ({"scale": 2.0}, "leave out"),
    ({"bounds": (0, 5)}, "leave out"),
    ({"bounds": (np.zeros(9), np.ones(9))}, "leave out"),
    ({"space": "table"}, "must be a psj.Space"),
    ({"space": psj.Space(0, 1, shape=(4,))}, "images have the shape"),
    ({"image_ids": [3, 3, 4, 5]}, "same id"),
    ({"attack": "psj-true-gradient"}, "true gradient"),
    ({"labels": [0, 1]}, "labels must be one integer"),
    ({"starts": mixed_rows(3)}, "starts have the shape"),
    ({"starts": mixed_rows(4) * np.float32(1.5)}, "starts break a rule"),
    ({"starts": psj.Pool(torch.full((2, 9), 0.5), torch.tensor([0, 1]))}, "pool images break a rule"),
    ({"images": mixed_rows(4) + np.float32(0.5)}, "images break a rule"),
    ({"space": None, "bounds": (np.zeros(9),)}, "two numbers or two arrays"),
    ({"space": None, "bounds": (np.zeros(9), np.full(9, np.nan))}, "must not exceed"),
    ({"space": None, "bounds": (np.zeros(9), np.ones(8))}, "shape"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSED)
def test_bad_input_is_refused_before_the_first_query(wrong: dict[str, Any], words: str) -> None:
    rows, labels, pool = _problem(4)
    good: dict[str, Any] = {"images": rows, "labels": labels, "starts": pool, "space": mixed_space()}
    if wrong.get("space", "") is None and "bounds" in wrong:
        wrong = wrong | {"mask": np.ones(9)}
    with pytest.raises(psj.InputError, match=words):
        psj.evaluate(_nothing, **good | wrong)


def test_a_report_in_a_space_is_saved_with_its_space(tmp_path: Path) -> None:
    space = psj.Space([0, -np.inf, 0], [1, np.inf, 4], integer=[2], immutable=[1])
    rows = np.array([[0.2, 7.0, 1.0], [0.3, -2.0, 2.0]])
    model = psj.FunctionModel(lambda x: (x[:, 0] + x[:, 2] / 4 > 0.9).astype(int), classes=2)
    report = psj.evaluate(model, rows, [0, 0], "qsj", space=space, budget=100)
    found = psj.load(report.save(tmp_path / "kept"))
    assert isinstance(report, SpacedReport)
    assert isinstance(found, SpacedReport)
    assert found.space == space
    assert found.points.tobytes() == report.points.tobytes()
    assert found.distances.tolist() == report.distances.tolist()
    assert str(found) == str(report)
