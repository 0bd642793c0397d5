"""The spec of a run: one text for equal runs, and another for every other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from popskipjump import (
    BoundaryAttack,
    DirectionCount,
    HopSkipJump,
    InputError,
    PopSkipJump,
    QuickSkipJump,
    UnknownNameError,
)
from popskipjump.attacks import ATTACKS as NAMES
from popskipjump.attacks import (
    AdaptiveDirections,
    BayesianSearch,
    FullStep,
    GivenStart,
    LineSpread,
    MonteCarlo,
    NoRestart,
    SpectrumPrior,
    UnlessFaint,
)
from popskipjump.evaluation.inputs import AttackConfig
from popskipjump.noise import Flip, noise_of
from popskipjump.space import Space
from popskipjump.storage import SCHEMA, AttackSpec, RunSpec

ATTACKS = [
    PopSkipJump(),
    PopSkipJump(per_step=5, enlarge=2, floors=(0, (0.01, 0.1)), count=DirectionCount(factor=3), slope_range=(-1, 2)),
    PopSkipJump(resolution=12, acquisition="sample-size", estimate="map", sample_size="point", shrink_priors=True),
    PopSkipJump(true_gradient=True),
    HopSkipJump(),
    HopSkipJump(psj_radius=True, count=DirectionCount(factor=2.0, limit=10_000)),
    HopSkipJump(radius=0.1),
    BoundaryAttack(proposals=20, adapt=2),
    QuickSkipJump(step=FullStep(enlarge=2), search=BayesianSearch(per_step=2), restart=NoRestart(), start=GivenStart()),
    QuickSkipJump(direction=MonteCarlo(DirectionCount(40), LineSpread(0.02)), acceptance=UnlessFaint()),
    QuickSkipJump(direction=AdaptiveDirections(active_bounds=None, prior=SpectrumPrior(power=2))),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_comes_back_from_its_spec(attack: AttackConfig) -> None:
    spec = RunSpec(attack=attack)
    again = RunSpec(**json.loads(spec.text))
    assert again == spec
    assert again.attack.config(attack.iterations) == attack


@pytest.mark.parametrize("name", NAMES)
def test_every_attack_can_be_kept(name: str) -> None:
    config = NAMES[name]()
    config.build(20)  # fills the tables that a grid keeps for itself
    spec = RunSpec(attack=config)
    assert RunSpec(**json.loads(spec.text)).attack.config(spec.iterations) == NAMES[name]()
    assert spec == RunSpec(attack=name)


def test_all_these_attacks_have_their_own_digest() -> None:
    assert len({RunSpec(attack=attack).digest for attack in ATTACKS}) == len(ATTACKS)


def test_the_same_attack_in_other_words_is_the_same_run() -> None:
    specs = [
        RunSpec(attack="psj-true-gradient"),
        RunSpec(attack=PopSkipJump(true_gradient=True, enlarge=1.3)),
        RunSpec(attack={"name": "psj", "arguments": {"true_gradient": True}}),
    ]
    assert len({spec.digest for spec in specs}) == len(set(specs)) == 1


def test_a_whole_number_in_a_real_argument_is_the_same_run() -> None:
    assert RunSpec(attack=PopSkipJump(enlarge=2)).digest == RunSpec(attack=PopSkipJump(enlarge=2.0)).digest


def test_a_noise_model_and_its_spelling_are_the_same_run() -> None:
    digests = {RunSpec(noise=noise).digest for noise in ("flip:0.1", "flip:0.10", Flip(0.1))}
    assert len(digests) == 1
    assert RunSpec(noise="none") == RunSpec(noise=None) == RunSpec()


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "cifar10"}, {"data": "x"}, {"model": "x"}, {"weights": "x"}, {"attack": "hsj"}, {"votes": 3},
        {"noise": "flip:0.1"}, {"norm": "linf"}, {"iterations": 31}, {"budget": 1000}, {"starts": "noise"},
        {"targets": "next"}, {"seed": 1}, {"verdict": 5}, {"space": Space(0, 1, shape=(3,))},
        {"mask": f"given:{'0' * 32}"},
    ],
    ids=str,
)  # fmt: skip
def test_every_field_is_part_of_the_digest(change: dict[str, Any]) -> None:
    assert RunSpec().but(**change).digest != RunSpec().digest


def test_the_digest_of_a_spec_does_not_change_between_versions_of_one_schema() -> None:
    # A change here makes every run that was ever kept unreachable: raise SCHEMA, and say so in the changelog.
    assert (SCHEMA, RunSpec(attack=BoundaryAttack()).digest) == (2, "71cb4a025e04d059")


def test_the_iterations_of_a_configuration_count_unless_others_are_given() -> None:
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
def test_a_wrong_spec_says_what_is_wrong(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        RunSpec(**wrong)


def test_an_unknown_attack_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="boundary, hsj, psj, psj-true-gradient, qsj"):
        AttackSpec.of("hop")


def test_the_words_name_what_is_unusual() -> None:
    spec = RunSpec(attack=PopSkipJump(per_step=5), noise="flip:0.1", votes=3, budget=5000, targets="next")
    assert spec.words == (
        "psj(per_step=5), 3 votes, noise flip:0.1, mnist/mnist-cnn, l2, 32 iterations, budget 5,000, targeted, seed 0"
    )


class OwnStep(FullStep):
    """A part that this package does not know."""


def test_a_composition_with_a_part_of_ones_own_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"QuickSkipJump\.step is OwnStep.*no part of this package"):
        AttackSpec.of(QuickSkipJump(step=OwnStep()))


@pytest.mark.parametrize(
    "arguments",
    [
        {"step": {"kind": "Nothing"}},
        {"step": "ArcStep"},
        {"step": {"kind": "ArcStep", "speed": 1}},
        {"step": {"kind": "ArcStep", "first": "half"}},
        {"step": {"kind": "ArcStep", "first": -1.0}},
        {"direction": {"kind": "AdaptiveDirections", "prior": []}},
    ],
    ids=str,
)
def test_a_damaged_part_is_refused_in_words(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        RunSpec(attack={"name": "qsj", "arguments": arguments})


@pytest.mark.parametrize("spelling", ["resize-pad:0.9,1.0", "rnd:0.1,-1,1", "feature-noise:0.5,fc1", "jpeg:5,50"])
def test_a_noise_of_several_values_survives_the_spec(spelling: str) -> None:
    spec = RunSpec(noise=spelling)
    again = RunSpec(**json.loads(spec.text))
    assert noise_of(again.noise) == noise_of(spelling)
    assert again.digest == spec.digest


@pytest.mark.parametrize("name", ["\x1b[2J.py:make", "../up.py:make", "/etc/passwd", "a\\b", "", "a\n"])
def test_a_name_in_a_spec_is_no_path_and_steers_no_terminal(name: str) -> None:
    with pytest.raises(InputError, match="model"):
        RunSpec(model=name)


GIVEN = [
    {"bounds": (-1, 2.5)},
    {"stop_distance": 0.5},
    {"targets": f"given:{0:032}"},
    {"starts": f"pool:{1:032}"},
    {"attack": "qsj", "budget": 900},
]


@pytest.mark.parametrize("change", GIVEN, ids=str)
def test_what_the_user_gave_comes_back_from_the_text(change: dict[str, Any]) -> None:
    spec = RunSpec(**change)
    assert RunSpec(**json.loads(spec.text)) == spec
    assert spec.digest != RunSpec().digest


@pytest.mark.parametrize("change", [{"bounds": (1, 0)}, {"bounds": [0]}, {"stop_distance": -1.0}, {"starts": "file"},
                                    {"stop_distance": float("nan")}, {"targets": "given:../x"}], ids=str)  # fmt: skip
def test_what_cannot_be_meant_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be the spec of a run"):
        RunSpec(**change)


def test_an_attack_with_a_budget_for_its_measure_has_no_number_of_iterations() -> None:
    assert RunSpec(attack="qsj", budget=500).iterations is None
    assert RunSpec(attack="qsj", budget=500, iterations=3).iterations == 3
    assert RunSpec(attack="psj", budget=500).iterations == 32


@pytest.mark.parametrize("name", ["budget", "iterations", "votes", "verdict"])
def test_a_number_that_no_run_can_reach_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"this cannot be the spec of a run: {name}"):
        RunSpec(**{name: 10**30})
