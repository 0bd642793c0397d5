from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from evaluation_toys import PLANE, Asked, D, images_of, zeros
from present import present
from torch import Tensor

import popskipjump as psj
from popskipjump import Hooks, HopSkipJump, evaluate
from popskipjump.evaluation import Report


@pytest.fixture(scope="module")
def report() -> Report:
    images = images_of(4)
    images[3] = 0.9  # misclassified
    return evaluate(PLANE, images, zeros(4), "psj", noise="flip:0.1", iterations=12, seed=1)


@pytest.fixture(scope="module")
def unlucky() -> Report:
    """An image that finishes, one that is misclassified, one without a start."""
    images = images_of(3)
    images[1] = 0.9
    return evaluate(PLANE, images, [0, 0, 0], targets=[1, 1, 1], starts=starts_with(images), iterations=1)


def starts_with(images: Tensor) -> Tensor:
    starts = torch.ones_like(images)
    starts[2] = 0.01
    return starts


def test_arrays_are_numpy_in_the_order_and_shape_of_the_images(report: Report) -> None:
    assert report.points.shape == report.images.shape == (4, 1, 2, 3)
    assert report.points.dtype == np.float32
    for values, kind in (
        (report.distances, np.float64),
        (report.queries, np.int64),
        (report.labels, np.int64),
        (report.border_distances, np.float64),
    ):
        assert present(values).shape == (4,)
        assert present(values).dtype == kind
    np.testing.assert_array_equal(report.images[:3], images_of(3).numpy())


def test_psj_comes_near_the_border_under_flips(report: Report) -> None:
    truth = PLANE.distance(images_of(4)).numpy()[:3]
    assert (present(report.border_distances)[:3] >= truth * (1 - 1e-4)).all()
    assert np.median(present(report.border_distances)[:3] / truth) < 1.1


def test_the_posterior_of_the_sigmoid_is_reported(report: Report) -> None:
    assert present(report.sigmoid).centre.shape == (4,)
    assert bool(torch.isfinite(present(report.sigmoid).centre[:3]).all())
    assert bool(present(report.sigmoid).centre[3].isnan())  # never searched


def test_an_attack_without_a_sigmoid_reports_none() -> None:
    assert evaluate(PLANE, images_of(), zeros(), HopSkipJump(), iterations=1).sigmoid is None


def test_a_report_says_what_was_run_and_how_it_ended(report: Report) -> None:
    text = str(report)
    first = "psj, noise flip:0.1: 4 of 4 images confirmed adversarial, 1 of them misclassified from the start"
    assert text.splitlines()[0] == first
    assert "    3  FINISHED: all iterations were done" in text
    assert "    1  MISCLASSIFIED:" in text


def test_a_report_gives_medians_over_the_attacked_images(report: Report) -> None:
    text = str(report)
    assert f"L2 distance of the points: median {np.median(report.distances[:3]):,.4g} [" in text
    assert (
        f"L2 border distance (noiseless classifier): median {np.median(present(report.border_distances)[:3]):,.4g} ["
        in text
    )
    assert f"queries per image: median {np.median(report.attack_queries[:3]):,.4g} [" in text
    assert f"direction {np.median(report.queries_by_phase['direction'][:3]):,.0f}" in text
    assert "verdict: P(adversarial) median" in text


def test_votes_and_settings_stand_in_the_title() -> None:
    text = str(evaluate(PLANE, images_of(), zeros(), HopSkipJump(), votes=3, iterations=1))
    assert text.startswith("HopSkipJump, 3 votes, noise none: 3 of 3 images confirmed")


def test_a_report_on_nothing_attacked_prints(unlucky: Report) -> None:
    nothing = evaluate(Asked(lambda b: np.zeros(len(b), dtype=np.int64)), images_of(), zeros())
    assert "NO_START" in str(nothing)
    assert "median" not in str(nothing)
    assert "BAD_START" in str(unlucky)


def test_a_report_without_a_white_box_prints() -> None:
    text = str(evaluate(Asked(), images_of(), zeros(), norm="linf", iterations=1))
    assert "border distance" not in text
    assert "LINF distance of the points" in text


def test_the_phases_add_up_to_the_queries(report: Report) -> None:
    assert (np.sum(list(report.queries_by_phase.values()), axis=0) == report.queries).all()
    assert {"check", "start", "search", "direction", "settle"} <= set(report.queries_by_phase)


def test_the_border_trace_falls_to_the_border(report: Report) -> None:
    trace = report.border_trace()
    assert trace.shape == (13, 4)
    truth = PLANE.distance(images_of(4)).numpy()[:3]
    assert (trace[:, :3] >= truth * (1 - 1e-4)).all()
    assert (trace[0, :3] > trace[-1, :3]).all()
    assert np.median(trace[-1, :3] / truth) < 1.1


def test_the_border_trace_of_a_misclassified_image_is_zero(report: Report) -> None:
    assert (report.border_trace()[:, 3] == 0).all()


def test_the_border_trace_of_an_image_without_a_start_is_infinite(unlucky: Report) -> None:
    assert np.isinf(unlucky.border_trace()[:, 2]).all()
    original = torch.from_numpy(unlucky.images[2]).flatten()
    assert torch.equal(present(unlucky.trace.points)[:, 2], original.expand(2, D))


def test_a_border_trace_needs_a_white_box() -> None:
    report = evaluate(Asked(), images_of(), zeros(), iterations=1)
    assert report.border_distances is None
    with pytest.raises(ValueError, match="white box"):
        report.border_trace()


def test_a_border_trace_needs_the_points() -> None:
    report = evaluate(PLANE, images_of(), zeros(), iterations=1, keep_trace=False)
    assert report.trace.points is None
    assert report.border_distances is not None
    with pytest.raises(ValueError, match="keep_trace=True"):
        report.border_trace()


def test_progress_and_queries_are_told_as_they_come() -> None:
    told: list[Any] = []
    asked: list[int] = []
    report = evaluate(
        PLANE,
        images_of(),
        zeros(),
        iterations=3,
        votes=3,
        hooks=Hooks(on_progress=told.append, on_queries=asked.append),
    )
    assert [p.iteration for p in told] == [0, 1, 2, 3]
    assert sum(asked) == report.queries.sum()


def test_one_image_is_a_batch() -> None:
    report = evaluate(PLANE, images_of(1), [0], iterations=2)
    assert report.points.shape == (1, 1, 2, 3)
    assert "1 images" in str(report)


def test_a_noisy_image_has_its_noise_in_the_trace(report: Report) -> None:
    # Two classes, flips of 10%: both floors are 0.1.
    lost = (report.trace.low + report.trace.high)[:, :3]
    assert float(lost.median()) == pytest.approx(0.2, abs=0.1)


def test_linf_distances_are_smaller_than_l2_ones() -> None:
    l2, linf = (evaluate(PLANE, images_of(), zeros(), norm=norm, iterations=10) for norm in ("l2", "linf"))
    truth = PLANE.distance(images_of(), "linf").numpy()
    assert (linf.distances < l2.distances).all()
    assert (linf.distances < 1.3 * truth).all()
    assert (present(linf.border_distances) >= truth * (1 - 1e-4)).all()
    assert math.isclose(float(np.median(l2.distances / linf.distances)), D**0.5, rel_tol=0.2)


def test_the_majoritys_border_is_the_networks_where_noise_only_hides_it() -> None:
    model, (images, labels) = psj.zoo.mnist_model(), psj.zoo.mnist_images(4)
    found = psj.evaluate(model, images, labels, noise="flip:0.1", budget=150)
    majority = found.majority_border("flip:0.1")
    assert majority.exact
    assert np.allclose(majority.distance.numpy(), present(found.border_distances), rtol=1e-3)


def test_the_majoritys_border_moves_with_crops() -> None:
    model, (images, labels) = psj.zoo.mnist_model(), psj.zoo.mnist_images(4)
    found = psj.evaluate(model, images, labels, noise="cropping:24", budget=150)
    majority = found.majority_border("cropping:24").distance.numpy()
    assert (np.abs(majority / present(found.border_distances) - 1) > 0.01).any()


def test_a_majoritys_border_needs_a_white_box() -> None:
    found = psj.evaluate(lambda batch: (batch.sum(axis=1) > 2).astype(np.int64), np.full((1, 8), 0.1), [0], budget=100)
    with pytest.raises(ValueError, match="white box"):
        found.majority_border("flip:0.1")
