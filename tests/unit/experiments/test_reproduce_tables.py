from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
import torch
from reproduce_toys import SETUP, evidence_of, run_with

from popskipjump import PopSkipJump
from popskipjump.errors import InputError, UnknownNameError
from popskipjump.experiments.reproduce import ALL, EXPERIMENTS, QUICK, Table, experiments_of
from popskipjump.experiments.reproduce.base import Way
from popskipjump.experiments.reproduce.figures.cosine import simulated_cosines
from popskipjump.experiments.reproduce.figures.sigmoids import fit_sigmoid, logistic
from popskipjump.experiments.reproduce.numbers import at_queries, by_queries, ratio, show
from popskipjump.experiments.reproduce.pages import csv_of, markdown_of
from popskipjump.experiments.reproduce.study import expected_work, jobs_of, setup_of, study_of
from popskipjump.metrics import paper_unit
from popskipjump.rng import Key
from popskipjump.runs.collect import source_of

NAMES = [
    "table-1",
    "table-2",
    "table-3",
    "radius",
    "adversarial-accuracy",
    "noise-level",
    "noise-level-complete",
    "noise-model",
    "votes-ratio",
    "white-box",
    "cosine",
    "sigmoids",
    "sample-factor",
    "queries-and-time",
    "acceleration",
]


def test_every_table_and_figure_of_the_paper_is_registered() -> None:
    assert sorted(EXPERIMENTS) == sorted(NAMES)
    assert [e.name for e in experiments_of(ALL)] == list(EXPERIMENTS)
    assert all(e.claim.endswith(".") and e.title for e in EXPERIMENTS.values())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"table-9.*acceleration.*all.*white-box"):
        experiments_of("table-9")


def test_table_1_has_our_numbers_in_both_units_beside_the_papers() -> None:
    experiment = EXPERIMENTS["table-1"]
    table = experiment.table(evidence_of(experiment, lambda way: (2.0 if way.noise is None else 3.0, 1000 * way.votes)))
    rows = {(row[0], row[1]): row for row in table.rows}
    assert len(rows) == 21  # five attacks of the paper, the authors' setting and QSJ at three levels
    flips, _, distance, unit, theirs, own, queries, relative, calls, sure = rows["10%", "HSJ-repeat3"]
    assert (flips, distance, own, queries, relative) == ("10%", 3.0, 1.5, 3000, 3.0)
    assert unit == pytest.approx(paper_unit(3.0, 784), abs=1e-5)
    assert (theirs, calls, sure) == (0.013, 2.27, 1.0)
    assert rows["5%", "BA"][4] is None  # the paper's first table has no boundary attack


def test_table_2_and_3_have_the_papers_numbers_of_every_attack() -> None:
    for name, place, value in (("table-2", -3, 15.9), ("table-3", -2, 82677)):
        table = EXPERIMENTS[name].table(evidence_of(EXPERIMENTS[name], lambda way: (2.0, 1000)))
        rows = {row[:2]: row for row in table.rows}
        assert len(rows) == 18  # five attacks of the paper and QSJ at three levels
        assert rows["10%", "BA-repeat3"][place] == value
        assert rows["10%", "QSJ"][place] is None
        assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("table", "noise", "radius", "sample", "votes"))])
def test_tables_and_figures_are_made_from_runs_alone(name: str) -> None:
    experiment = EXPERIMENTS[name]
    majority = {noise: np.ones(5) for levels in SETUP.levels().values() for noise in levels}
    evidence = evidence_of(experiment, lambda way: (2.0 if way.noise is None else math.inf, 1000 * way.votes), majority)
    table = experiment.table(evidence)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert experiment.draw(evidence).axes


def test_a_table_is_written_for_people_and_for_programs() -> None:
    table = Table(("a", "b|c"), [(1, math.inf), (12345, None), ("x|y", 0.5), (-0.0, None)])
    assert markdown_of(table).splitlines()[2:] == ["| 1 | ∞ |", "| 12,345 |  |", "| x\\|y | 0.5 |", "| 0 |  |"]
    assert list(csv.reader(io.StringIO(csv_of(table))))[1:4] == [["1", "inf"], ["12345", ""], ["x|y", "0.5"]]


def test_numbers_for_people() -> None:
    assert [show(v) for v in (0.12345, 12345.6, math.inf, math.nan, None)] == ["0.123", "12,346", "∞", "–", "–"]
    assert math.isnan(ratio(1.0, 0.0))
    assert math.isinf(ratio(math.inf, 2.0))


def test_a_curve_by_queries_begins_with_its_first_search() -> None:
    curve = by_queries(run_with(Way(PopSkipJump()), 2.0, 3300))
    assert math.isinf(at_queries(curve, 10))
    assert at_queries(curve, 3300) == pytest.approx(2.0)
    assert at_queries(curve, 1e9) == pytest.approx(2.0)
    assert 2.0 < at_queries(curve, 3250) < 2.1


def test_experiments_share_their_runs() -> None:
    every = jobs_of(EXPERIMENTS.values(), SETUP)
    ways = [job.way for job in every]
    assert len(ways) == len(set(ways))
    apart = sum(len(e.plan(SETUP)) for e in EXPERIMENTS.values())
    assert len(every) < 0.6 * apart
    plain = next(job for job in every if job.way == SETUP.psj())
    assert plain.images == max(QUICK.images, QUICK.table_images)


def test_what_an_experiment_measures_does_not_depend_on_the_others() -> None:
    source = source_of()
    setup = setup_of(source, QUICK, None)
    alone = study_of(source, setup, [EXPERIMENTS["acceleration"]], 0)
    together = study_of(source, setup, EXPERIMENTS.values(), 0)
    assert len(alone.image_ids) == QUICK.timed_images < len(together.image_ids)
    assert alone.digest(EXPERIMENTS["acceleration"]) == together.digest(EXPERIMENTS["acceleration"])
    assert together.digest(EXPERIMENTS["acceleration"]) != together.digest(EXPERIMENTS["queries-and-time"])


def test_more_votes_and_more_noise_are_expected_to_take_longer() -> None:
    assert expected_work(SETUP.hsj(votes=3)) == 3 * expected_work(SETUP.hsj())
    assert expected_work(SETUP.psj("flip:0.1")) > expected_work(SETUP.psj())
    assert expected_work(SETUP.psj("dropout:0.5")) > expected_work(SETUP.psj("flip:0.1"))


def test_only_noise_that_may_need_a_million_queries_is_capped() -> None:
    for noise, capped in (("flip:0.1", False), (None, False), ("logit:1", True)):
        attack = SETUP.psj(noise).attack
        assert isinstance(attack, PopSkipJump)
        assert (attack.count.limit == QUICK.most_directions) is capped


def test_evidence_of_a_way_that_was_not_planned_is_an_error() -> None:
    evidence = evidence_of(EXPERIMENTS["radius"], lambda way: (2.0, 1.0))
    with pytest.raises(InputError, match="not in the experiment's plan"):
        evidence[SETUP.boundary()]


def test_a_fit_finds_the_sigmoid_it_was_made_from() -> None:
    places = np.linspace(0, 1, 101)
    fit = fit_sigmoid(places, 0.1 + 0.8 * logistic(8 * (places - 0.35)))
    assert fit.centre == pytest.approx(0.35, abs=0.011)
    assert fit.slope == pytest.approx(8, rel=0.1)
    assert fit.low == pytest.approx(0.1, abs=0.01)
    assert fit.high == pytest.approx(0.9, abs=0.01)
    assert fit.gap < 0.01


def test_simulated_cosines_equal_those_of_whole_vectors() -> None:
    """Drawing only what decides an answer must not change the distribution: 4 standard errors of the difference."""
    trials, count, dimension = 400, 50, 30
    quick = simulated_cosines(Key(1), trials, count, dimension, math.inf, 0.1, 0.5, "sigmoid")
    stream = torch.Generator().manual_seed(2)
    directions = torch.randn(trials, count, dimension, generator=stream, dtype=torch.float64)
    right = torch.rand(trials, count, generator=stream) < torch.where(directions[..., 0] + 0.5 > 0, 0.9, 0.1)
    estimate = (directions * torch.where(right, 1.0, -1.0).unsqueeze(-1)).sum(dim=1)
    whole = estimate[:, 0] / estimate.norm(dim=1)
    error = math.sqrt((float(quick.var()) + float(whole.var())) / trials)
    assert abs(float(quick.mean() - whole.mean())) < 4 * error
