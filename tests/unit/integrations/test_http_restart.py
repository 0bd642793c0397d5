"""A server that is killed in the middle of an attack: the attack goes on, and every answer is recorded once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present

pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import LIFE, Killing, port_for_long, whole_lines

import popskipjump as psj
from popskipjump.integrations.http import Patience
from popskipjump.rng import Key, uniform

SOURCE = Path(psj.__file__).parents[1]


class Server:
    """`psj serve` in a process of its own, on one port over all its lives."""

    def __init__(self, log: Path) -> None:
        self.log, self.port = log, port_for_long(20_000)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "popskipjump", "serve", "--noise", "flip:0.1", "--seed", "5"]
        command += ["--port", str(self.port), "--log", str(self.log)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        said = present(self.process.stdout).readline()
        self.url = present(re.search(r"http://127\.0\.0\.1:(\d+)/\S+", said))[0]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIFE)
        present(self.process.stdout).close()

    def answered(self) -> list[tuple[int, int]]:
        """The addresses (image, number) of all queries that were answered, in order, by all lives."""
        found: list[Any] = []
        for line in whole_lines(self.log):
            record = json.loads(line)
            found += zip(record["image"], record["serial"], strict=True)
        return found


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(1500)])])
def test_a_killed_server_costs_no_answer_and_changes_no_result(tmp_path: Path, kills: int) -> None:
    images, labels = psj.zoo.mnist_images(3)
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(50)))
    options: dict[str, Any] = {
        "attack": "hsj",
        "starts": pool,
        "budget": 120 if kills == 1 else 400,
        "seed": 5,
        "verdict": 20,
    }
    here = psj.evaluate(psj.zoo.mnist_model(), images, labels, noise="flip:0.1", **options)

    server = Server(tmp_path / "answered.jsonl")
    draws = uniform(Key(0).child("moments").root(), kills).flatten()
    moments = [10 + int(0.8 * (int(here.queries.sum()) - 10) * float(draw)) for draw in draws]
    try:
        patience = Patience(attempts=5000, first=0.05, longest=0.5)  # several kills may follow each other
        with psj.Endpoint(server.url, patience=patience, timeout=20) as endpoint:
            killing = Killing(server, moments, endpoint.tally)
            killing.start()
            there = psj.evaluate(endpoint, images, labels, hooks=psj.Hooks(on_queries=killing.wait), **options)
            killing.end()
    finally:
        server.kill()

    assert killing.kills == kills
    assert there.messages == {}
    assert endpoint.tally.total()["given_up"] == 0
    assert np.array_equal(here.points, there.points)
    assert np.array_equal(here.queries, there.queries)
    # The ledger's addresses are 0 .. queries - 1 of each image: the server has answered each, and nothing else.
    log = server.answered()
    asked = {(image, number) for image, count in enumerate(there.queries) for number in range(count)}
    assert set(log) == asked
    counts = endpoint.tally.total()
    assert counts["answered"] == there.queries.sum() == len(asked)
    lost = sum(times - 1 for times in Counter(log).values())  # answered by the server, and never arrived
    assert lost <= counts["failed"] + counts["late"]
    assert counts["failed"] + counts["late"] >= 1
