"""What is particular to each randomized defence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from listening import listening
from noise_toys import IMAGE, roots
from torch import Tensor, nn

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import BitDepth, BoundaryDefence, FeatureNoise, Jpeg, RandomNoise, ResizePad, Switching
from popskipjump.noise.defences.boundary import largest_of_normals
from popskipjump.oracles import Classifier, Counted, FunctionModel, Ledger, Ticket, TorchModel
from popskipjump.rng import Key, uniform


def keeping(seen: list[torch.Tensor], classes: int = 2) -> FunctionModel:
    """A model that keeps what it is shown."""
    return listening(lambda batch: seen.append(torch.from_numpy(batch)), classes=classes)


def test_random_noise_shows_the_model_valid_inputs_only() -> None:
    seen: list[Any] = []
    RandomNoise(1.0, -0.5, 2.0).sample(keeping(seen), torch.zeros(500, 3), roots(500))
    assert float(seen[0].min()) == -0.5
    assert float(seen[0].max()) == 2.0


def test_random_noise_inside_the_range_has_the_given_spread() -> None:
    seen: list[Any] = []
    RandomNoise(0.05).sample(keeping(seen), torch.full((5000, 4), 0.5), roots(5000))
    noise = seen[0].double() - 0.5
    assert float(noise.std()) == pytest.approx(0.05, rel=5 / math.sqrt(2 * noise.numel()))


class Logits(nn.Module):
    """Its inputs are its logits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_the_boundary_defence_leaves_sure_answers_alone() -> None:
    model = TorchModel(Logits())
    sure = torch.tensor([[3.0, 0.0]]).expand(2000, 2)  # the largest probability is 0.953
    assert (BoundaryDefence(0.95, 9.0).sample(model, sure, roots(2000)) == 0).all()
    assert (BoundaryDefence(0.96, 9.0).sample(model, sure, roots(2000)) == 1).any()


def test_the_boundary_defence_of_two_classes_has_the_probability_of_a_normal() -> None:
    model = TorchModel(Logits())
    gap = torch.tensor([0.0, 0.3, 1.0, 2.0])
    found = BoundaryDefence(1.0, 1.5).truth(model, torch.stack((gap, torch.zeros(4)), dim=1)).probabilities[:, 0]
    torch.testing.assert_close(found, torch.special.ndtr(gap / (1.5 * math.sqrt(2))), atol=2e-6, rtol=0)


def test_equal_means_are_equally_likely_the_largest() -> None:
    for classes in (2, 3, 10, 50):
        found = largest_of_normals(torch.zeros(2, classes, dtype=torch.float64))
        torch.testing.assert_close(found, torch.full_like(found, 1 / classes), atol=1e-12, rtol=0)


def test_a_mean_far_behind_is_never_the_largest() -> None:
    found = largest_of_normals(torch.tensor([[0.0, -60.0, -1e6]]))
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0, 0.0]]))


def test_the_boundary_defence_needs_logits() -> None:
    with pytest.raises(InputError, match="needs logits"):
        BoundaryDefence(0.9, 1).check(FunctionModel(len), IMAGE)


def test_feature_noise_has_the_given_spread_after_the_layer_and_leaves_it_as_it_was(
    model: TorchModel, points: Tensor
) -> None:
    layer = model.module.get_submodule("4")
    clean, noisy = [], []
    hook = layer.register_forward_hook(lambda _, __, output: clean.append(output))
    model.labels(points.repeat(400, 1, 1, 1))
    hook.remove()
    hook = layer.register_forward_hook(lambda _, __, output: noisy.append(output))
    FeatureNoise(0.7, "4").sample(model, points.repeat(400, 1, 1, 1), roots(2000))
    hook.remove()
    noise = (noisy[0] - clean[0]).double()  # (2000, 12)
    assert float(noise.std()) == pytest.approx(0.7, rel=5 / math.sqrt(2 * noise.numel()))
    assert "forward" not in vars(layer)


def test_a_layer_is_as_before_after_an_error(model: TorchModel, points: Tensor) -> None:
    model.module.get_submodule("5").register_forward_hook(lambda *_: pytest.fail("reached"))
    with pytest.raises(pytest.fail.Exception):
        FeatureNoise(0.7, "4").sample(model, points, roots(5))
    assert "forward" not in vars(model.module.get_submodule("4"))


def test_an_unknown_layer_lists_the_known_ones(model: TorchModel) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown layer of Sequential 'fc9': choose one of 0, 1, 2"):
        FeatureNoise(0.7, "fc9").check(model, IMAGE)


def test_feature_noise_needs_a_module() -> None:
    with pytest.raises(InputError, match="needs a torch module"):
        FeatureNoise(0.7, "fc9").check(FunctionModel(len), IMAGE)


def test_resizing_keeps_the_image_whole_somewhere_in_the_frame() -> None:
    seen: list[Any] = []
    ResizePad(0.5, 0.75, fill=-1.0).sample(keeping(seen), torch.ones(600, 1, 8, 8), roots(600))
    shown = torch.cat(seen)  # one call for each size
    inside = shown > 0
    assert set(inside.flatten(1).sum(dim=1).tolist()) == {16, 25, 36}
    torch.testing.assert_close(shown, torch.where(inside, 1.0, -1.0))
    assert inside.any(dim=0).all()  # every pixel is covered by some draw


def test_resizing_tries_every_size_with_equal_weight() -> None:
    model = FunctionModel(lambda x: (x.reshape(len(x), -1).sum(axis=1) > 20).astype(int), classes=2)
    found = ResizePad(0.5, 0.75).truth(model, torch.ones(1, 1, 8, 8))  # 16, 25 or 36 pixels of 1
    assert found.exact
    torch.testing.assert_close(found.probabilities, torch.tensor([[1 / 3, 2 / 3]]))


def test_resizing_without_a_whole_number_of_pixels_is_an_error() -> None:
    with pytest.raises(InputError, match="no whole number of pixels"):
        ResizePad(0.51, 0.6).check(listening(len), (1, 4, 4))


def test_bit_depth_rounds_to_the_nearest_of_evenly_spaced_values() -> None:
    seen: list[Any] = []
    BitDepth(2, 2, -1, 2).sample(keeping(seen), torch.tensor([[-1.0, -0.6, 0.45, 1.4, 2.0]]), roots(1))
    torch.testing.assert_close(seen[0], torch.tensor([[-1.0, -1.0, 0.0, 1.0, 2.0]]))


def test_every_depth_is_equally_likely() -> None:
    model = FunctionModel(lambda x: (x[:, 0] > 0.4).astype(int), classes=2)
    found = BitDepth(1, 4).truth(model, torch.tensor([[0.39]]))  # 0, 1/3, 3/7 and 6/15
    torch.testing.assert_close(found.probabilities, torch.tensor([[0.75, 0.25]]))


def test_compression_of_quality_100_changes_little_and_of_quality_1_much() -> None:
    images = uniform(Key(3).roots(torch.arange(4)), 3 * 16 * 11).reshape(4, 3, 16, 11)
    fine = Jpeg(1, 100).compressed(images, torch.full((4,), 100))
    coarse = Jpeg(1, 100).compressed(images, torch.full((4,), 1))
    assert float((fine - images).abs().max()) < 4 / 255  # every coefficient is off by at most half a step of 1
    assert float((coarse - images).abs().mean()) > 0.1
    assert 0 <= float(coarse.min()) <= float(coarse.max()) <= 1


def test_a_flat_image_survives_compression_up_to_the_step_of_its_mean() -> None:
    flat = torch.full((1, 1, 9, 9), 0.3)
    found = Jpeg(50, 50).compressed(flat, torch.tensor([50]))
    assert float(found.std()) < 1e-6
    assert float((found - flat).abs().max()) <= 1 / 255 + 1e-6  # a step of 16 in a coefficient that is 8 times the mean


def test_compression_acts_on_each_block_alone() -> None:
    images = torch.zeros(1, 1, 16, 16)
    images[..., :8, :8] = uniform(Key(4).root(), 64).reshape(8, 8)
    found = Jpeg(10, 10).compressed(images, torch.tensor([10]))
    assert (found[..., :8, :8] != images[..., :8, :8]).any()
    torch.testing.assert_close(found[..., 8:, 8:], images[..., 8:, 8:], atol=1 / 64, rtol=0)


def test_pictures_are_needed_where_a_defence_reshapes_them() -> None:
    for noise in (ResizePad(0.9), Jpeg(5, 50)):
        with pytest.raises(InputError, match=r"needs images of shape \(C, H, W\)"):
            noise.check(listening(len), (5,))


def answers_in_time(noise: Switching, count: int, images: int = 2) -> torch.Tensor:
    """What each image is answered, in the order of its queries: `(images, count)`."""
    first = FunctionModel(lambda x: np.zeros(len(x), int), classes=3)
    oracle = Counted(Classifier(first, noise), Ledger(images), torch.arange(images))
    parts = [
        oracle.ask(torch.zeros(images * 5, 1), Ticket(torch.arange(images).repeat_interleave(5)))
        for _ in range(count // 5)
    ]
    return torch.cat([part.reshape(images, 5) for part in parts], dim=1)


def members() -> list[FunctionModel]:
    return [listening(len, label, classes=3) for label in (1, 2)]


def test_an_ensemble_that_switches_answers_alike_for_a_whole_period() -> None:
    answers = answers_in_time(Switching(members(), period=20), 2000).reshape(2, 100, 20)
    assert (answers == answers[..., :1]).all()
    assert len(answers[0, :, 0].unique()) == 3
    assert not torch.equal(answers[0], answers[1])  # each image has its own time


def test_an_ensemble_that_switches_gives_every_member_its_share_of_the_time() -> None:
    answers = answers_in_time(Switching(members(), period=2), 6000)
    counts = torch.bincount(answers[:, ::2].flatten(), minlength=3).double()  # of 6,000 periods
    assert float(((counts - 2000) ** 2 / 2000).sum()) < 2 + 14 * 2  # chi-square with 2 degrees: below 1e-6


def test_a_period_of_one_is_an_ensemble() -> None:
    answers = answers_in_time(Switching(members(), period=1), 100)
    assert (answers[:, 1:] != answers[:, :-1]).any()


def test_a_period_must_be_at_least_one() -> None:
    with pytest.raises(InputError, match="period must be a whole number of at least 1"):
        Switching(members(), period=0)
