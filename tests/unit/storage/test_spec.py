"""The spec of a run: one text for equal runs, and another for every other."""

from __future__ import annotations

import json

import pytest

from popskipjump import BoundaryAttack, Count, HopSkipJump, InputError, PopSkipJump, UnknownNameError
from popskipjump.attacks import ATTACKS as NAMES
from popskipjump.noise import Flip
from popskipjump.storage import SCHEMA, AttackSpec, RunSpec

ATTACKS = [
    PopSkipJump(),
    PopSkipJump(per_step=5, enlarge=2, floors=(0, (0.01, 0.1)), count=Count(factor=3), slope_range=(-1, 2)),
    PopSkipJump(resolution=12, acquisition="sample-size", estimate="map", sample_size="point", shrink_priors=True),
    PopSkipJump(true_gradient=True),
    HopSkipJump(),
    HopSkipJump(psj_radius=True, count=Count(factor=2.0, limit=10_000)),
    HopSkipJump(radius=0.1),
    BoundaryAttack(proposals=20, adapt=2),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_comes_back_from_its_spec(attack):
    spec = RunSpec(attack=attack)
    again = RunSpec(**json.loads(spec.text))
    assert again == spec
    assert again.attack.config(attack.iterations) == attack


@pytest.mark.parametrize("name", NAMES)
def test_every_attack_can_be_kept(name):
    config = NAMES[name]()
    config.build(20)  # fills the tables that a grid keeps for itself
    spec = RunSpec(attack=config)
    assert RunSpec(**json.loads(spec.text)).attack.config(spec.iterations) == NAMES[name]()
    assert spec == RunSpec(attack=name)


def test_all_these_attacks_have_their_own_digest():
    assert len({RunSpec(attack=attack).digest for attack in ATTACKS}) == len(ATTACKS)


def test_the_same_attack_in_other_words_is_the_same_run():
    specs = [
        RunSpec(attack="psj-true-gradient"),
        RunSpec(attack=PopSkipJump(true_gradient=True, enlarge=1.3)),
        RunSpec(attack={"name": "psj", "arguments": {"true_gradient": True}}),
    ]
    assert len({spec.digest for spec in specs}) == len(set(specs)) == 1


def test_a_whole_number_in_a_real_argument_is_the_same_run():
    assert RunSpec(attack=PopSkipJump(enlarge=2)).digest == RunSpec(attack=PopSkipJump(enlarge=2.0)).digest


def test_a_noise_model_and_its_spelling_are_the_same_run():
    digests = {RunSpec(noise=noise).digest for noise in ("flip:0.1", "flip:0.10", Flip(0.1))}
    assert len(digests) == 1
    assert RunSpec(noise="none") == RunSpec(noise=None) == RunSpec()


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "cifar10"}, {"data": "x"}, {"model": "x"}, {"weights": "x"}, {"attack": "hsj"}, {"votes": 3},
        {"noise": "flip:0.1"}, {"norm": "linf"}, {"iterations": 31}, {"budget": 1000}, {"starts": "noise"},
        {"targets": "next"}, {"seed": 1}, {"verdict": 0},
    ],
    ids=str,
)  # fmt: skip
def test_every_field_is_part_of_the_digest(change):
    assert RunSpec().but(**change).digest != RunSpec().digest


def test_the_digest_of_a_spec_does_not_change_between_versions_of_one_schema():
    # A change here makes every run that was ever kept unreachable: raise SCHEMA, and say so in the changelog.
    assert (SCHEMA, RunSpec(attack=BoundaryAttack()).digest) == (1, "0bccf9990dfa79ad")


def test_the_iterations_of_a_configuration_count_unless_others_are_given():
    assert RunSpec(attack=HopSkipJump(iterations=5)).iterations == 5
    assert RunSpec(attack=HopSkipJump(iterations=5), iterations=7).iterations == 7
    assert RunSpec(attack=HopSkipJump(iterations=5)).attack == AttackSpec.of("hsj")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attack": "hop"}, "unknown attack 'hop'"),
        ({"attack": {"name": "psj", "arguments": {"speed": 3}}}, "unknown argument of psj 'speed'"),
        ({"attack": {"name": "psj", "arguments": {"per_step": 0}}}, "per_step"),
        ({"attack": 3}, "only PopSkipJump, .*BoundaryAttack can be kept"),
        ({"noise": "flip:7"}, "flip rate"),
        ({"votes": 0}, "votes"),
        ({"seed": "a"}, "seed: Input should be a valid integer"),
        ({"images": 5}, "images: Extra inputs"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(wrong, said):
    with pytest.raises(InputError, match=said):
        RunSpec(**wrong)


def test_an_unknown_attack_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="boundary, hsj, psj, psj-true-gradient, qsj"):
        AttackSpec.of("hop")


def test_the_words_name_what_is_unusual():
    spec = RunSpec(attack=PopSkipJump(per_step=5), noise="flip:0.1", votes=3, budget=5000, targets="next")
    assert spec.words == (
        "psj(per_step=5), 3 votes, noise flip:0.1, mnist/mnist-cnn, l2, 32 iterations, budget 5,000, targeted, seed 0"
    )


def test_the_words_of_a_hostile_spec_cannot_steer_a_terminal():
    assert "\x1b" not in RunSpec(model="\x1b[2J.py:make").words
