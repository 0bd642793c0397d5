"""What holds for every noise model."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from noise_toys import CLASSES, IMAGE, roots, seeded
from torch import Tensor, nn

from popskipjump.noise import (
    BitDepth,
    BoundaryDefence,
    Cropping,
    Dropout,
    Ensemble,
    FeatureNoise,
    Flip,
    Jpeg,
    KnownNoise,
    LogitSampling,
    RandomNoise,
    ResizePad,
    Smoothing,
    Switching,
    correct_probability,
    monte_carlo,
    truth_of,
)
from popskipjump.oracles import Classifier, Counted, Ledger, NoiseModel, PlanarSigmoid, Plane, Ticket, TorchModel
from popskipjump.rng import Key

DRAWS = 4000
MEMBERS = [seeded(nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES)), 3), lambda x: np.full(len(x), 2)]
NOISES = [
    Flip(0.3),
    LogitSampling(0.7),
    Dropout(0.4),
    Smoothing(0.5),
    Cropping(3),
    RandomNoise(0.5),
    BoundaryDefence(0.9, 1.0),
    FeatureNoise(0.7, "4"),
    ResizePad(0.5, 1.0),
    BitDepth(1, 3, -2, 2),
    Jpeg(1, 30),
    Ensemble(MEMBERS),
    Switching(MEMBERS, period=3),
]
ESTIMATED = Dropout | Smoothing | RandomNoise | FeatureNoise
NOISELESS = [
    Flip(0),
    LogitSampling(0),
    Dropout(0),
    Smoothing(0),
    Cropping(6),
    RandomNoise(0),
    BoundaryDefence(0, 5.0),
    BoundaryDefence(1, 0),
    FeatureNoise(0, "0"),
    ResizePad(1.0),
]


@pytest.fixture(params=NOISES, ids=str)
def noise(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_answers_are_as_frequent_as_the_truth_says(noise: Any, model: TorchModel, points: Tensor) -> None:
    truth = noise.truth(model, points, draws=DRAWS, key=Key(1))
    seen = monte_carlo(noise, model, points, draws=DRAWS, key=Key(2))
    tolerance = 5 * (truth.standard_error**2 + seen.standard_error**2).sqrt()
    assert ((seen.probabilities - truth.probabilities).abs() <= tolerance).all()


def test_probabilities_of_the_truth_sum_to_one(noise: Any, model: TorchModel, points: Tensor) -> None:
    truth = noise.truth(model, points, draws=50)
    assert truth.probabilities.shape == truth.standard_error.shape == (5, CLASSES)
    torch.testing.assert_close(truth.probabilities.sum(dim=1), torch.ones(5))


def test_the_noise_is_not_trivial_here(noise: Any, model: TorchModel, points: Tensor) -> None:
    assert (noise.truth(model, points, draws=500).probabilities.amax(dim=1) < 0.999).any()


def test_an_exact_truth_has_no_standard_error(noise: Any, model: TorchModel, points: Tensor) -> None:
    truth = noise.truth(model, points, draws=50)
    assert truth.exact == (not isinstance(noise, ESTIMATED))
    assert (truth.standard_error == 0).all() == truth.exact


def test_an_answer_does_not_depend_on_its_batch(noise: Any, model: TorchModel, points: Tensor) -> None:
    many, streams = points.repeat(40, 1, 1, 1), roots(200)
    whole = noise.sample(model, many, streams)
    order = torch.arange(200).flip(0)
    assert torch.equal(noise.sample(model, many[order], streams[order]), whole[order])
    split = [noise.sample(model, many[i : i + 7], streams[i : i + 7]) for i in range(0, 200, 7)]
    assert torch.equal(torch.cat(split), whole)
    assert torch.equal(noise.sample(model, many[:1], streams[:1]), whole[:1])


def test_equal_rows_get_independent_answers(noise: Any, model: TorchModel, points: Tensor) -> None:
    truth = noise.truth(model, points, draws=DRAWS)
    row = int((truth.probabilities**2).sum(dim=1).argmin())
    pairs = noise.sample(model, points[row].expand(2 * DRAWS, *IMAGE), roots(2 * DRAWS)).reshape(-1, 2)
    agree = float((truth.probabilities[row] ** 2).sum())
    error = (agree * (1 - agree) / DRAWS) ** 0.5 + 2 * float((truth.probabilities * truth.standard_error)[row].sum())
    assert abs(float((pairs[:, 0] == pairs[:, 1]).float().mean()) - agree) < 5 * error


def test_the_same_stream_gives_the_same_answer(noise: Any, model: TorchModel, points: Tensor) -> None:
    assert torch.equal(noise.sample(model, points, roots(5)), noise.sample(model, points, roots(5)))


def test_labels_are_int64_of_one_dimension(noise: Any, model: TorchModel, points: Tensor) -> None:
    labels = noise.sample(model, points, roots(5))
    assert labels.dtype == torch.int64
    assert labels.shape == (5,)


def test_drawing_leaves_the_points_and_the_global_generator_alone(
    noise: Any, model: TorchModel, points: Tensor
) -> None:
    before, state = points.clone(), torch.random.get_rng_state()
    noise.sample(model, points, roots(5))
    noise.truth(model, points, draws=3)
    assert torch.equal(points, before)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_empty_batch_gets_no_answers(noise: Any, model: TorchModel, points: Tensor) -> None:
    assert noise.sample(model, points[:0], roots(0)).shape == (0,)


def test_the_truth_of_no_points_is_empty(noise: Any, model: TorchModel, points: Tensor) -> None:
    model.labels(points)
    assert noise.truth(model, points[:0], draws=2).probabilities.shape == (0, CLASSES)


def test_checking_a_model_that_fits_asks_it_nothing(noise: Any, model: TorchModel) -> None:
    model.module.register_forward_pre_hook(lambda *_: pytest.fail("the model was asked"))
    noise.check(model, IMAGE)


def test_every_noise_has_a_truth(noise: Any) -> None:
    assert isinstance(noise, KnownNoise)


@pytest.mark.parametrize("quiet", NOISELESS, ids=str)
def test_without_noise_the_answer_is_the_models_own(quiet: NoiseModel, model: TorchModel, points: Tensor) -> None:
    assert torch.equal(quiet.sample(model, points, roots(5)), model.labels(points))


@pytest.mark.parametrize("quiet", NOISELESS, ids=str)
def test_without_noise_the_truth_is_certain(quiet: Any, model: TorchModel, points: Tensor) -> None:
    truth = quiet.truth(model, points)
    assert truth.exact
    assert torch.equal(truth.probabilities.argmax(dim=1), model.labels(points))
    assert (truth.probabilities.amax(dim=1) == 1).all()


@pytest.mark.parametrize("value", [noise for noise in NOISES if not isinstance(noise, Ensemble)], ids=str)
def test_a_parametric_noise_is_a_value(value: NoiseModel) -> None:
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)  # noqa: S301


def test_an_oracle_in_chunks_of_any_size_answers_alike(noise: Any, model: TorchModel, points: Tensor) -> None:
    def answers(max_rows: int) -> Tensor:
        oracle = Counted(Classifier(model, noise, seed=3, max_rows=max_rows), Ledger(5), torch.arange(10, 15))
        return oracle.ask(points.repeat_interleave(20, dim=0), Ticket(torch.arange(5).repeat_interleave(20)))

    assert torch.equal(answers(2048), answers(9))


def test_a_share_of_zero_still_has_a_standard_error(model: TorchModel, points: Tensor) -> None:
    seen = monte_carlo(Flip(0), model, points, draws=10)
    assert (seen.standard_error > 0).all()


def test_the_truth_of_a_noise_without_one_is_estimated() -> None:
    plane = Plane(torch.tensor([1.0, 0.0]))
    noise = PlanarSigmoid(plane, slope=1.0, floor=0.1)
    points = torch.tensor([[0.1, 0.0], [-0.3, 1.0]])
    truth = truth_of(noise, plane, points, draws=DRAWS)
    assert not truth.exact
    assert ((truth.probabilities[:, 1] - noise.probability(points)).abs() < 5 * truth.standard_error[:, 1]).all()


def test_the_truth_of_no_noise_is_the_label(model: TorchModel, points: Tensor) -> None:
    assert torch.equal(truth_of(None, model, points).probabilities.argmax(dim=1), model.labels(points))


def test_correct_probability_is_that_of_the_given_label(noise: Any, model: TorchModel, points: Tensor) -> None:
    labels = torch.tensor([0, 1, 2, 3, 0])
    expected = noise.truth(model, points, draws=40, key=Key(5)).probabilities[torch.arange(5), labels]
    assert torch.equal(correct_probability(noise, model, draws=40, key=Key(5))(points, labels), expected)
