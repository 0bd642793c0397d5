from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.zoo import DenseNet121Cifar, MnistCnn, Normalize, ResNet20Cifar, load_weights, read_npz
from popskipjump.zoo.resnet import BasicBlock


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def random_images(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "count"),
    [
        (MnistCnn(), 21_840),
        (ResNet20Cifar(), 269_722),
        (DenseNet121Cifar(), 6_956_298),
        (DenseNet121Cifar(layout="torchvision"), 6_956_426),
        (DenseNet121Cifar(layout="huyvnphan"), 6_956_426),
    ],
)
def test_the_number_of_parameters_is_the_published_one(module: nn.Module, count: int) -> None:
    assert parameters(module) == count


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (MnistCnn(), (2, 1, 28, 28)),
        (ResNet20Cifar(), (2, 3, 32, 32)),
        (DenseNet121Cifar(), (2, 3, 32, 32)),
        (DenseNet121Cifar(layout="huyvnphan", drop_rate=0.2), (2, 3, 32, 32)),
    ],
)
def test_logits_have_one_row_for_each_image(module: nn.Module, shape: tuple[int, int, int, int]) -> None:
    logits = module.eval()(random_images(*shape))
    assert logits.shape == (2, 10)
    assert torch.isfinite(logits).all()


def test_the_number_of_classes_is_an_argument() -> None:
    assert ResNet20Cifar(classes=7).eval()(random_images(1, 3, 32, 32)).shape == (1, 7)
    assert DenseNet121Cifar(classes=3).classifier.out_features == 3


def test_mnist_dropouts_are_modules_that_a_noise_model_can_find() -> None:
    kinds = [type(m) for m in MnistCnn().modules() if isinstance(m, nn.Dropout | nn.Dropout2d)]
    assert kinds == [nn.Dropout2d, nn.Dropout]


def test_every_dense_layer_has_a_dropout_of_the_given_rate() -> None:
    drops = [m for m in DenseNet121Cifar(drop_rate=0.2).modules() if isinstance(m, nn.Dropout)]
    assert len(drops) == 58
    assert {drop.p for drop in drops} == {0.2}


@pytest.mark.parametrize("layout", ["kuangliu", "torchvision"])
def test_a_dense_layer_puts_its_new_channels_where_the_layout_says(layout: Literal["kuangliu", "torchvision"]) -> None:
    layer = DenseNet121Cifar(layout=layout).eval().get_submodule("blocks.0.0")
    features = random_images(1, 64, 4, 4)
    out = layer(features)
    old = out[:, 32:] if layout == "kuangliu" else out[:, :64]
    assert out.shape == (1, 96, 4, 4)
    torch.testing.assert_close(old, features)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="kuangliu, torchvision"):
        DenseNet121Cifar(layout="other")  # type: ignore[arg-type]  # the fault under test


def test_normalization_is_per_channel_and_not_in_the_weights() -> None:
    layer = Normalize((0.5, 0.0), (0.25, 2.0))
    out = layer(torch.ones(1, 2, 1, 1))
    assert out.flatten().tolist() == [2.0, 0.5]
    assert layer.state_dict() == {}


@pytest.mark.parametrize(("mean", "std"), [((0.5,), (0.5, 0.5)), ((0.5,), (0.0,)), ((0.5,), (float("nan"),))])
def test_a_normalization_that_cannot_be_is_refused(mean: tuple[float], std: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="one std > 0 for each channel"):
        Normalize(mean, std)


def test_mean_without_std_is_refused() -> None:
    with pytest.raises(InputError, match="go together"):
        DenseNet121Cifar(mean=(0.5, 0.5, 0.5))


def test_densenet_normalizes_when_asked() -> None:
    assert isinstance(DenseNet121Cifar(mean=(0.5,) * 3, std=(0.2,) * 3).normalize, Normalize)


def test_the_shortcut_is_a_strided_slice_between_zero_channels() -> None:
    features = random_images(1, 16, 4, 4)
    shortcut = BasicBlock(16, 32, stride=2).shortcut(features)
    assert shortcut.shape == (1, 32, 2, 2)
    torch.testing.assert_close(shortcut[:, 8:24], features[:, :, ::2, ::2])
    assert shortcut[:, :8].abs().sum() == 0
    assert shortcut[:, 24:].abs().sum() == 0


def test_resnet_20_reaches_its_published_accuracy(data_folder: Path) -> None:
    images, labels = read_npz(data_folder / "cifar10_test_first761.npz")
    model = load_weights(ResNet20Cifar(), data_folder / "cifar10_resnet20.safetensors").eval()
    with torch.no_grad():
        predicted = torch.cat([model(part).argmax(1) for part in torch.from_numpy(images).split(100)])
    correct = (predicted.numpy() == labels).mean()
    assert correct == pytest.approx(0.917, abs=0.0005)
