from __future__ import annotations

import re
import subprocess
import sys

import pytest

import popskipjump
from popskipjump import noise
from popskipjump.attacks import ATTACKS
from popskipjump.cli import attacks, noises

from .conftest import Psj


@pytest.mark.parametrize("words", [("--help",), ("demo", "--help"), ("attack", "--help"), ()])
def test_help_is_shown(psj: Psj, words: tuple[str, ...]) -> None:
    result = psj(*words)
    assert "Usage" in result.output


def test_the_version_is_that_of_the_package(psj: Psj) -> None:
    assert psj("--version").stdout == f"popskipjump {popskipjump.__version__}\n"


def test_an_unknown_option_is_exit_code_2(psj: Psj) -> None:
    assert psj("attack", "--no-such-option").exit_code == 2


def test_the_listed_attacks_are_those_that_exist(psj: Psj) -> None:
    assert attacks.ATTACKS.keys() == ATTACKS.keys()
    assert all(name in psj("attacks").stdout for name in ATTACKS)


def test_the_listed_noises_are_spelled_as_the_library_reads_them(psj: Psj) -> None:
    listed = psj("noises").stdout
    for name in noises.NOISES:
        assert noise.describe(name) == name
        assert name in listed


def test_every_noise_that_has_a_spelling_is_listed() -> None:
    with pytest.raises(popskipjump.UnknownNameError) as caught:
        noise.noise_of("no such noise")
    known = re.search(r"choose one of (.*)\.$", str(caught.value))
    assert known is not None
    assert set(known.group(1).split(", ")) == set(noises.NOISES)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "popskipjump", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"popskipjump {popskipjump.__version__}\n"
