from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from noise_toys import roots, seeded
from torch import Tensor, nn

from popskipjump import zoo
from popskipjump.errors import InputError
from popskipjump.noise import Dropout
from popskipjump.oracles import FunctionModel, TorchModel

SHAPES = {
    nn.Dropout: (20,),
    nn.Dropout1d: (20, 1),
    nn.Dropout2d: (20, 1, 1),
    nn.Dropout3d: (20, 1, 1, 1),
    nn.AlphaDropout: (20,),
    nn.FeatureAlphaDropout: (20, 1),
}


class Spy(nn.Module):
    """Shows what comes out of a dropout layer given ones; answers class 0."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...], fold: int = 1) -> None:
        super().__init__()
        self.layer, self.shape, self.fold = layer, shape, fold
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(self.layer(torch.ones(len(x) * self.fold, *self.shape)).clone())
        return x.new_zeros(len(x), 2)


def outputs(layer: nn.Module, rate: float, shape: tuple[int, ...], count: int = 2000) -> Tensor:
    spy = Spy(layer, shape)
    Dropout(rate).sample(TorchModel(spy), torch.zeros(count, 1), roots(count))
    return spy.seen[0]


def test_units_are_dropped_at_the_rate_and_the_rest_is_scaled_up() -> None:
    out = outputs(nn.Dropout(0.9), 0.3, (10,))
    torch.testing.assert_close(out.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert abs(float((out == 0).float().mean()) - 0.3) < 5 * math.sqrt(0.21 / out.numel())


def test_units_are_dropped_independently() -> None:
    dropped = (outputs(nn.Dropout(), 0.5, (6,), 4000) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(6)
    assert float(correlation.abs().max()) < 5 / math.sqrt(4000)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout1d(), (5, 4)),
        (nn.Dropout2d(), (5, 2, 2)),
        (nn.Dropout3d(), (5, 2, 2, 2)),
        (nn.FeatureAlphaDropout(), (5, 4)),
    ],
)
def test_whole_channels_are_dropped_together(layer: nn.Module, shape: tuple[int, ...]) -> None:
    out = outputs(layer, 0.5, shape).flatten(2)
    assert (out == out[..., :1]).all()
    assert not (out[:, :1] == out).all()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_values_are_those_of_the_torch_layer(kind: Any, rate: float) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = kind(rate).train()(torch.ones(50, *SHAPES[kind])).unique()
    torch.testing.assert_close(outputs(kind(), rate, SHAPES[kind]).unique(), expected)


@pytest.mark.parametrize("kind", SHAPES)
def test_rate_one_drops_everything(kind: Any) -> None:
    assert (outputs(kind(), 1.0, SHAPES[kind], 4) == 0).all()


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(kind: Any) -> None:
    class Normal(Spy):
        def forward(self, x: Tensor) -> Tensor:
            generator = torch.Generator().manual_seed(1)
            self.seen.append(self.layer(torch.randn(len(x), 50, 1, generator=generator)))
            return x.new_zeros(len(x), 2)

    spy = Normal(kind(), (50, 1))
    Dropout(0.4).sample(TorchModel(spy), torch.zeros(2000, 1), roots(2000))
    assert abs(float(spy.seen[0].mean())) < 5 / math.sqrt(100_000)
    assert abs(float(spy.seen[0].var()) - 1) < 5 * math.sqrt(2 / 100_000)


def test_a_layer_used_twice_draws_anew() -> None:
    class Twice(Spy):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            return super().forward(x)

    spy = Twice(nn.Dropout(), (30,))
    Dropout(0.5).sample(TorchModel(spy), torch.zeros(20, 1), roots(20))
    agreement = float((spy.seen[0] == spy.seen[1]).float().mean())
    assert abs(agreement - 0.5) < 5 * 0.5 / math.sqrt(600)


def test_two_layers_draw_apart() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Spy(nn.Dropout(), (30,)), Spy(nn.Dropout(), (30,))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.a(x) + self.b(x)
            return result

    pair = Pair()
    Dropout(0.5).sample(TorchModel(pair), torch.zeros(20, 1), roots(20))
    agreement = float((pair.a.seen[0] == pair.b.seen[0]).float().mean())
    assert abs(agreement - 0.5) < 5 * 0.5 / math.sqrt(600)


def test_windows_folded_into_the_batch_keep_to_their_image() -> None:
    spy = Spy(nn.Dropout(), (30,), fold=3)
    Dropout(0.5).sample(TorchModel(spy), torch.zeros(4, 1), roots(4))
    Dropout(0.5).sample(TorchModel(spy), torch.zeros(2, 1), roots(4)[2:])
    assert torch.equal(spy.seen[0][6:], spy.seen[1])


def test_a_tensor_without_the_batch_in_front_is_an_error() -> None:
    class Wrong(Spy):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.layer(x.new_ones(7, len(x))).mean() * x
            return result

    with pytest.raises(InputError, match=r"shape \(7, 3\) for 3 images: its first dimension must be the batch"):
        Dropout(0.5).sample(TorchModel(Wrong(nn.Dropout(), ())), torch.zeros(3, 2), roots(3))


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_an_in_place_layer_does_not_change_the_points(rate: float) -> None:
    model = TorchModel(seeded(nn.Sequential(nn.Dropout(inplace=True), nn.Linear(4, 3))))
    points = torch.ones(6, 4)
    Dropout(rate).sample(model, points, roots(6))
    assert (points == 1).all()


def test_an_in_place_layer_answers_as_the_other() -> None:
    def labels(inplace: bool) -> Tensor:
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(inplace=inplace), nn.Linear(8, 3))
        return Dropout(0.5).sample(TorchModel(seeded(net)), torch.ones(60, 4), roots(60))

    assert torch.equal(labels(True), labels(False))


def test_an_in_place_layer_whose_result_is_not_used_still_drops() -> None:
    class Careless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            x = x + 1
            self.drop(x)
            return x

    answers = Dropout(0.5).sample(TorchModel(Careless()), torch.tensor([[1.0, 0.0]]).expand(50, 2), roots(50))
    assert set(answers.tolist()) == {0, 1}


def test_the_layer_may_be_called_by_keyword() -> None:
    class Keyword(Spy):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.layer(input=x)
            return result

    assert Dropout(0.5).sample(TorchModel(Keyword(nn.Dropout(), ())), torch.zeros(3, 2), roots(3)).shape == (3,)


def fingerprint(module: nn.Module) -> list[tuple[object, ...]]:
    return [
        (m.training, sorted(vars(m)), getattr(m, "p", None), len(m._forward_hooks), len(m._forward_pre_hooks))
        for m in module.modules()
    ]


def test_the_module_is_left_as_it_was(model: TorchModel, points: Tensor) -> None:
    before, weights = fingerprint(model.module), copy.deepcopy(model.module.state_dict())
    expected = model.logits(points)
    Dropout(0.5).sample(model, points, roots(5))
    assert fingerprint(model.module) == before
    assert all(torch.equal(weights[name], value) for name, value in model.module.state_dict().items())
    assert torch.equal(model.logits(points), expected)


def test_the_module_is_left_as_it_was_after_an_exception(model: TorchModel) -> None:
    before = fingerprint(model.module)
    with pytest.raises(RuntimeError):
        Dropout(0.5).sample(model, torch.zeros(5, 3, 6, 6), roots(5))
    assert fingerprint(model.module) == before


def test_a_forward_replaced_by_the_user_is_put_back() -> None:
    layer = nn.Dropout()
    mine = lambda x: x * 2  # noqa: E731
    layer.__dict__["forward"] = mine
    model = TorchModel(nn.Sequential(layer, nn.Linear(2, 2)))
    Dropout(0.5).sample(model, torch.ones(3, 2), roots(3))
    assert layer.forward is mine


def test_a_layer_in_training_mode_draws_nothing_of_its_own(model: TorchModel, points: Tensor) -> None:
    expected = Dropout(0.5).sample(model, points, roots(5))
    for layer in model.module.children():
        layer.train(isinstance(layer, nn.Dropout | nn.Dropout2d))
    state = torch.random.get_rng_state()
    assert torch.equal(Dropout(0.5).sample(model, points, roots(5)), expected)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_module_without_dropout_layers_is_an_error() -> None:
    model = TorchModel(nn.Sequential(nn.Linear(2, 2)))
    for ask in (
        lambda: Dropout(0.5).check(model, (2,)),
        lambda: Dropout(0.5).sample(model, torch.zeros(1, 2), roots(1)),
        lambda: Dropout(0.0).truth(model, torch.zeros(1, 2)),
    ):
        with pytest.raises(InputError, match="Sequential has no dropout layer"):
            ask()


def test_a_function_is_an_error() -> None:
    with pytest.raises(InputError, match="needs a torch module with dropout layers, not a FunctionModel"):
        Dropout(0.5).check(FunctionModel(len), (2,))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_out_of_range_is_an_error(rate: float) -> None:
    with pytest.raises(InputError, match=r"dropout rate must be in \[0, 1\]"):
        Dropout(rate)


def test_a_module_that_gives_labels_can_drop() -> None:
    class Labels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout()

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.drop(x).argmax(dim=1)
            return result

    model = TorchModel(Labels(), output="labels")
    answers = Dropout(0.5).sample(model, torch.tensor([[2.0, 1.0]]).expand(40, 2), roots(40))
    assert set(answers.tolist()) == {0, 1}


def test_a_batch_that_takes_several_calls_has_the_masks_of_its_rows() -> None:
    model, noise = TorchModel(zoo.mnist_model(), optimize=True), Dropout(0.5)
    images = torch.from_numpy(zoo.mnist_images(1000)[0]).repeat(3, 1, 1, 1)
    streams = torch.arange(len(images))
    together = noise.sample(model, images, streams)
    model.plain.call_size.rows = 700  # a network whose layers are wider
    assert float((together == noise.sample(model, images, streams)).double().mean()) > 0.999
    parts = [noise.sample(model, images[i : i + 100], streams[i : i + 100]) for i in range(0, len(images), 100)]
    assert float((together == torch.cat(parts)).double().mean()) > 0.999  # ties of logits in batches of other sizes
