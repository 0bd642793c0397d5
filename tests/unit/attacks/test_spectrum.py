from __future__ import annotations

import math

import pytest
import torch

from popskipjump.attacks.directions.adaptive.dct import Basis
from popskipjump.attacks.directions.adaptive.spectrum import (
    Belief,
    Evidence,
    amplitudes,
    even,
    expected,
    filtered,
    infer,
    mixed,
    resemblance,
)
from popskipjump.rng import Key, normal

GREY = Basis((1, 28, 28))
COLOUR = Basis((3, 32, 32))


def evidence_of(basis: Basis, spectrum: torch.Tensor, answers: int, seed: int = 0) -> tuple[Evidence, torch.Tensor]:
    """What answers about even directions say of one random normal with a spectrum `(N,)`; and that normal `(d,)`."""
    key = Key(seed)
    unit = (
        normal(key.child("normal").root(), basis.dimension)[0] * basis.by_coefficient(spectrum.sqrt().unsqueeze(0))[0]
    )
    unit = unit / unit.norm()
    z = normal(key.child("directions").roots(torch.arange(answers)), basis.dimension)
    y = torch.sign(z @ unit)
    y = y - y.mean()
    weight = (y**2).sum().expand(1, len(basis.band_size))
    return Evidence((y @ z).unsqueeze(0), weight, weight), unit


NOISELESS = torch.tensor([2 / math.pi])  # strength of an answer


def learned(basis: Basis, evidence: Evidence, strength: torch.Tensor = NOISELESS) -> Belief:
    """What evidence says where all candidates were equally likely."""
    images = len(evidence.signal)
    return infer(basis, evidence, torch.zeros(images, len(basis.candidates)), strength.expand(images))


def random_change(basis: Basis, number: int, seed: int = 0) -> torch.Tensor:
    """Noise with the spectrum of a candidate: `(1, d)`."""
    amplitude = basis.by_coefficient(basis.candidates[number].sqrt().unsqueeze(0))
    return basis.to_points(normal(Key(seed).root(), basis.dimension) * amplitude)


def low_pass(basis: Basis, share: float) -> torch.Tensor:
    """All variance in the lowest bands that hold about a share of the coefficients: `(N,)`."""
    inside = (basis.band_size.cumsum(0) <= share * basis.dimension).to(torch.float32)
    return inside / (inside * basis.band_size).sum()


def share_within(basis: Basis, variance: torch.Tensor, spectrum: torch.Tensor) -> float:
    return float((variance[0] * basis.band_size)[spectrum > 0].sum())


@pytest.mark.parametrize("basis", [GREY, COLOUR], ids=["grey", "colour"])
def test_before_any_evidence_all_coefficients_are_equal(basis: Basis) -> None:
    belief = even(basis, 3, torch.device("cpu"))
    torch.testing.assert_close(belief.variance, torch.full((3, len(basis.band_size)), 1 / basis.dimension))


@pytest.mark.parametrize("basis", [GREY, COLOUR], ids=["grey", "colour"])
def test_a_belief_adds_up_to_one(basis: Basis) -> None:
    evidence, _ = evidence_of(basis, basis.candidates[3], 500)
    belief = learned(basis, evidence)
    assert float((belief.variance[0] * basis.band_size).sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_normal_of_low_frequencies_makes_the_belief_low_pass(seed: int) -> None:
    spectrum = low_pass(GREY, 0.1)
    evidence, _ = evidence_of(GREY, spectrum, 1000, seed)
    assert share_within(GREY, learned(GREY, evidence).variance, spectrum) > 0.6  # the even belief has a tenth


@pytest.mark.parametrize("seed", range(3))
def test_a_normal_of_high_grey_frequencies_is_recognised_in_colour_images(seed: int) -> None:
    coloured = (torch.arange(3072) >= 1024).to(torch.float32).unsqueeze(0)
    grey = COLOUR.by_band(coloured)[0] == 0
    half_waves = (torch.arange(32).unsqueeze(1) ** 2 + torch.arange(32) ** 2).sqrt().flatten().repeat(3)  # (d,)
    high = COLOUR.by_band(half_waves.unsqueeze(0))[0] / COLOUR.band_size > 24
    spectrum = (grey & high).to(torch.float32)
    spectrum = spectrum / (spectrum * COLOUR.band_size).sum()
    evidence, _ = evidence_of(COLOUR, spectrum, 2000, seed)
    even_share = float(COLOUR.band_size[spectrum > 0].sum()) / 3072
    assert share_within(COLOUR, learned(COLOUR, evidence).variance, spectrum) > 2.5 * even_share


@pytest.mark.parametrize("answers", [20, 200, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_an_even_normal_leaves_the_belief_near_even(answers: int, seed: int) -> None:
    evidence, _ = evidence_of(GREY, GREY.candidates[0], answers, seed)
    belief = learned(GREY, evidence)
    participating = 1 / float((belief.variance[0] ** 2 * GREY.band_size).sum())
    # The mean of all candidates, which is the belief without any evidence, takes part with half of the dimension.
    assert participating > (0.4 if answers < 100 else 0.5) * GREY.dimension


def test_few_answers_change_the_belief_little() -> None:
    evidence, _ = evidence_of(GREY, GREY.candidates[0], 4)
    change = learned(GREY, evidence).variance / even(GREY, 1, torch.device("cpu")).variance
    assert 1 / 8 < float(change.min()) <= float(change.max()) < 8


def test_the_strength_of_clear_answers_is_believed_to_be_large_and_of_coins_small() -> None:
    clear, _ = evidence_of(GREY, low_pass(GREY, 0.1), 2000)
    coins = normal(Key(5).root(), GREY.dimension) * math.sqrt(2000)
    nothing = Evidence(coins, clear.weight, clear.noise)
    assert float(learned(GREY, clear).strength) > 0.3
    assert float(learned(GREY, nothing).strength) < 0.1


def test_the_belief_of_an_image_does_not_depend_on_its_company() -> None:
    pairs = [evidence_of(GREY, GREY.candidates[j], 300, seed=j)[0] for j in range(3)]
    together = learned(GREY, Evidence(*(torch.cat(parts) for parts in zip(*pairs, strict=True))))
    for row, alone in enumerate(learned(GREY, pair) for pair in pairs):
        assert torch.equal(together.variance[row], alone.variance[0])
        assert torch.equal(together.strength[row], alone.strength[0])


def test_old_evidence_fades() -> None:
    old, new = (Evidence(*(torch.full((1, 2), value) for _ in range(3))) for value in (8.0, 1.0))
    sums = old.after(new, 0.5)
    assert [float(part[0, 0]) for part in sums] == [5.0, 5.0, 3.0]


@pytest.mark.parametrize("least", [0.01, 0.1, 1.0])
def test_directions_have_length_one_and_no_frequency_is_left_out(least: float) -> None:
    evidence, _ = evidence_of(GREY, low_pass(GREY, 0.1), 1000)
    amplitude = amplitudes(GREY, learned(GREY, evidence).variance, least)
    assert float((amplitude**2 * GREY.band_size).sum()) == pytest.approx(1, abs=1e-5)
    assert float(amplitude.min() ** 2 / amplitude.max() ** 2) >= least * (1 - 1e-5)


def test_the_filter_brings_the_estimate_nearer_to_the_normal() -> None:
    spectrum = low_pass(GREY, 0.1)
    gains = []
    for seed in range(5):
        evidence, unit = evidence_of(GREY, spectrum, 300, seed)
        better = filtered(GREY, learned(GREY, evidence), evidence)[0]
        plain, filtered_ = (float(v @ unit / v.norm()) for v in (evidence.signal[0], better))
        gains.append(filtered_ - plain)
    assert min(gains) > 0.1


def test_an_even_belief_filters_nothing() -> None:
    evidence, _ = evidence_of(GREY, GREY.candidates[0], 300)
    same = filtered(GREY, even(GREY, 1, torch.device("cpu")), evidence)[0]
    assert float(torch.cosine_similarity(same, evidence.signal[0], dim=0)) == pytest.approx(1, abs=1e-5)


def test_equal_answers_give_no_direction_but_finite_numbers() -> None:
    nothing = torch.zeros(1, len(GREY.band_size))
    silent = Evidence(torch.zeros(1, GREY.dimension), nothing, nothing)
    belief = learned(GREY, silent)
    assert torch.isfinite(belief.variance).all()
    assert torch.isfinite(belief.strength).all()
    assert torch.equal(filtered(GREY, belief, silent), torch.zeros(1, GREY.dimension))


@pytest.mark.parametrize("number", range(len(GREY.candidates)))
def test_a_change_makes_the_spectrum_it_has_the_likeliest(number: int) -> None:
    prior = resemblance(GREY, random_change(GREY, number), 8.0)
    assert int(prior.argmax()) == number
    assert float(prior.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_before_any_evidence_the_belief_is_that_of_the_change() -> None:
    number = 3
    low = GREY.candidates[number] > 1 / GREY.dimension
    variance = expected(GREY, resemblance(GREY, random_change(GREY, number), 8.0))
    assert float((variance[0] * GREY.band_size).sum()) == pytest.approx(1, abs=1e-5)
    shares = [float((spectrum * GREY.band_size)[low].sum()) for spectrum in (variance[0], GREY.candidates[0])]
    assert shares[0] > 5 * shares[1]


def test_without_a_power_all_spectra_are_equally_likely() -> None:
    prior = resemblance(GREY, random_change(GREY, 3), 0.0)
    torch.testing.assert_close(prior.exp(), torch.full_like(prior, 1 / len(GREY.candidates)))


def test_a_change_of_nothing_makes_no_spectrum_likelier_and_finite_numbers() -> None:
    prior = resemblance(COLOUR, torch.zeros(2, COLOUR.dimension), 8.0)
    torch.testing.assert_close(prior.exp(), torch.full_like(prior, 1 / len(COLOUR.candidates)))


def test_clear_evidence_outweighs_a_change_of_another_spectrum() -> None:
    spectrum = low_pass(GREY, 0.1)
    evidence, _ = evidence_of(GREY, spectrum, 1000)
    high = resemblance(GREY, random_change(GREY, 10), 8.0)
    assert share_within(GREY, expected(GREY, high), spectrum) < 0.1
    assert share_within(GREY, infer(GREY, evidence, high, NOISELESS).variance, spectrum) > 0.5


def test_the_prior_of_an_image_does_not_depend_on_its_company() -> None:
    changes = torch.cat([random_change(COLOUR, number) for number in range(3)])
    together = resemblance(COLOUR, changes, 8.0)
    for row in range(3):
        assert torch.equal(resemblance(COLOUR, changes[row : row + 1], 8.0)[0], together[row])


@pytest.mark.parametrize("basis", [GREY, COLOUR], ids=["grey", "colour"])
def test_a_prior_that_is_not_trusted_in_full_leaves_every_spectrum_a_chance(basis: Basis) -> None:
    prior = resemblance(basis, random_change(basis, 3), 200.0)  # as good as certain
    chances = mixed(prior, torch.tensor([0.9]), basis.likely).exp()
    torch.testing.assert_close(chances.sum(dim=1), torch.ones(1))
    assert float(chances.min()) >= 0.99 * 0.1 / len(basis.candidates)
    torch.testing.assert_close(
        mixed(prior, torch.tensor([0.0]), basis.likely).exp(), torch.full_like(prior, 1 / len(basis.candidates))
    )
    torch.testing.assert_close(mixed(prior, torch.tensor([1.0]), basis.likely), prior)


@pytest.mark.parametrize("number", [7, 9, 10])
def test_where_strong_answers_are_expected_a_wrong_first_change_is_unlearned_sooner(number: int) -> None:
    """If answers may be weak, that nothing shows in low frequencies says nothing of them."""
    low, low_bands = resemblance(GREY, random_change(GREY, 2), 8.0), low_pass(GREY, 0.1)
    some = [evidence_of(GREY, GREY.candidates[number], 250, seed)[0] for seed in range(8)]
    strong, weak = (
        sum(share_within(GREY, infer(GREY, evidence, low, strength).variance, low_bands) for evidence in some)
        for strength in (NOISELESS, NOISELESS / 300)
    )
    assert strong < 0.7 * weak
