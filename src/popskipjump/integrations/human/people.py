"""Statistics of the people who answered: attention, speed and disagreement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import torch

from popskipjump.integrations.human.answers import CATCH, QUERY, SECOND, UNSURE, Reply
from popskipjump.metrics.verdict import wilson_interval


def by_person(replies: Iterable[Reply], is_right: Callable[[Reply], bool]) -> dict[str, dict[str, Any]]:
    """For each pseudonym: answers, how many could not tell, median seconds, and the catch trials that were right."""
    found: dict[str, list[Reply]] = {}
    for reply in replies:
        found.setdefault(reply.person, []).append(reply)
    people = {}
    for person, given in sorted(found.items()):
        caught = [reply for reply in given if reply.kind == CATCH]
        right = sum(is_right(reply) for reply in caught)
        low, high = wilson_interval(torch.tensor([right]), len(caught))
        people[person] = {
            "answers": len(given),
            "unsure": sum(reply.answer == UNSURE for reply in given),
            "median_seconds": round(median(reply.seconds for reply in given), 2),
            "catch_trials": len(caught),
            "catch_right": right,
            "attention": [round(float(low), 3), round(float(high), 3)],
        }
    return people


def disagreement(replies: Iterable[Reply], is_other: Callable[[Reply], bool]) -> dict[str, Any]:
    """How often two people judge one picture differently, and the noise of a single answer that this implies.

    Two answers with independent mistakes of probability p differ with probability d = 2p(1 - p), so that
    p = (1 - sqrt(1 - 2d)) / 2. Answers of "can't tell" are left out.
    """
    first: dict[tuple[int, int], Reply] = {}
    pairs = differ = 0
    for reply in replies:
        if reply.answer == UNSURE or reply.kind == CATCH:
            continue
        if reply.kind == QUERY:
            first.setdefault((reply.image, reply.serial), reply)
        elif reply.kind == SECOND and (reply.image, reply.serial) in first:
            pairs += 1
            differ += is_other(reply) != is_other(first[reply.image, reply.serial])
    share = differ / pairs if pairs else None
    noise = None if share is None or share >= 0.5 else round((1 - math.sqrt(1 - 2 * share)) / 2, 4)
    return {"pairs": pairs, "differ": differ, "noise": noise}
