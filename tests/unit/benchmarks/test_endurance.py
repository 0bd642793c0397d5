"""The benchmarks of endurance pass: kills, faults, mutants, and many examples of the properties."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def ended(*command: str, **environment: str) -> str:
    """What a program prints; it must end with code 0."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=3000,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("what", "kills"), [("driver", "20"), ("workers", "10")])
def test_a_run_whose_processes_are_killed_ends_as_the_uninterrupted_one(what: str, kills: str) -> None:
    if what == "workers":
        pytest.importorskip("ray", reason="Ray is not installed")
    assert "| recorded answers asked again | 0 | 0 |" in ended("benchmarks/endurance.py", what, "--kills", kills)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_classifier_with_faults_is_survived_and_each_fault_is_accounted_for() -> None:
    assert "pass" in ended("benchmarks/endurance.py", "faults")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_mutants_end_in_typed_errors() -> None:
    assert ", 0 untyped errors" in ended("benchmarks/fuzz.py", "--mutants", "100000")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_examples_of_the_properties_hold() -> None:
    files = ("tests/unit/storage/test_journal_properties.py", "tests/unit/evaluation/test_input_properties.py")
    ended("-m", "pytest", "-q", *files, "-p", "no:cacheprovider", PSJ_EXAMPLES="1200")
