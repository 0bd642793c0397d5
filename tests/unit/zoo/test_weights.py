from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from popskipjump.errors import DataError
from popskipjump.zoo import DenseNet121Cifar, densenet121_key, load_weights


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def equal(left: nn.Module, right: nn.Module) -> bool:
    other = right.state_dict()
    return all(torch.equal(value, other[key]) for key, value in left.state_dict().items())


@pytest.fixture
def source() -> Small:
    return Small()


def save(tmp_path: Path, weights: dict[str, Tensor]) -> Path:
    path = tmp_path / "net.safetensors"
    save_file(weights, path)
    return path


def test_weights_come_back_as_they_were_saved(tmp_path: Path, source: nn.Module) -> None:
    target = Small()
    assert load_weights(target, str(save(tmp_path, weights_of(source)))) is target
    assert equal(target, source)


def test_the_prefix_of_data_parallel_is_taken_off(tmp_path: Path, source: nn.Module) -> None:
    path = save(tmp_path, {f"module.{key}": value for key, value in weights_of(source).items()})
    assert equal(load_weights(Small(), path), source)


def test_a_missing_batch_counter_is_no_error(tmp_path: Path, source: nn.Module) -> None:
    weights = weights_of(source)
    del weights["norm.num_batches_tracked"]
    assert equal(load_weights(Small(), save(tmp_path, weights)), source)


def test_names_are_mapped_by_a_function_or_a_mapping(tmp_path: Path, source: nn.Module) -> None:
    path = save(tmp_path, {key.replace("first", "fc"): value for key, value in weights_of(source).items()})
    by_mapping = {"fc.weight": "first.weight", "fc.bias": "first.bias"}
    assert equal(load_weights(Small(), path, rename=by_mapping), source)
    assert equal(load_weights(Small(), path, rename=lambda key: key.replace("fc", "first")), source)


def test_two_keys_of_one_name_are_refused(tmp_path: Path, source: nn.Module) -> None:
    path = save(tmp_path, weights_of(source))
    with pytest.raises(DataError, match="two keys"):
        load_weights(Small(), path, rename=lambda _: "first.weight")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no weights file .*nothing\.safetensors"):
        load_weights(Small(), tmp_path / "nothing.safetensors")


def test_a_pickled_checkpoint_is_refused_with_the_way_to_convert_it(tmp_path: Path, source: nn.Module) -> None:
    path = tmp_path / "net.pt"
    torch.save(source.state_dict(), path)
    with pytest.raises(DataError, match="weights_only=True"):
        load_weights(Small(), path)


def test_a_truncated_file_is_refused(tmp_path: Path, source: nn.Module) -> None:
    path = save(tmp_path, weights_of(source))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match="not a \\(complete\\) safetensors file"):
        load_weights(Small(), path)


def test_missing_and_unexpected_keys_are_listed_and_nothing_is_changed(tmp_path: Path, source: nn.Module) -> None:
    weights = weights_of(source)
    weights["other.weight"] = weights.pop("first.weight")
    target = Small()
    before = weights_of(target)
    expected = "1 missing (first.weight) and 1 unexpected (other.weight)"
    with pytest.raises(DataError, match=re.escape(expected)):
        load_weights(target, save(tmp_path, weights))
    assert all(torch.equal(value, before[key]) for key, value in target.state_dict().items())


def test_a_long_list_of_keys_is_shortened(tmp_path: Path) -> None:
    path = save(tmp_path, {f"k{i}": torch.zeros(1) for i in range(9)})
    with pytest.raises(DataError, match=r"9 unexpected \(k0, k1, k2, k3, k4, \.\.\.\)"):
        load_weights(Small(), path)


def test_wrong_shapes_are_listed(tmp_path: Path, source: nn.Module) -> None:
    weights = weights_of(source) | {"first.bias": torch.zeros(5)}
    with pytest.raises(DataError, match=re.escape("first.bias is (5,), not (2,)")):
        load_weights(Small(), save(tmp_path, weights))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("features.conv0.weight", "stem.conv.weight"),
        ("features.norm0.running_mean", "stem.norm.running_mean"),
        ("features.denseblock1.denselayer1.norm1.weight", "blocks.0.0.norm1.weight"),
        ("features.denseblock3.denselayer24.conv.2.weight", "blocks.2.23.conv2.weight"),
        ("features.transition2.norm.bias", "transitions.1.norm.bias"),
        ("features.norm5.running_var", "norm.running_var"),
        ("classifier.bias", "classifier.bias"),
        ("conv1.weight", "stem.conv.weight"),
        ("dense4.15.bn2.weight", "blocks.3.15.norm2.weight"),
        ("dense1.0.conv1.weight", "blocks.0.0.conv1.weight"),
        ("trans3.bn.bias", "transitions.2.norm.bias"),
        ("trans1.conv.weight", "transitions.0.conv.weight"),
        ("bn.weight", "norm.weight"),
        ("linear.weight", "classifier.weight"),
        ("blocks.0.0.norm1.weight", "blocks.0.0.norm1.weight"),
    ],
)
def test_published_densenet_names_are_understood(theirs: str, ours: str) -> None:
    assert densenet121_key(theirs) == ours


def test_densenet_names_of_its_own_stay() -> None:
    assert all(densenet121_key(key) == key for key in DenseNet121Cifar(layout="torchvision").state_dict())
