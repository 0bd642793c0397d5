from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATH = ROOT / "benchmarks" / "mutations.py"
if not PATH.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
spec = importlib.util.spec_from_file_location("mutations", PATH)
assert spec is not None
assert spec.loader is not None
mutations = importlib.util.module_from_spec(spec)
sys.modules["mutations"] = mutations
spec.loader.exec_module(mutations)
every_mutation = pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda mutation: mutation.name)


@every_mutation
def test_a_mutation_changes_exactly_one_place_of_the_source(mutation: Any) -> None:
    text = (ROOT / "src" / "popskipjump" / mutation.file).read_text()
    assert text.count(mutation.old) == 1
    assert mutation.new != mutation.old
    compile(text.replace(mutation.old, mutation.new), mutation.file, "exec")


@every_mutation
def test_every_mutation_names_tests_that_exist(mutation: Any) -> None:
    assert mutations.known_tests(mutation.tests)


def test_there_are_many_mutations_of_all_rooms() -> None:
    assert len(mutations.MUTATIONS) >= 40
    assert {mutation.file.split("/")[0] for mutation in mutations.MUTATIONS} >= {
        "attacks",
        "metrics",
        "oracles",
        "sigmoid",
    }
