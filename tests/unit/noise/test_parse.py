from __future__ import annotations

import pytest

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import Cropping, Dropout, Ensemble, Flip, LogitSampling, Smoothing, describe, noise_of


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("flip:0.1", Flip(0.1)),
        ("logit:1", LogitSampling(1.0)),
        ("logit-sampling:0.3", LogitSampling(0.3)),
        ("Logit_Sampling: 0.3", LogitSampling(0.3)),
        ("dropout:0.5", Dropout(0.5)),
        ("smoothing:0.1", Smoothing(0.1)),
        ("cropping:24", Cropping(24)),
        ("crop:24", Cropping(24)),
        ("none", None),
        (None, None),
    ],
)
def test_a_spelling_gives_its_noise(spec, expected):
    assert noise_of(spec) == expected


@pytest.mark.parametrize("noise", [Flip(0.1), LogitSampling(1), Dropout(1 / 3), Smoothing(1e-9), Cropping(24), None])
def test_a_description_reads_back(noise):
    assert noise_of(describe(noise)) == noise


@pytest.mark.parametrize(
    ("noise", "text"), [(Flip(0.1), "flip:0.1"), (LogitSampling(1.0), "logit:1"), (Cropping(24), "cropping:24")]
)
def test_a_description_is_what_one_would_type(noise, text):
    assert describe(noise) == text


def test_a_spelling_is_described_in_its_canonical_form():
    assert describe("Crop:24") == "cropping:24"


def test_an_ensemble_is_described_by_its_size():
    assert describe(Ensemble([len, len])) == "ensemble of 3"


def test_a_noise_model_is_taken_as_it_is():
    noise = Flip(0.2)
    assert noise_of(noise) is noise


@pytest.mark.parametrize("spec", ["flop:0.1", "", ":0.1", "0.1", "none:3", "ensemble:2"])
def test_an_unknown_name_lists_the_known_ones_with_their_form(spec):
    with pytest.raises(UnknownNameError, match=r"cropping:24, dropout:0.5, flip:0.1, logit:1, none, smoothing:0.1"):
        noise_of(spec)


@pytest.mark.parametrize("spec", ["flip", "flip:", "flip:many", "flip:0.1:2"])
def test_a_missing_number_shows_the_expected_form(spec):
    with pytest.raises(InputError, match=r'as in "flip:0\.1"'):
        noise_of(spec)


@pytest.mark.parametrize("spec", ["flip:2", "flip:nan", "cropping:2.5", "cropping:nan", "cropping:inf", "logit:-1"])
def test_a_number_out_of_range_is_an_error(spec):
    with pytest.raises(InputError, match="must be"):
        noise_of(spec)


@pytest.mark.parametrize("spec", [0.1, ["flip:0.1"], object()])
def test_something_else_is_an_error(spec):
    with pytest.raises(InputError, match="noise must be a spelling"):
        noise_of(spec)
