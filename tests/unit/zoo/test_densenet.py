"""DenseNet-121 holds what others have trained: the names and the arithmetic of four public layouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from popskipjump.errors import DataError
from popskipjump.runs.source import source_of
from popskipjump.zoo import DenseNet121Cifar, densenet121_key, load_weights
from popskipjump.zoo.densenet import Layout

Names = Callable[[str, int, int], str]
BLOCKS = (6, 12, 24, 16)


def torchvision_name(part: str, block: int, layer: int) -> str:
    heads = {"stem": "features.conv0", "stem norm": "features.norm0", "last": "features.norm5", "head": "classifier"}
    if part in heads:
        return heads[part]
    if part.startswith("down"):
        return f"features.transition{block + 1}.{part.removeprefix('down ')}"
    return f"features.denseblock{block + 1}.denselayer{layer + 1}.{part}"


def old_torchvision_name(part: str, block: int, layer: int) -> str:
    return re.sub(r"(denselayer\d+\.\w+)(\d)$", r"\1.\2", torchvision_name(part, block, layer))


def kuangliu_name(part: str, block: int, layer: int) -> str:
    heads = {"stem": "conv1", "last": "bn", "head": "linear"}
    if part in heads:
        return heads[part]
    short = part.replace("norm", "bn")
    if part.startswith("down"):
        return f"trans{block + 1}.{short.removeprefix('down ')}"
    return f"dense{block + 1}.{layer}.{short}"


def weiaicunzai_name(part: str, block: int, layer: int) -> str:
    heads = {"stem": "conv1", "last": "features.bn", "head": "linear"}
    if part in heads:
        return heads[part]
    if part.startswith("down"):
        return f"features.transition_layer_{block}.down_sample.{['down norm', 'down conv'].index(part)}"
    folder = "dense_block3" if block == 3 else f"dense_block_layer_{block}"
    place = {"norm1": 0, "conv1": 2, "norm2": 3, "conv2": 5}[part]
    return f"features.{folder}.bottle_neck_layer_{layer}.bottle_neck.{place}"


STYLES: dict[str, tuple[Layout, Names]] = {  # layout, names
    "kuangliu": ("kuangliu", kuangliu_name),
    "torchvision": ("torchvision", torchvision_name),
    "old torchvision": ("torchvision", old_torchvision_name),
    "huyvnphan": ("huyvnphan", torchvision_name),
    "weiaicunzai": ("weiaicunzai", weiaicunzai_name),
}


def parts(layout: str, classes: int = 10) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Every part of a DenseNet-121: what, block, layer, the shape of its weight (one number: a normalisation)."""
    yield "stem", 0, 0, (64, 3, 3, 3)
    if layout in {"torchvision", "huyvnphan"}:
        yield "stem norm", 0, 0, (64,)
    channels = 64
    for block, size in enumerate(BLOCKS):
        for layer in range(size):
            yield "norm1", block, layer, (channels,)
            yield "conv1", block, layer, (128, channels, 1, 1)
            yield "norm2", block, layer, (128,)
            yield "conv2", block, layer, (32, 128, 3, 3)
            channels += 32
        if block < 3:
            yield "down norm", block, 0, (channels,)
            yield "down conv", block, 0, (channels // 2, channels, 1, 1)
            channels //= 2
    yield "last", 0, 0, (1024,)
    yield "head", 0, 0, (classes, 1024)


def checkpoint(layout: str, names: Names, classes: int = 10) -> dict[str, Tensor]:
    """Random weights, with the names that a published file has."""
    stream = torch.Generator().manual_seed(0)
    weights: dict[str, Tensor] = {}
    for part, block, layer, shape in parts(layout, classes):
        name = names(part, block, layer)
        if len(shape) == 1:
            for what, low in (("weight", 0.5), ("bias", -0.5), ("running_mean", -0.5), ("running_var", 0.5)):
                weights[f"{name}.{what}"] = low + torch.rand(shape, generator=stream)
            weights[f"{name}.num_batches_tracked"] = torch.tensor(7)
        else:
            fan_in = int(np.prod(shape[1:]))
            weights[f"{name}.weight"] = torch.randn(shape, generator=stream) * (2 / fan_in) ** 0.5
    weights[f"{names('head', 0, 0)}.bias"] = torch.randn(classes, generator=stream)
    return weights


def logits(layout: str, names: Names, weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """What the published program computes, straight from its own names."""

    def norm(x: Tensor, *place: str | int) -> Tensor:
        name = names(*place)  # type: ignore[arg-type]
        mean, var, scale, shift = (weights[f"{name}.{k}"] for k in ("running_mean", "running_var", "weight", "bias"))
        return functional.batch_norm(x, mean, var, scale, shift)

    def conv(x: Tensor, part: str, block: int, layer: int) -> Tensor:
        weight = weights[f"{names(part, block, layer)}.weight"]
        return functional.conv2d(x, weight, padding=weight.shape[-1] // 2)

    x = conv(images, "stem", 0, 0)
    if layout in {"torchvision", "huyvnphan"}:
        x = norm(x, "stem norm", 0, 0).relu()
    if layout == "huyvnphan":
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
    for block, size in enumerate(BLOCKS):
        for layer in range(size):
            new = conv(norm(x, "norm1", block, layer).relu(), "conv1", block, layer)
            new = conv(norm(new, "norm2", block, layer).relu(), "conv2", block, layer)
            x = torch.cat([new, x] if layout == "kuangliu" else [x, new], 1)
        if block < 3:
            x = norm(x, "down norm", block, 0)
            x = functional.avg_pool2d(conv(x if layout == "weiaicunzai" else x.relu(), "down conv", block, 0), 2)
    x = norm(x, "last", 0, 0).relu().mean(dim=(2, 3))
    head = names("head", 0, 0)
    return x @ weights[f"{head}.weight"].T + weights[f"{head}.bias"]


def one_image() -> Tensor:
    return torch.rand((1, 3, 32, 32), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("style", STYLES)
def test_a_published_checkpoint_loads_and_answers_as_its_own_program(tmp_path: Path, style: str) -> None:
    layout, names = STYLES[style]
    weights = checkpoint(layout, names)
    path = tmp_path / "net.safetensors"
    save_file(weights, path)
    net = load_weights(DenseNet121Cifar(layout=layout), path, densenet121_key).eval()
    assert {densenet121_key(key) for key in weights} == set(net.state_dict())
    with torch.no_grad():
        expected = logits(layout, names, weights, one_image())
        torch.testing.assert_close(net(one_image()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("style", ["kuangliu", "torchvision", "huyvnphan", "weiaicunzai"])
def test_every_layout_has_a_name_for_the_command_line(tmp_path: Path, style: str) -> None:
    layout, names = STYLES[style]
    save_file(
        {f"module.{key}": value for key, value in checkpoint(layout, names).items()}, tmp_path / "net.safetensors"
    )
    np.savez(tmp_path / "data.npz", images=np.zeros((1, 3, 32, 32), dtype=np.uint8), labels=np.array([3]))
    model = "cifar-densenet121" if layout == "kuangliu" else f"cifar-densenet121-{layout}"
    source = source_of("cifar10", tmp_path / "data.npz", model, tmp_path / "net.safetensors")
    assert source.classes == 10
    assert source.model.labels(one_image()).shape == (1,)


def test_a_checkpoint_of_another_layout_is_refused_with_the_keys(tmp_path: Path) -> None:
    save_file(checkpoint("torchvision", torchvision_name), tmp_path / "net.safetensors")
    with pytest.raises(DataError, match=re.escape("5 unexpected (stem.norm.bias, ")):
        load_weights(DenseNet121Cifar(layout="kuangliu"), tmp_path / "net.safetensors", densenet121_key)


def test_a_checkpoint_without_a_layer_is_refused_with_its_keys(tmp_path: Path) -> None:
    weights = checkpoint("kuangliu", kuangliu_name)
    del weights["dense3.23.conv2.weight"]
    save_file(weights, tmp_path / "net.safetensors")
    with pytest.raises(DataError, match=re.escape("1 missing (blocks.2.23.conv2.weight)")):
        load_weights(DenseNet121Cifar(), tmp_path / "net.safetensors", densenet121_key)


def test_a_checkpoint_of_more_classes_is_refused_with_both_shapes(tmp_path: Path) -> None:
    save_file(checkpoint("weiaicunzai", weiaicunzai_name, classes=100), tmp_path / "net.safetensors")
    with pytest.raises(DataError, match=re.escape("classifier.weight is (100, 1024), not (10, 1024)")):
        load_weights(DenseNet121Cifar(layout="weiaicunzai"), tmp_path / "net.safetensors", densenet121_key)
