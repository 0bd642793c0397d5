"""What holds for every attack, whatever it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from invariant_toys import ATTACKS, Linear, digest, images_of, parts, setting, watched
from present import present

import popskipjump
from popskipjump import Bounds, FunctionModel, evaluate
from popskipjump.attacks.directions import packing
from popskipjump.evaluation import Report
from popskipjump.noise import Flip
from popskipjump.oracles import BaseModel

every_attack = pytest.mark.parametrize("attack", ATTACKS)
every_norm = pytest.mark.parametrize("norm", ["l2", "linf"])
every_goal = pytest.mark.parametrize("targeted", [False, True], ids=["untargeted", "targeted"])
every_noise = pytest.mark.parametrize("flip", [0.0, 0.1], ids=["clean", "flips"])
ENDED = {"FINISHED", "BUDGET_SPENT", "BUDGET_TOO_SMALL", "UNCONFIRMED", "NO_START"}  # what a small budget may end in
BUDGETS = (1, 2, 7, 50, 333)
slow = pytest.mark.slow  # the same claim once more, on another setting


@every_attack
@every_norm
@every_goal
@every_noise
def test_the_ledger_equals_what_the_oracle_saw(attack: str, norm: str, targeted: bool, flip: float) -> None:
    report, watch = watched(attack, norm, targeted, flip)
    assert report.queries.tolist() == [watch.count[image] for image in range(3)]
    assert report.queries.tolist() == np.sum(list(report.queries_by_phase.values()), axis=0).tolist()
    assert int(report.queries.min()) > 50


@every_attack
@every_norm
@every_goal
@every_noise
def test_no_point_leaves_the_bounds(attack: str, norm: str, targeted: bool, flip: float) -> None:
    report, watch = watched(attack, norm, targeted, flip)
    assert (watch.low, watch.high) == (0.0, 1.0)  # and they are reached, or nothing would be shown
    for points in (report.points, present(report.trace.points).numpy()):
        assert 0.0 <= points.min() <= points.max() <= 1.0


@every_attack
@every_norm
@every_goal
@every_noise
def test_every_number_is_finite_and_every_image_finished(attack: str, norm: str, targeted: bool, flip: float) -> None:
    report, _ = watched(attack, norm, targeted, flip)
    assert [status.name for status in report.status] == ["FINISHED"] * 3
    assert np.isfinite(report.points).all()
    assert np.isfinite(report.distances).all()
    assert torch.isfinite(report.trace.distance).all()
    assert torch.isfinite(present(report.trace.points)).all()


def adversarial(report: Report, model: BaseModel) -> np.ndarray:
    labels = model.labels(torch.from_numpy(report.points)).numpy()
    result: np.ndarray = labels != report.labels if report.targets is None else labels == report.targets
    return result


@every_attack
def test_without_noise_the_returned_points_are_adversarial(attack: str) -> None:
    runs = [watched(attack, norm, targeted) for norm in ("l2", "linf") for targeted in (False, True)]
    found = np.concatenate([adversarial(report, watch.model) for report, watch in runs])
    # HSJ and the boundary attack return points that were answered adversarial. PSJ and QSJ are 95% confident of each:
    # of 12, seven lie on the other side with a probability of 5e-7.
    assert found.sum() >= (12 if attack in {"hsj", "hsj-psj-radius", "boundary"} else 6)


@every_attack
@every_norm
@every_goal
def test_without_noise_the_verdict_is_the_truth(attack: str, norm: str, targeted: bool) -> None:
    report, watch = watched(attack, norm, targeted)
    assert present(report.verdict).probability.tolist() == adversarial(report, watch.model).tolist()
    assert present(report.verdict).queries.tolist() == [10] * 3


@every_attack
@every_norm
def test_the_distances_are_those_of_the_points(attack: str, norm: str) -> None:
    report, _ = watched(attack, norm, False, 0.1)
    change = (report.points - report.images).reshape(3, -1).astype(np.float64)
    size = np.abs(change).max(axis=1) if norm == "linf" else np.sqrt((change**2).sum(axis=1))
    np.testing.assert_allclose(report.distances, size, rtol=1e-5)


@every_attack
@pytest.mark.parametrize(
    "bounds", [(-0.3, 0.7), pytest.param((100.0, 355.0), marks=slow), pytest.param((-1e-3, 2e-3), marks=slow)]
)
@every_norm
def test_no_point_leaves_odd_bounds(attack: str, bounds: tuple[float, float], norm: str) -> None:
    watch, (images, _), options = setting(norm, flip=0.1)
    low, high = (float(np.float32(b)) for b in bounds)
    box = Bounds(low, high)
    scaled = (low + box.range * images).clamp(low, high)
    model = watch.model
    assert isinstance(model, Linear)
    model.weights /= box.range
    model.offset = -(model.weights * (low + box.range / 2)).sum(dim=1)
    report = evaluate(watch, scaled, watch.model.labels(scaled), ATTACKS[attack], bounds=bounds, **options)
    assert (watch.low, watch.high) == (low, high)
    for points in (report.points, present(report.trace.points).numpy()):
        assert low <= points.min() <= points.max() <= high


@every_attack
@pytest.mark.parametrize("norm", ["l2", pytest.param("linf", marks=slow)])
@every_noise
def test_the_same_seed_gives_the_same_trace(attack: str, norm: str, flip: float) -> None:
    first, _ = watched(attack, norm, False, flip)
    watch, data, options = setting(norm, False, flip)
    assert parts(evaluate(watch, *data, ATTACKS[attack], **options)) == parts(first)


@every_attack
@every_noise
def test_another_seed_gives_another_trace(attack: str, flip: float) -> None:
    first, second = (watched(attack, "l2", False, flip, seed)[0] for seed in (0, 1))
    assert parts(first)["trace distance"] != parts(second)["trace distance"]


@every_attack
@every_norm
@every_goal
@pytest.mark.parametrize("flip", [pytest.param(0.0, marks=slow), 0.1], ids=["clean", "flips"])
def test_a_batch_of_three_equals_three_runs_of_one(attack: str, norm: str, targeted: bool, flip: float) -> None:
    together, _ = watched(attack, norm, targeted, flip)
    for row in range(3):
        watch, (images, labels), options = setting(norm, targeted, flip)
        if targeted:
            options["targets"] = options["targets"][row : row + 1]
        one = slice(row, row + 1)
        alone = evaluate(watch, images[one], labels[one], ATTACKS[attack], image_ids=[row], **options)
        assert parts(alone) == parts(together, row)


@every_attack
@every_noise
def test_the_order_of_a_batch_does_not_matter(attack: str, flip: float) -> None:
    straight, _ = watched(attack, "l2", False, flip)
    watch, (images, labels), options = setting(flip=flip)
    order = [2, 0, 1]
    turned = evaluate(watch, images[order], labels[order], ATTACKS[attack], image_ids=order, **options)
    for row, image in enumerate(order):
        assert parts(turned, row) == parts(straight, image)


@every_attack
@pytest.mark.parametrize("chunk", [256, 5000])
def test_the_size_of_a_chunk_does_not_matter(attack: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = watched(attack, "l2", False, 0.1)
    monkeypatch.setattr(packing, "CHUNK", chunk)
    watch, data, options = setting(flip=0.1)
    assert parts(evaluate(watch, *data, ATTACKS[attack], **options)) == parts(expected)


@every_attack
@pytest.mark.parametrize("rows", [37, pytest.param(1, marks=slow)])
def test_the_rows_that_a_model_is_given_at_once_do_not_matter(attack: str, rows: int) -> None:
    expected, _ = watched(attack, "l2", False, 0.1)
    watch, data, options = setting(flip=0.1, max_rows=rows)
    assert parts(evaluate(watch, *data, ATTACKS[attack], **options)) == parts(expected)


@every_attack
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("votes", [1, 3])
def test_a_budget_is_never_exceeded(attack: str, budget: int, votes: int) -> None:
    for targeted in (False, True):
        watch, data, options = setting("l2", targeted, 0.1)
        report = evaluate(watch, *data, ATTACKS[attack], budget=budget, votes=votes, **options)
        assert report.queries.tolist() == [watch.count[image] for image in range(3)]
        assert max(watch.count.values(), default=0) <= budget


@slow
@every_attack
@pytest.mark.parametrize("budget", range(8, 330, 23))
def test_a_budget_is_never_exceeded_wherever_it_ends(attack: str, budget: int) -> None:
    watch, data, options = setting("l2", False, 0.1)
    report = evaluate(watch, *data, ATTACKS[attack], budget=budget, **options)
    assert report.queries.tolist() == [watch.count[image] for image in range(3)]
    assert max(watch.count.values(), default=0) <= budget
    assert {s.name for s in report.status} <= ENDED


@every_attack
def test_a_larger_budget_than_needed_changes_nothing(attack: str) -> None:
    expected, _ = watched(attack, "l2", False, 0.1)
    watch, data, options = setting(flip=0.1)
    report = evaluate(watch, *data, ATTACKS[attack], budget=100_000, **options)
    assert parts(report) == parts(expected)


@every_attack
def test_a_plain_function_is_counted_too(attack: str) -> None:
    if attack == "psj-true-gradient":
        pytest.skip("a function has no gradient")
    seen = []
    model = Linear()

    def classify(batch: np.ndarray) -> np.ndarray:
        seen.append(len(batch))
        assert batch.dtype == np.float32
        assert 0 <= batch.min() <= batch.max() <= 1
        return model.labels(torch.from_numpy(batch)).numpy()

    _, data, options = setting()
    report = evaluate(FunctionModel(classify, classes=3), *data, ATTACKS[attack], noise=Flip(0.1), **options)
    assert sum(seen) == report.queries.sum()
    # The same noise on the same labels is the same run, however the model is wrapped.
    expected, _ = watched(attack, "l2", False, 0.1)
    assert parts(report) == {k: v for k, v in parts(expected).items() if k != "border distances"}


@every_attack
@pytest.mark.parametrize("shape", [(2,), (5,), (1, 7, 9), (3, 32, 32)], ids=str)
@pytest.mark.parametrize("norm", ["l2", pytest.param("linf", marks=slow)])
def test_images_may_have_any_shape(attack: str, shape: tuple[int, ...], norm: str) -> None:
    watch, data, options = setting(norm, flip=0.05, shape=shape)
    options["iterations"] = 1
    report = evaluate(watch, *data, ATTACKS[attack], **options)
    assert report.points.shape == (3, *shape)
    assert report.queries.tolist() == [watch.count[image] for image in range(3)]
    assert np.isfinite(report.distances).all()
    assert 0.0 <= report.points.min() <= report.points.max() <= 1.0


def as_uint8(images: torch.Tensor) -> torch.Tensor:
    return (images * 255).round().to(torch.uint8)


@pytest.mark.parametrize(
    "attack", [name if name in {"psj", "hsj"} else pytest.param(name, marks=slow) for name in ATTACKS]
)
def test_the_type_of_the_images_does_not_matter(attack: str) -> None:
    whole = as_uint8(images_of())
    model = Linear()
    model.weights /= 255
    labels = model.labels(whole.float())
    kinds: dict[str, Any] = {
        "float32": whole.float(),
        "float64": whole.double(),
        "uint8": whole,
        "int64": whole.long(),
        "numpy float32": whole.float().numpy(),
        "numpy float64": whole.double().numpy(),
        "numpy uint8": whole.numpy(),
        "list": whole.tolist(),
    }
    found = {}
    for kind, images in kinds.items():
        truth = labels.numpy() if "numpy" in kind else labels
        found[kind] = parts(
            evaluate(model, images, truth, ATTACKS[attack], "flip:0.1", bounds=(0, 255), iterations=1, verdict=5)
        )
    for kind, value in found.items():
        assert value == found["float32"], kind


SCRIPT = """
import json, torch
torch.set_num_threads(1)
from invariant_toys import ATTACKS, digest, watched
print(json.dumps({"debug": __debug__, **{name: digest(watched(name, "l2", False, 0.1)[0]) for name in ATTACKS}}))
"""


def test_an_optimised_interpreter_changes_nothing() -> None:
    here = Path(__file__).parent
    folders = (Path(popskipjump.__file__).parents[1], here, here.parent / "toys")
    run = subprocess.run(
        [sys.executable, "-O", "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    assert found.pop("debug") is False
    assert found == {name: digest(watched(name, "l2", False, 0.1)[0]) for name in ATTACKS}
