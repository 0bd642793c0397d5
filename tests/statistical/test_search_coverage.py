"""How sure the search is, and how often it is right.

When the truth is drawn from the prior, a posterior's interval holds it as often as it says, whatever was asked and
whenever the asking stopped. The slopes and floors here are those of the grid; centres lie anywhere within a cell.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import pytest
import torch
from present import present
from torch import Tensor

from popskipjump.attacks import Border, Problem
from popskipjump.attacks.searches.bayesian import BayesianSearch
from popskipjump.geometry import L2
from popskipjump.oracles import Counted, Ledger, Ticket, Untargeted
from popskipjump.rng import Key, integers, uniform
from popskipjump.sigmoid import Grid, noisy_sigmoid
from popskipjump.types import Bounds


class Lines:
    """Every image has a sigmoid of its own along the first axis, from 1 (position 0) to 0 (position 1)."""

    def __init__(self, grid: Grid, images: int, seed: int) -> None:
        key, rows = Key(seed), torch.arange(images)
        place = integers(key.child("centre").roots(rows), 1, grid.positions).squeeze(1)
        within = uniform(key.child("within").roots(rows), 1).squeeze(1).double() - 0.5
        self.centre = ((place + within) / (grid.positions - 1)).clamp(0, 1)
        channel = integers(key.child("channel").roots(rows), 1, grid.channels).squeeze(1)
        self.slope = 10 ** grid.log_slope[channel]
        self.low, self.high = grid.floor[channel].unbind(dim=1)
        self.key = key.child("answers")

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        i = ticket.image
        position = 1 - points[:, 0].double()
        p = noisy_sigmoid(position, self.centre[i], self.slope[i], self.low[i], self.high[i])
        return (uniform(self.key.roots(i, present(ticket.serial)), 1).squeeze(1) > p).to(torch.int64)


def search(config: BayesianSearch, images: int, seed: int) -> tuple[Border, Lines]:
    lines = Lines(config.grid, images, seed)
    ledger, rows = Ledger(images), torch.arange(images)
    problem = Problem(
        original=torch.zeros(images, 2),
        shape=(2,),
        image_id=rows,
        bounds=Bounds(0.0, 1.0),
        norm=L2,
        key=Key(seed).child("attack"),
        criterion=Untargeted(torch.zeros(images, dtype=torch.int64)),
        oracle=Counted(lines, ledger, rows),
        ledger=ledger,
    )
    outer = torch.zeros(images, 2)
    outer[:, 0] = 1.0
    return config(problem, rows, outer, None, 0, None, ())[0], lines


def share_below(config: BayesianSearch, images: int, seed: int) -> float:
    """How often the safe position is on the adversarial side of the true centre."""
    border, lines = search(config, images, seed)
    return float((border.safe <= lines.centre).double().mean())


SETTINGS = {
    "as it is": {},
    "cut off at 25 queries": {"limit": 25},
    "5 queries per step": {"per_step": 5, "spread_over": 0.9},
    "late": {"check_every": 60, "limit": 240},
    "two floors": {"grid": Grid(floors=((0.0, 0.0), (0.01, 0.1), (0.03, 0.3)))},
}


@pytest.mark.parametrize("confidence", [0.6, 0.95])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_border_is_beyond_the_safe_position_as_often_as_promised(setting: Any, confidence: float) -> None:
    images = 120
    share = share_below(BayesianSearch(confidence=confidence, **({"limit": 150} | setting)), images, seed=1)
    assert share == pytest.approx(confidence, abs=4 * math.sqrt(confidence * (1 - confidence) / images))


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_border_is_beyond_the_safe_position_as_often_as_promised_for_many_images(
    setting: Any, confidence: float
) -> None:
    images = 600
    share = share_below(BayesianSearch(confidence=confidence, **setting), images, seed=2)
    # `safe` is a quantile between grid points, of a belief on the points; a border sharper than a cell is known to
    # half a cell at best, which costs up to 2%.
    assert share == pytest.approx(confidence, abs=4 * math.sqrt(confidence * (1 - confidence) / images) + 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["information", "sample-size"])
def test_more_answers_come_nearer_to_the_centre(acquisition: Literal["information", "sample-size"]) -> None:
    """The same lines with each limit: the mean fall of the error is five of its standard errors above 0 (3e-7)."""
    grid = Grid(positions=21, slopes=6)
    errors = []
    for limit in (10, 40, 160):
        config = BayesianSearch(grid, 0.05, acquisition=acquisition, check_every=limit, limit=limit)
        border, lines = search(config, 400, seed=3)
        errors.append((border.position - lines.centre).abs().double())
    for fewer, more in pairwise(errors):
        fall = fewer - more
        assert float(fall.mean()) > 5 * float(fall.std()) / math.sqrt(len(fall))


def test_asking_where_the_information_is_beats_asking_anywhere() -> None:
    images, queries = 100, 60
    config = BayesianSearch(check_every=queries, limit=queries)
    border, lines = search(config, images, seed=5)
    chosen = (border.position - lines.centre).abs()
    spread = BayesianSearch(check_every=queries, limit=queries, per_step=2, spread_over=1e-9)  # next to anywhere
    border, lines = search(spread, images, seed=5)
    anywhere = (border.position - lines.centre).abs()
    gain = anywhere - chosen
    assert float(gain.mean()) > 2 * float(gain.std()) / math.sqrt(images)
