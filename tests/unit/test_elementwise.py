"""Functions whose digits do not depend on a number's place, and no other ones where images share a batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import popskipjump
from popskipjump.elementwise import log_of_sum, logistic, power
from popskipjump.rng import Key, uniform

VALUES = uniform(Key(1).child("values").roots(torch.arange(1)), 3000)[0] * 6 - 3
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "logistic": (logistic, torch.sigmoid),
    "power of 10": (lambda x: power(10.0, x), lambda x: torch.pow(10.0, x)),
    "power": (lambda x: power(x.abs(), 1.7), lambda x: x.abs() ** 1.7),
    "log of sum": (lambda x: log_of_sum(x, 1 - 2 * x), lambda x: torch.logaddexp(x, 1 - 2 * x)),
}
UNEVEN = re.compile(r"\.sigmoid_?\(|logaddexp|softplus|exp2|torch\.pow\(|\.pow\(")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_numbers_digits_do_not_depend_on_its_place(name: str, dtype: torch.dtype) -> None:
    function, reference = FUNCTIONS[name]
    values = VALUES.to(dtype)
    whole = function(values)
    torch.testing.assert_close(whole, reference(values))
    for first, count in [(k, n) for k in (0, 1, 7) for n in (1, 5, 16, 31, 33, 784)]:
        assert torch.equal(function(values[first : first + count].clone()), whole[first : first + count])


def test_the_ends_of_the_range_are_reached() -> None:
    ends = torch.tensor([-1e4, 0.0, 1e4])
    assert logistic(ends).tolist() == [0.0, 0.5, 1.0]
    assert power(torch.tensor([0.0, 1.0]), 2.0).tolist() == [0.0, 1.0]
    assert power(0.0, torch.tensor([0.0, 1.0])).tolist() == [1.0, 0.0]
    assert log_of_sum(torch.tensor([-torch.inf]), torch.tensor([0.0])).tolist() == [0.0]


@pytest.mark.parametrize("part", ["attacks", "sigmoid"])
def test_attacks_use_no_function_whose_digits_depend_on_the_batch(part: str) -> None:
    folder = Path(popskipjump.__file__).parent / part
    found = [
        f"{path.name}: {line.strip()}"
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if UNEVEN.search(line) and not line.strip().startswith("#")
    ]
    assert found == [], "use popskipjump.elementwise"
