from __future__ import annotations

from typing import Any

import pytest

from popskipjump.errors import InputError, UnknownNameError
from popskipjump.noise import (
    BitDepth,
    BoundaryDefence,
    Cropping,
    Dropout,
    Ensemble,
    FeatureNoise,
    Flip,
    Jpeg,
    LogitSampling,
    RandomNoise,
    ResizePad,
    Smoothing,
    Switching,
    describe,
    noise_of,
)
from popskipjump.oracles import NoiseModel


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
        ("rnd:0.1", RandomNoise(0.1)),
        ("rnd:0.1,-1,1", RandomNoise(0.1, -1, 1)),
        ("Boundary_Defence: 0.9, 2", BoundaryDefence(0.9, 2)),
        ("feature-noise:0.5,features.3", FeatureNoise(0.5, "features.3")),
        ("resize-pad:0.9,1.0", ResizePad(0.9, 1)),
        ("resize-pad:0.9,1.0,-1", ResizePad(0.9, 1, fill=-1)),
        ("bit-depth:1,4", BitDepth(1, 4)),
        ("jpeg:5,50,0,255", Jpeg(5, 50, 0, 255)),
        ("none", None),
        (None, None),
    ],
)
def test_a_spelling_gives_its_noise(spec: str | None, expected: NoiseModel) -> None:
    assert noise_of(spec) == expected


@pytest.mark.parametrize(
    "noise",
    [
        Flip(0.1),
        LogitSampling(1),
        Dropout(1 / 3),
        Smoothing(1e-9),
        Cropping(24),
        RandomNoise(1 / 3, -1, 1),
        BoundaryDefence(1 / 3, 2),
        FeatureNoise(0.1, "a.b_c"),
        ResizePad(2 / 3, 0.9, 1e-3),
        BitDepth(1, 16, -2.5, 7),
        Jpeg(1, 100),
        None,
    ],
    ids=str,
)
def test_a_description_reads_back(noise: NoiseModel) -> None:
    assert noise_of(describe(noise)) == noise


@pytest.mark.parametrize(
    ("noise", "text"),
    [
        (Flip(0.1), "flip:0.1"),
        (LogitSampling(1.0), "logit:1"),
        (Cropping(24), "cropping:24"),
        (ResizePad(0.9), "resize-pad:0.9,1"),
        (RandomNoise(0.1), "rnd:0.1"),
        (RandomNoise(0.1, 0, 2), "rnd:0.1,0,2"),
        (Jpeg(5, 50), "jpeg:5,50"),
    ],
)
def test_a_description_is_what_one_would_type(noise: NoiseModel, text: str) -> None:
    assert describe(noise) == text


def test_a_spelling_is_described_in_its_canonical_form() -> None:
    assert describe("Crop:24") == "cropping:24"


def test_an_ensemble_is_described_by_its_size() -> None:
    assert describe(Ensemble([len, len])) == "ensemble of 3"
    assert describe(Switching([len, len], 50)) == "ensemble of 3, one for 50 queries"


def test_a_noise_model_is_taken_as_it_is() -> None:
    noise = Flip(0.2)
    assert noise_of(noise) is noise


@pytest.mark.parametrize("spec", ["flop:0.1", "", ":0.1", "0.1", "none:3", "ensemble:2"])
def test_an_unknown_name_lists_the_known_ones_with_their_form(spec: str) -> None:
    with pytest.raises(UnknownNameError, match=r"boundary-defence:0.9,2, cropping:24, .*, jpeg:5,50, logit:1, none, "):
        noise_of(spec)


@pytest.mark.parametrize("spec", ["flip", "flip:", "flip:many", "flip:0.1:2"])
def test_a_missing_number_shows_the_expected_form(spec: str) -> None:
    with pytest.raises(InputError, match=r'as in "flip:0\.1"'):
        noise_of(spec)


@pytest.mark.parametrize(
    "spec", ["resize-pad:0.9", "resize-pad:0.9,", "resize-pad:0.9,1,0,0", "resize-pad:0.9,all", "resize-pad"]
)
def test_missing_values_show_how_many_are_needed(spec: str) -> None:
    with pytest.raises(InputError, match=r'2 to 3 values with commas between them .* as in "resize-pad:0\.8,1"'):
        noise_of(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "rnd:-1",
        "rnd:0.1,1,1",
        "boundary-defence:1.5,1",
        "resize-pad:0,1",
        "resize-pad:1,0.9",
        "resize-pad:0.9,1.1",
        "bit-depth:0,4",
        "bit-depth:5,4",
        "bit-depth:1.5,4",
        "bit-depth:1,17",
        "jpeg:0,50",
        "jpeg:50,101",
        "jpeg:50,nan",
    ],
)
def test_a_defence_with_a_value_out_of_range_is_an_error(spec: str) -> None:
    with pytest.raises(InputError, match="must"):
        noise_of(spec)


@pytest.mark.parametrize("spec", ["flip:2", "flip:nan", "cropping:2.5", "cropping:nan", "cropping:inf", "logit:-1"])
def test_a_number_out_of_range_is_an_error(spec: str) -> None:
    with pytest.raises(InputError, match="must be"):
        noise_of(spec)


@pytest.mark.parametrize("spec", [0.1, ["flip:0.1"], object()])
def test_something_else_is_an_error(spec: Any) -> None:
    with pytest.raises(InputError, match="noise must be a spelling"):
        noise_of(spec)
