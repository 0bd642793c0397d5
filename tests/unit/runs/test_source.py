"""Sources: images and models with names and digests that follow from their content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import popskipjump as psj
from popskipjump import InputError, UnknownNameError, zoo
from popskipjump.attacks import CheckedPool
from popskipjump.evaluation.inputs import checked_pool, starts_of
from popskipjump.runs.collect import source_of
from popskipjump.types import Bounds

FACTORY = """
import torch

def make():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    with torch.no_grad():
        net[1].weight.fill_(SCALE)
        net[1].bias.zero_()
    return net

def labels():
    return lambda batch: (batch.sum(axis=(1, 2, 3)) > 6).astype("int64")
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "data.npz"
    np.savez(path, images=rng.random((4, 3, 2, 2), dtype=np.float32), labels=np.array([0, 1, 0, 1]))
    return path


@pytest.fixture
def factory(tmp_path: Path) -> Callable[..., str]:
    def write(scale: float = 1.0) -> str:
        path = tmp_path / "mine.py"
        path.write_text(FACTORY.replace("SCALE", str(scale)), encoding="utf-8")
        return f"{path}:make"

    return write


def test_the_embedded_source_is_the_default() -> None:
    source = source_of()
    assert source.images.shape == (1000, 1, 28, 28)
    spec = source.spec(attack="hsj")
    assert (spec.dataset, spec.data, spec.model, spec.weights) == ("mnist", "embedded", "mnist-cnn", "embedded")
    assert source.classes == 10


def test_a_file_is_known_by_its_content_and_not_by_its_path(
    tmp_path: Path, data: Path, factory: Callable[..., str]
) -> None:
    moved = data.rename(tmp_path / "moved.npz")
    one = source_of("file", moved, factory())
    other = tmp_path / "other.npz"
    with np.load(moved) as arrays:
        np.savez_compressed(other, images=arrays["images"], labels=arrays["labels"])
        np.savez(tmp_path / "changed.npz", images=arrays["images"] / 2, labels=arrays["labels"])
    assert source_of("file", other, factory()).data == one.data
    assert source_of("file", tmp_path / "changed.npz", factory()).data != one.data


def test_a_model_of_a_file_is_known_by_its_name_and_content(data: Path, factory: Callable[..., str]) -> None:
    one = source_of("file", data, factory(1.0))
    assert one.model_name == "mine.py:make"
    assert str(data.parent) not in one.spec().text
    assert source_of("file", data, factory(1.0)).weights == one.weights
    assert source_of("file", data, factory(2.0)).weights != one.weights
    one.check(one.spec(seed=3))
    with pytest.raises(InputError, match="the spec says weights"):
        one.check(source_of("file", data, factory(2.0)).spec())


def test_a_function_to_labels_is_a_model_too(data: Path, factory: Callable[..., str]) -> None:
    source = source_of("file", data, factory().replace(":make", ":labels"))
    assert source.classes == 2


def test_a_network_of_the_zoo_takes_weights_of_a_file(tmp_path: Path) -> None:
    images = np.zeros((2, 3, 32, 32), dtype=np.uint8)
    np.savez(tmp_path / "cifar.npz", images=images, labels=np.array([0, 1]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(zoo.ResNet20Cifar().state_dict(), tmp_path / "w.safetensors")
    source = source_of("cifar10", tmp_path / "cifar.npz", weights=tmp_path / "w.safetensors")
    assert (source.model_name, source.classes) == ("cifar-resnet20", 10)
    assert source.place.weights == str(tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("imagenet",), UnknownNameError, "cifar10, file, mnist"),
        (("cifar10",), InputError, "not in the package"),
        (("mnist", None, "resnet"), UnknownNameError, "cifar-densenet121"),
        (("mnist", None, "cifar-resnet20"), InputError, "has no weights in the package"),
        (("mnist", None, "none.py:make"), InputError, "there is no file"),
        (("file", "data.npz"), InputError, "need a model"),
        (("file", "nowhere.npz", "mnist-cnn"), InputError, "there is no file"),
    ],
)
def test_what_is_missing_is_said(
    arguments: tuple[Any, ...], error: type[Exception], said: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    with pytest.raises(error, match=said):
        source_of(*arguments)


def test_the_images_are_checked_as_a_pool_once_for_all_groups() -> None:
    source = source_of()
    pool = source.pool
    assert isinstance(pool, CheckedPool)
    assert source.pool is pool
    assert starts_of(pool, torch.from_numpy(source.images[:2]), Bounds(0.0, 1.0)) is pool


def test_a_pool_that_was_checked_within_other_bounds_is_checked_again() -> None:
    pool = checked_pool(psj.Pool(torch.full((2, 3), 5.0), torch.tensor([0, 1])), Bounds(0.0, 9.0))
    with pytest.raises(InputError, match="2 of 2 pool images leave the bounds"):
        starts_of(pool, torch.zeros(1, 3), Bounds(0.0, 1.0))
