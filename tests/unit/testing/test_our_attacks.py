"""Every attack of the package keeps the contract that authors of others are given, and a broken one does not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import popskipjump as psj
from popskipjump.attacks import BoundaryAttack
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.testing import AttackContract


class TestPopSkipJump(AttackContract):
    def make_attack(self) -> str:
        return "psj"


class TestQuickSkipJump(AttackContract):
    iterations = 6

    def make_attack(self) -> str:
        return "qsj"


@pytest.mark.slow
class TestHopSkipJump(AttackContract):
    confident = 1.0

    def make_attack(self) -> str:
        return "hsj"


@pytest.mark.slow
class TestBoundaryAttack(AttackContract):
    iterations = 15
    factor = 4.0

    def make_attack(self) -> BoundaryAttack:
        return psj.BoundaryAttack(proposals=10)


def contract_of(attack: AttackConfig | str) -> AttackContract:
    contract = AttackContract()
    vars(contract)["make_attack"] = lambda: attack
    return contract


def test_an_attack_that_stays_where_it_starts_breaks_the_contract() -> None:
    lazy = contract_of(psj.BoundaryAttack(proposals=1))
    lazy.iterations = 0
    with pytest.raises(AssertionError, match="times as far as the border"):
        lazy.test_every_known_border_is_approached()


def test_an_attack_whose_randomness_is_not_its_seeds_breaks_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = itertools.count()
    run = AttackContract.attacked

    def unseeded(self: AttackContract, name: str = "plane", rows: Any = None, **options: Any) -> Any:
        return run(self, name, rows, **options | {"seed": next(counter)})

    monkeypatch.setattr(AttackContract, "attacked", unseeded)
    contract = contract_of("psj")
    with pytest.raises(AssertionError, match="two runs of one seed differ"):
        contract.test_the_same_seed_gives_the_same_points()
    with pytest.raises(AssertionError, match="ends elsewhere when it is alone"):
        contract.test_images_do_not_influence_each_other()


def test_points_that_are_not_adversarial_break_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    run = AttackContract.attacked

    def pulled_back(self: AttackContract, *arguments: Any, **options: Any) -> Any:
        report, watch = run(self, *arguments, **options)
        report.points[:] = report.images + np.float32(0.5) * (report.points - report.images)
        return report, watch

    monkeypatch.setattr(AttackContract, "attacked", pulled_back)
    contract = contract_of("psj")
    with pytest.raises(AssertionError, match="0% of the returned points"):
        contract.test_every_known_border_is_approached()
    with pytest.raises(AssertionError, match="said"):
        contract.test_distances_are_those_of_the_points()


def test_a_contract_that_is_not_filled_in_says_so() -> None:
    with pytest.raises(NotImplementedError, match="how the attack is made"):
        AttackContract().test_every_query_is_counted()
