from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from popskipjump import zoo
from popskipjump.errors import InputError
from popskipjump.noise import Dropout
from popskipjump.oracles import FastForward, TorchModel, threads
from popskipjump.rng import Key, uniform


def is_tracing() -> bool:
    return bool(torch._C._is_tracing())  # torch.jit.is_tracing has no types


def points(count: int, seed: int = 0) -> Tensor:
    images = torch.from_numpy(zoo.mnist_images(1000)[0])
    pick = torch.arange(count) % len(images)
    noise = uniform(Key(seed).roots(torch.arange(count)), 784).reshape(-1, 1, 28, 28)
    share = uniform(Key(seed).child("share").roots(torch.arange(count)), 1).reshape(-1, 1, 1, 1)
    return (1 - share) * images[pick] + share * noise


def test_the_frozen_net_gives_the_labels_of_the_plain_one_on_10000_points_but_for_ties() -> None:
    plain, fast = TorchModel(zoo.mnist_model()), TorchModel(zoo.mnist_model(), optimize=True)
    for part in torch.split(points(10_000), 500):
        with torch.no_grad():
            logits = plain.logits(part)
        top = logits.topk(2, dim=1).values
        differs = fast.labels(part) != logits.argmax(dim=1)
        assert bool(((top[:, 0] - top[:, 1])[differs] < 1e-4).all())
    assert isinstance(fast.forward, FastForward)
    assert fast.forward.state == "frozen"


def test_a_module_that_cannot_be_traced_answers_as_it_is() -> None:
    class Moody(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if not isinstance(x, torch.Tensor) or is_tracing():
                raise RuntimeError("not traceable")
            return x.flatten(1)[:, :3]

    fast = FastForward(Moody())
    x = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fast(x), x[:, :3])
    assert fast.state.startswith("plain: the module cannot be traced")


def test_a_frozen_copy_that_differs_is_not_used() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight if is_tracing() else 2 * x @ self.weight

    fast = FastForward(Branch().eval())
    x = torch.ones(3, 4)
    assert torch.equal(fast(x), 2 * x)
    assert fast.state == "plain: the frozen copy answers differently"


def test_an_optimised_model_still_has_gradients_and_dropout() -> None:
    plain, fast = TorchModel(zoo.mnist_model()), TorchModel(zoo.mnist_model(), optimize=True)
    part = points(20)
    labels = plain.labels(part)
    assert torch.equal(fast.labels(part), labels)
    torch.testing.assert_close(fast.margin_gradient(part, labels), plain.margin_gradient(part, labels))
    roots = Key(1).roots(torch.arange(20))
    assert torch.equal(Dropout(0.9).sample(fast, part, roots), Dropout(0.9).sample(plain, part, roots))
    assert not torch.equal(Dropout(0.9).sample(fast, part, roots), labels)


def test_threads_are_set_inside_and_restored_outside() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with threads(None):
        assert torch.get_num_threads() == before


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_a_number_of_threads_that_is_none_is_refused(count: Any) -> None:
    with pytest.raises(InputError, match="threads must be a whole number"), threads(count):
        pass


def test_rows_that_repeat_are_computed_once_and_answered_each() -> None:
    net = zoo.mnist_model()
    fast, batch = FastForward(net), points(6)
    with torch.no_grad():
        fast(batch)
        seen: list[int] = []
        forward = fast.forward
        assert forward is not None

        def counting(x: Tensor) -> Any:
            seen.append(len(x))
            return forward(x)

        fast.forward = counting
        votes = fast(batch.repeat_interleave(5, dim=0))
        mixed = fast(torch.cat((batch[:1], batch[:1], batch[1:3], batch[:1])))
        assert seen == [6, 4]  # only neighbours count as repeats
        assert torch.equal(votes.argmax(dim=1), net(batch).argmax(dim=1).repeat_interleave(5))
        assert torch.allclose(mixed, net(torch.cat((batch[:1], batch[:1], batch[1:3], batch[:1]))), atol=1e-4)
        single = fast(batch)
    assert seen[2:] == [6]
    assert single.shape == (6, 10)


def test_a_module_that_answers_at_random_is_asked_for_every_row() -> None:
    class Shaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(1e3 * torch.eye(4))

        def forward(self, x: Tensor) -> Tensor:
            scores = x @ self.weight
            return scores + torch.rand_like(scores)

    fast = FastForward(Shaky().eval())
    batch = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)) + 1
    fast(batch)
    assert fast.state == "frozen"  # the noise is far below the tolerance
    answers = fast(batch[:1].repeat(64, 1))
    assert len(answers.unique(dim=0)) > 1
