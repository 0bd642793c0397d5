from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.oracles import TorchModel, memory


class Wide(nn.Module):
    """A net whose layers take much more memory than its input, and that remembers its calls."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, channels, 3, padding=1)
        self.rows: list[int] = []

    def forward(self, points: Tensor) -> Tensor:
        self.rows.append(len(points))
        answer: Tensor = self.layer(points).mean(dim=(2, 3))
        return answer


def images(count: int, side: int) -> Tensor:
    return torch.linspace(0, 1, count * side * side).reshape(count, 1, side, side)


def test_a_call_has_as_many_rows_as_the_widest_layer_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LAYER_BYTES", 10 * 4 * 16 * (1 + 7))  # ten rows of 4 x 4, one channel in, seven out
    net, points = Wide(7), images(25, 4)
    model = TorchModel(net)
    model.labels(points[:2])
    assert torch.equal(model.labels(points), TorchModel(net).labels(points))
    assert net.rows == [2, 10, 10, 5, 25]  # another model measures anew, in its first call


def test_the_first_call_of_large_inputs_has_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FIRST_BYTES", 3 * 4 * 16)
    net, points = Wide(2), images(8, 4)
    assert TorchModel(net).labels(points).shape == (8,)
    assert net.rows == [3, 5]


def test_a_frozen_copy_is_measured_by_row_as_the_module_is() -> None:
    plain, fast = TorchModel(Wide(7)), TorchModel(Wide(7), optimize=True)
    for model in (plain, fast):
        model.labels(images(1, 8))
    assert plain.call_size.rows == fast.call_size.rows == memory.LAYER_BYTES // (4 * 64 * 8)


def test_labels_and_gradients_are_those_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LAYER_BYTES", 1)
    net, points = Wide(5), images(6, 4)
    model = TorchModel(net)
    assert torch.allclose(model.log_probs(points), net(points).log_softmax(dim=1))
    net.rows.clear()
    model.margin_gradient(points, torch.zeros(6, dtype=torch.int64))
    assert net.rows == [6]  # only calls without a gradient are divided


class Counting(nn.Module):
    """Answers by the number of its rows at the time of tracing."""

    def forward(self, points: Tensor) -> Tensor:
        weight = torch.arange(4.0) * len(list(points))
        return points.flatten(1)[:, :4] * weight


def test_a_copy_that_holds_its_number_of_rows_is_not_used() -> None:
    model = TorchModel(Counting(), optimize=True)
    points = images(5, 4)
    assert torch.equal(model.labels(points), TorchModel(Counting()).labels(points))
    assert getattr(model.forward, "state", "").startswith("plain")


def test_glibc_keeps_memory_in_a_process_of_its_own() -> None:
    code = """
import resource, popskipjump as psj, torch
done = psj.keep_memory()
size = 8 << 20
for _ in range(20): torch.ones(size)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20): torch.ones(size)
print(done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    glibc = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
    assert told[0] == str(glibc)
    if glibc:
        assert int(told[1]) < 8192  # one tensor has 8,192 pages of 4 KB, twenty have 163,840


def test_no_glibc_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popskipjump.memory.sys.platform", "win32")
    assert psj.keep_memory() is False
