"""The belief of the settle phase about P(adversarial) outward of a point, and the lines that it may run on."""

from __future__ import annotations

import torch
from attack_toys import border_of, problem_of, unit

from popskipjump.attacks.settle import Line, Lines
from popskipjump.attacks.settle.belief import Belief
from popskipjump.oracles import Plane

D = 4
FIRST = torch.tensor([0])


def number(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def count(value: int) -> torch.Tensor:
    return torch.tensor([value])


def gradual() -> Belief:
    """Of a point 0.1 of the line outward of the centre of a transition of width 0.05."""
    line = Line(
        FIRST, unit(D)[None], number(0.5), number(0.6), number(0.05), number(0), number(0), torch.tensor([False])
    )
    return Belief(line)


def test_further_out_an_answer_is_adversarial_more_often() -> None:
    belief = gradual()
    weight = torch.softmax(belief.log_weight, dim=1).unsqueeze(1)
    p = (weight * belief.probability(FIRST, torch.tensor([[0.0, 0.1, 0.5, 1.0]], dtype=torch.float64))).sum(dim=2)
    assert (p.diff() > 0).all()
    assert float(p[0, 0]) > 0.5


def test_answers_move_the_belief_to_their_side() -> None:
    yes, no = gradual(), gradual()
    before = float(gradual().right(FIRST, number(0.0)))
    yes.learn(FIRST, number(0.0), count(8), count(8))
    no.learn(FIRST, number(0.0), count(0), count(8))
    assert float(no.right(FIRST, number(0.0))) < 0.1 < before < float(yes.right(FIRST, number(0.0)))


def test_answers_that_are_half_adversarial_everywhere_are_those_of_a_coin() -> None:
    belief = gradual()
    before = float(belief.coin(FIRST))
    for t in (0.0, 0.2, 0.5, 1.0):
        belief.learn(FIRST, number(t), count(50), count(100))
    assert before < 0.02
    assert float(belief.coin(FIRST)) > 0.95


def test_more_missing_evidence_costs_more_queries_and_fewer_queries_left_miss_more_often() -> None:
    t = torch.tensor([[0.0]], dtype=torch.float64)
    few, missed = gradual().cost(FIRST, t, number(1.0), number(100.0))
    many, _ = gradual().cost(FIRST, t, number(5.0), number(100.0))
    _, missed_soon = gradual().cost(FIRST, t, number(1.0), number(2.0))
    assert float(many) > float(few)
    assert float(missed_soon) > float(missed)


def test_costs_do_not_depend_on_the_size_of_the_batch() -> None:
    line = Line.at(torch.arange(130), torch.ones(130, D))
    t, whole = torch.zeros(130, 1, dtype=torch.float64), torch.arange(130)
    missing, left = number(5.0).expand(130), number(50.0).expand(130)
    together = torch.stack(Belief(line).cost(whole, t, missing, left))
    alone = torch.stack(Belief(Line.at(FIRST, torch.ones(1, D))).cost(FIRST, t[:1], missing[:1], left[:1]))
    assert (together == alone).all()


def lines_after(*positions: float, adversarial: int = 1) -> Lines:
    """The lines of an image whose borders were found at these positions, the last with so many adversarial answers."""
    problem = problem_of(Plane(unit(D), 0.5), torch.zeros(1, D))
    lines = Lines(problem)
    for number_, place in enumerate(positions):
        last = number_ == len(positions) - 1
        probes = torch.zeros(1, 2, 3, dtype=torch.int64)
        probes[0, 1, 0] = adversarial if last else 1
        border = border_of(problem, unit(D).unsqueeze(0), place, probes=probes)
        lines.write(border, border.distance)
    return lines


def test_the_last_line_is_settled_unless_it_is_clearly_further_out_than_an_earlier_one() -> None:
    assert not lines_after(0.5, 0.6).astray()[0]
    assert not lines_after(0.6, 0.59).astray()[0]
    assert lines_after(0.6, 0.5).astray()[0]
    assert float(lines_after(0.6, 0.5).chosen(FIRST).safe) == 0.6
    assert float(lines_after(0.5, 0.6).chosen(FIRST).safe) == 0.6


def test_a_line_without_an_adversarial_answer_is_left_for_the_nearest_one_with_one() -> None:
    assert lines_after(0.5, 0.6, adversarial=0).astray()[0]
    assert float(lines_after(0.5, 0.6, adversarial=0).chosen(FIRST).safe) == 0.5
