"""Our attacks as attacks of Foolbox."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor, nn

import popskipjump as psj
from popskipjump.errors import InputError
from popskipjump.rng import Key, uniform

fb = pytest.importorskip("foolbox", reason="the extra foolbox is not installed")

from popskipjump.integrations.foolbox import PopSkipJumpAttack, QuickSkipJumpAttack  # noqa: E402

ATTACKS = {"psj": PopSkipJumpAttack, "qsj": QuickSkipJumpAttack}
every_attack = pytest.mark.parametrize("name", ATTACKS)


class Net(nn.Module):
    """Three classes by linear logits; `seen` counts the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = uniform(Key(1).child("net").roots(torch.arange(3)), 16) - 0.5
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return (x.flatten(1) - 0.5) @ self.weight.T


def problem(low: float = 0.0, high: float = 1.0, **options: Any) -> tuple[Net, Any, Tensor, Tensor]:
    net = Net().eval()
    unit = uniform(Key(2).child("images").roots(torch.arange(4)), 16).reshape(4, 1, 4, 4)
    if (low, high) == (0.0, 1.0):
        model = fb.PyTorchModel(net, bounds=(0, 1), device="cpu", **options)
    else:
        scale = {"mean": [low], "std": [high - low], "axis": -3}
        model = fb.PyTorchModel(net, bounds=(low, high), device="cpu", preprocessing=scale)
    images = low + (high - low) * unit
    return net, model, images, model(images).argmax(dim=1)


@every_attack
def test_the_attack_gives_what_evaluate_gives_and_counts_what_the_model_saw(name: str) -> None:
    net, model, images, labels = problem()
    attack = ATTACKS[name](iterations=3, verdict=10, seed=4)
    net.seen = 0
    found = attack.run(model, images, labels)
    assert net.seen == present(attack.report).queries.sum()
    expected = psj.evaluate(Net(), images, labels, name, iterations=3, verdict=10, seed=4)
    assert found.numpy().tobytes() == expected.points.tobytes()


@every_attack
def test_a_call_with_epsilons_follows_the_conventions_of_foolbox(name: str) -> None:
    _, model, images, labels = problem()
    attack = ATTACKS[name](budget=600)
    raw, clipped, success = attack(model, images, fb.criteria.Misclassification(labels), epsilons=[1e-4, 5.0, None])
    assert len(raw) == len(clipped) == 3
    assert success.shape == (3, 4)
    assert not success[0].any()
    assert success[1].all()
    assert torch.equal(raw[1], clipped[1])
    assert float((clipped[0] - images).flatten(1).norm(dim=1).max()) <= 1e-4 * 1.01


def test_one_epsilon_gives_one_tensor() -> None:
    _, model, images, labels = problem()
    raw, clipped, success = PopSkipJumpAttack(iterations=2)(model, images, labels, epsilons=None)
    assert raw.shape == clipped.shape == images.shape
    assert success.shape == (4,)


@every_attack
def test_bounds_and_preprocessing_of_the_model_are_used(name: str) -> None:
    _, model, images, labels = problem(-3.0, 5.0)
    attack = ATTACKS[name](iterations=3)
    points = attack.run(model, images, labels)
    assert float(points.min()) >= -3.0
    assert float(points.max()) <= 5.0
    unit = ATTACKS[name](iterations=3)
    _, plain, small, _ = problem()
    unit.run(plain, small, labels)
    np.testing.assert_allclose(present(attack.report).distances, 8 * present(unit.report).distances, rtol=0.15)


@every_attack
def test_targets_and_starting_points_are_used(name: str) -> None:
    _, model, images, labels = problem()
    targets = (labels + 1) % 3
    pool = uniform(Key(7).root(), 16 * 200).reshape(200, 1, 4, 4)
    answers = model(pool).argmax(dim=1)
    starts = torch.stack([pool[answers == t][0] for t in targets])
    attack = ATTACKS[name](iterations=2)
    points = attack.run(model, images, fb.criteria.TargetedMisclassification(targets), starting_points=starts)
    reached = model(points).argmax(dim=1) == targets
    assert int(reached.sum()) >= 3  # a point of PSJ is on the right side with 95% confidence
    nearer = (points - images).flatten(1).norm(dim=1) < (starts - images).flatten(1).norm(dim=1)
    assert bool(nearer.all())


def test_a_bad_starting_point_leaves_its_input_alone_and_is_warned_of() -> None:
    _, model, images, labels = problem()
    attack = PopSkipJumpAttack(iterations=1)
    with pytest.warns(UserWarning, match="4 of 4 inputs are returned unchanged.*BAD_START"):
        points = attack.run(model, images, labels, starting_points=images)
    assert torch.equal(points, images)


def test_linf_is_measured_in_linf() -> None:
    _, model, images, labels = problem()
    attack = PopSkipJumpAttack(iterations=2, norm="linf")
    points, _, _ = attack(model, images, labels, epsilons=None)
    found = attack.distance(images, points)
    np.testing.assert_allclose(found.numpy(), present(attack.report).distances, rtol=1e-5)


def test_early_stop_ends_an_input() -> None:
    _, model, images, labels = problem()
    attack = PopSkipJumpAttack(iterations=5)
    attack.run(model, images, labels, early_stop=10.0)
    assert {status.name for status in present(attack.report).status} == {"CLOSE_ENOUGH"}


def test_repeating_takes_other_seeds_and_the_nearest_point() -> None:
    _, model, images, labels = problem()
    once, _, _ = PopSkipJumpAttack(iterations=1)(model, images, labels, epsilons=[None])
    thrice, _, success = PopSkipJumpAttack(iterations=1).repeat(3)(model, images, labels, epsilons=[None])
    far, near = ((p[0] - images).flatten(1).norm(dim=1) for p in (once, thrice))
    assert bool((near < far).any())
    assert bool(success.all())


def test_other_criteria_and_unknown_arguments_are_refused() -> None:
    net, model, images, labels = problem()
    both = fb.criteria.Misclassification(labels) & fb.criteria.Misclassification(labels)
    net.seen = 0
    with pytest.raises(InputError, match="labels alone decide"):
        PopSkipJumpAttack().run(model, images, both)
    with pytest.raises(InputError, match="does not take steps"):
        PopSkipJumpAttack().run(model, images, labels, steps=3)
    with pytest.raises(InputError, match="norm must be"):
        PopSkipJumpAttack(norm="l1")
    assert net.seen == 0


def test_the_name_of_an_attack_shows_its_options_and_no_report() -> None:
    _, model, images, labels = problem()
    attack = PopSkipJumpAttack(iterations=1)
    attack.run(model, images, labels)
    assert repr(attack).startswith("PopSkipJumpAttack(iterations=1, budget=None")
    assert "report" not in repr(attack)


class Noisy(nn.Module):
    """A net that answers with a random class now and then."""

    def __init__(self, net: nn.Module, rate: float, seed: int) -> None:
        super().__init__()
        self.net, self.rate, self.random = net, rate, np.random.default_rng(seed)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.net(x)
        wrong = torch.from_numpy(self.random.random(len(x)) < self.rate)
        logits[wrong, torch.from_numpy(self.random.integers(0, 3, len(x)))[wrong]] = 100.0
        result: Tensor = logits
        return result


def test_a_noisy_model_on_which_the_hop_skip_jump_of_foolbox_dies_is_finished_by_ours() -> None:
    net, model, images, labels = problem()
    del model
    theirs = fb.attacks.HopSkipJumpAttack(steps=20, max_gradient_eval_steps=100)
    failures = 0
    for seed in range(4):  # it checks points by single answers, of which 15% are random
        noisy = fb.PyTorchModel(Noisy(net, 0.15, seed).eval(), bounds=(0, 1), device="cpu")
        try:
            points = theirs.run(noisy, images, labels)
            failures += bool((net(points).argmax(dim=1) == labels).any())
        except (AssertionError, ValueError):
            failures += 1
        attack = PopSkipJumpAttack(iterations=4, seed=seed)
        attack.run(noisy, images, labels)
        assert {status.name for status in present(attack.report).status} <= {"FINISHED", "FLAT"}
        assert np.isfinite(present(attack.report).distances).all()
    assert failures >= 3
