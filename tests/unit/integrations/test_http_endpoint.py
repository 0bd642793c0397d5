"""An endpoint is an oracle like any other: what it asks, how it asks it, and what it counts."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present
from torch import Tensor

from popskipjump.evaluation import Report
from popskipjump.oracles import Oracle, Ticket

httpx = pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import (  # noqa: E402
    DIMENSION,
    METADATA,
    OVER,
    QUICK,
    SHORT,
    STUBBORN,
    Script,
    ScriptedHandler,
    hang,
    honest,
    question,
    reply,
    rows_of,
    scripted,
    serving_oracle,
    status,
)
from typer.testing import CliRunner  # noqa: E402

import popskipjump as psj  # noqa: E402
from popskipjump.cli.app import app  # noqa: E402
from popskipjump.cli.progress import Bar  # noqa: E402
from popskipjump.errors import InputError, OracleError  # noqa: E402
from popskipjump.integrations.http import NoAnswerError, Patience, PlainJson, Tally, evaluate_overlapped  # noqa: E402
from popskipjump.noise import noise_of  # noqa: E402

SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def noisy_mnist() -> psj.Classifier:
    return psj.Classifier(psj.TorchModel(psj.zoo.mnist_model()), noise_of("flip:0.1"), seed=3)


@pytest.mark.parametrize("binary", [False, True])
def test_an_attack_over_http_is_the_attack_in_process(noisy_mnist: Any, binary: bool) -> None:
    images, labels = psj.zoo.mnist_images(2)
    options: dict[str, Any] = {
        "budget": 400,
        "starts": psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(50))),
        "seed": 3,
    }
    here = psj.evaluate(psj.zoo.mnist_model(), images, labels, "psj", noise="flip:0.1", **options)
    with serving_oracle(noisy_mnist, SHAPE) as url, psj.Endpoint(url, binary=binary) as endpoint:
        there = psj.evaluate(endpoint, images, labels, "psj", **options)
        total = endpoint.tally.total()
    assert np.array_equal(here.points, there.points)
    assert np.array_equal(here.queries, there.queries)
    assert total["answered"] == total["sent"] == there.queries.sum()
    assert endpoint.tally.of(1)["answered"] == there.queries[1]


def test_overlapped_groups_find_what_one_batch_finds(noisy_mnist: Any) -> None:
    images, labels = psj.zoo.mnist_images(4)
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(50)))
    together = psj.evaluate(noisy_mnist, images, labels, "hsj", starts=pool, budget=90, seed=1)
    with serving_oracle(noisy_mnist, SHAPE) as url, psj.Endpoint(url) as endpoint:
        apart = evaluate_overlapped(endpoint, images, labels, "hsj", starts=pool, budget=90, seed=1, groups=3)
    np.testing.assert_allclose(apart.points, together.points, atol=1e-5)
    assert apart.status == together.status
    assert np.array_equal(apart.queries, together.queries)
    assert {phase: int(q.sum()) for phase, q in apart.queries_by_phase.items()} == {
        phase: int(q.sum()) for phase, q in together.queries_by_phase.items()
    }
    assert apart.trace.distance.shape == together.trace.distance.shape
    assert str(apart)


def test_a_batch_is_divided_by_the_servers_own_limit(noisy_mnist: Any) -> None:
    images, _ = psj.zoo.mnist_images(23)
    ticket = psj.Ticket(torch.arange(23), torch.zeros(23, dtype=torch.int64))
    with serving_oracle(noisy_mnist, SHAPE, max_rows=5) as url, psj.Endpoint(url, connections=2) as endpoint:
        found = endpoint.ask(torch.from_numpy(images), ticket)
    assert torch.equal(found, noisy_mnist.ask(torch.from_numpy(images), ticket))


def test_no_more_requests_are_under_way_than_connections() -> None:
    together = threading.Barrier(3)

    def slow(handler: ScriptedHandler, request: dict[str, Any]) -> None:
        together.wait(OVER)  # three requests have arrived
        time.sleep(0.02)  # a fourth would arrive now
        honest(handler, request)

    script = Script(slow, forever=True)
    points, ticket, labels = question(24)
    with scripted(script) as url, psj.Endpoint(url, connections=3, rows=2) as endpoint:
        assert torch.equal(endpoint.ask(points, ticket), labels)
    assert script.most_at_once == 3
    assert len(script.requests) == 12


def test_the_rate_limit_is_kept() -> None:
    points, ticket, labels = question(12)
    with scripted(Script()) as url, psj.Endpoint(url, rows=1, fewest_rows=1, rate=40) as endpoint:
        endpoint.connect()
        began = time.monotonic()
        assert torch.equal(endpoint.ask(points, ticket), labels)
    assert time.monotonic() - began >= 11 / 40


def test_a_retried_query_is_answered_once_and_counted_by_its_outcomes() -> None:
    script = Script(status(500), status(429), status(503))
    points, ticket, labels = question(3, image=7)
    with scripted(script) as url, psj.Endpoint(url, patience=QUICK) as endpoint:
        assert torch.equal(endpoint.ask(points, ticket), labels)
    assert endpoint.tally.of(7) == {"sent": 12, "answered": 3, "rejected": 3, "late": 0, "failed": 6, "given_up": 0}
    assert len(script.requests) == 4


def test_one_timeout_does_not_end_an_image_that_is_alone_in_its_batch() -> None:
    images = np.full((1, DIMENSION), 0.1, dtype=np.float32)
    starts = -images
    script = Script(*[honest] * 8, hang, *[honest] * 5, hang)
    with scripted(script) as url, psj.Endpoint(url, timeout=SHORT, patience=STUBBORN) as endpoint:
        report = psj.evaluate(endpoint, images, [1], "hsj", starts=starts, budget=80, bounds=(-1, 1))
    assert report.status[0].has_point
    assert np.isfinite(report.distances[0])
    assert endpoint.tally.of(0)["late"] >= 1
    assert endpoint.tally.of(0)["answered"] == report.queries[0] <= 80


def test_a_refused_query_does_not_cost_its_neighbours_their_answers() -> None:
    def picky(handler: ScriptedHandler, request: dict[str, Any]) -> None:
        if (rows_of(request)[:, 0] > 0.45).any():
            status(403)(handler, request)
        else:
            honest(handler, request)

    points, ticket, labels = question(16)
    points[:, 0].clamp_(max=0.4)
    labels = (points.double().sum(dim=1) > 0).to(torch.int64)
    points[5, 0] = 0.49
    with scripted(Script(picky, forever=True)) as url:
        with psj.Endpoint(url, patience=QUICK, fewest_rows=16) as endpoint, pytest.raises(NoAnswerError, match="403"):
            endpoint.ask(points, ticket)
        with psj.Endpoint(url, patience=QUICK, fewest_rows=16, refused_as={0: 9}) as endpoint:
            found = endpoint.ask(points, ticket)
    labels[5] = 9
    assert torch.equal(found, labels)
    assert endpoint.tally.of(0)["given_up"] == 1
    assert endpoint.tally.of(0)["answered"] == 15


def test_a_request_that_is_too_large_is_divided() -> None:
    def small_only(handler: ScriptedHandler, request: dict[str, Any]) -> None:
        (honest if len(rows_of(request)) <= 3 else status(413))(handler, request)

    points, ticket, labels = question(16)
    with scripted(Script(small_only, forever=True)) as url, psj.Endpoint(url, fewest_rows=16) as endpoint:
        assert torch.equal(endpoint.ask(points, ticket), labels)


def test_with_jitter_no_query_and_no_attempt_repeats_bit_for_bit() -> None:
    script = Script(status(500), status(403), forever=False)
    points = torch.zeros(8, DIMENSION)
    ticket = psj.Ticket(torch.zeros(8, dtype=torch.int64), torch.arange(8))
    with scripted(script) as url, psj.Endpoint(url, patience=QUICK, jitter=1e-3, rows=8, fewest_rows=8) as endpoint:
        endpoint.ask(points, ticket)
        endpoint.ask(points, psj.Ticket(ticket.image, present(ticket.serial) + 8))
    sent = np.concatenate([rows_of(request) for request in script.requests])
    assert len(sent) == 8 * 4  # twice in vain, once in two halves, once more
    assert len(np.unique(sent, axis=0)) == len(sent)
    assert sent.min() >= 0
    assert 0 < sent.max() <= 1e-3


class StatefulDefence:
    """Refuses a query if it has seen three others within `radius`, as detectors of query attacks do."""

    def __init__(self, radius: float) -> None:
        self.radius, self.seen, self.refused = radius, np.zeros((0, DIMENSION)), 0

    def __call__(self, handler: ScriptedHandler, request: dict[str, Any]) -> None:
        labels = []
        for row in rows_of(request):
            near = (np.linalg.norm(self.seen - row, axis=1) < self.radius).sum() >= 3
            self.refused += int(near)
            labels.append(-1 if near else int(np.sum(row) > 0))
            self.seen = np.concatenate((self.seen, row[np.newaxis]))
        output = {"name": "label", "datatype": "INT64", "shape": [len(labels)], "data": labels}
        reply(handler, {"id": request["id"], "outputs": [output]})


def _against_defence(**options: Any) -> tuple[psj.Report, dict[str, int], StatefulDefence]:
    defence = StatefulDefence(radius=1e-3)
    images = np.full((1, DIMENSION), 0.2, dtype=np.float32)
    script = Script(defence, forever=True)
    with scripted(script) as url, psj.Endpoint(url, patience=QUICK, connections=1, **options) as endpoint:
        report = psj.evaluate(endpoint, images, [1], "psj", starts=-images, budget=150, bounds=(-1, 1), verdict=0)
    return report, endpoint.tally.of(0), defence


def test_a_stateful_defence_is_survived_by_policy_and_its_refusals_are_counted() -> None:
    report, counts, defence = _against_defence(refused_as=[1])
    assert report.status[0].has_point
    assert counts["rejected"] == defence.refused > 0
    assert counts["given_up"] > 0
    assert counts["answered"] + counts["given_up"] == report.queries[0]


def test_jitter_gets_past_a_defence_that_looks_for_similar_queries() -> None:
    report, counts, _ = _against_defence(jitter=0.01, bounds=(-1, 1))
    assert report.status[0].has_point
    assert counts["given_up"] == 0
    assert counts["answered"] == report.queries[0]


def test_a_stateful_defence_without_a_policy_ends_in_a_clear_error() -> None:
    with pytest.raises(OracleError, match="refused to label a query"):
        _against_defence()


@pytest.mark.parametrize(
    ("template", "path", "answer", "classes"),
    [
        ({"instances": "$inputs"}, "predictions", lambda rows: {"predictions": [int(r.sum() > 0) for r in rows]}, None),
        ({"a": ["$inputs"]}, "p.*.c", lambda rows: {"p": [{"c": int(r.sum() > 0)} for r in rows]}, None),
        ("$inputs", "", lambda rows: [[0.5, float(0.5 + r.sum())] for r in rows], None),
        ({"one": "$input"}, "0.label", lambda rows: [{"label": "yes" if rows.sum() > 0 else "no"}], ["no", "yes"]),
        ({"one": "$input"}, "scores", lambda rows: {"scores": [0.5, float(0.5 + rows.sum())]}, None),
    ],
)
def test_a_template_and_a_path_are_enough_for_a_server_with_its_own_json(
    template: Any, path: str, answer: Callable[..., Any], classes: list[str] | None
) -> None:
    def behave(handler: ScriptedHandler, request: dict[str, Any]) -> None:
        key = next(iter(request)) if isinstance(request, dict) else None
        values = request if key is None else request[key]
        reply(handler, answer(np.array(values[0] if key == "a" else values)))

    points, ticket, labels = question(9)
    with (
        scripted(Script(behave, forever=True)) as url,
        psj.Endpoint(url.removesuffix("/v2/models/toy") + "/predict", PlainJson(template, path, classes)) as endpoint,
    ):
        assert torch.equal(endpoint.ask(points, ticket), labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "ftp://x/y"}, "must look like"),
        ({"url": "http://me:pass@127.0.0.1/v2/models/m"}, "no user name"),
        ({"url": "http://127.0.0.1/v2/models/m?key=1"}, "no user name"),
        ({"connections": 0}, "connections"),
        ({"timeout": 0}, "timeout"),
        ({"verify": False}, "always verified"),
        ({"headers": {"Authorization": "x"}}, "looks like a credential"),
        ({"headers": {"X-Team": "a\r\nb"}}, "printable"),
        ({"secrets": {"Authorization": "PSJ_TEST_UNSET"}}, "PSJ_TEST_UNSET"),
        ({"url": "http://example.org/v2/models/m", "secrets": {"Authorization": "PSJ_TEST_SET"}}, "in the clear"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("PSJ_TEST_SET", "hidden-value")
    with pytest.raises(InputError, match=message) as caught:
        psj.Endpoint(**{"url": "http://127.0.0.1:9/v2/models/m", **change})
    assert "hidden-value" not in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_images_of_a_wrong_size_are_refused_and_flat_ones_are_sent_in_the_servers_shape() -> None:
    square = {**METADATA, "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2, 3]}]}
    points, ticket, labels = question(4)
    script = Script()
    with scripted(script, square) as url, psj.Endpoint(url) as endpoint:
        assert torch.equal(endpoint.ask(points, ticket), labels)
        with pytest.raises(InputError, match=r"shape \(2, 3\)"):
            endpoint.ask(points[:, :5], ticket)
    assert script.requests[0]["inputs"][0]["shape"] == [4, 2, 3]


def test_the_command_line_takes_a_url_and_tells_the_outcomes(noisy_mnist: Any, tmp_path: Path) -> None:
    with serving_oracle(noisy_mnist, SHAPE) as url:
        words = ["attack", "--model", url, "--images", "1", "--iterations", "0", "--verdict", "5", "--seed", "3"]
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "answered, 0 rejected, 0 late, 0 failed" in result.output
    outcomes = json.loads((tmp_path / "out" / "outcomes.json").read_text())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert outcomes["images"][0]["answered"] == report["images"][0]["queries"]
    assert report["images"][0]["outcomes"] == {k: v for k, v in outcomes["images"][0].items() if k != "image"}


def test_the_counts_of_a_command_that_goes_on_are_added_to_those_before(noisy_mnist: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving_oracle(noisy_mnist, SHAPE) as url:
        for _ in range(2):  # the second one finds everything
            words = ["attack", "--model", url, "--images", "5", "--budget", "60", "--out", str(out)]
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
    report = json.loads((out / "report.json").read_text())
    assert [entry["outcomes"]["answered"] for entry in report["images"]] == [e["queries"] for e in report["images"]]
    (out / "outcomes.json").write_text("{}")
    with pytest.raises(InputError, match="no outcomes"):
        Tally().keep(out / "outcomes.json")
    assert (out / "outcomes.json").read_text() == "{}"


def test_a_run_on_a_server_that_was_interrupted_goes_on_with_the_same_command(
    noisy_mnist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ctrl_c(bar: Bar, queries: int) -> None:
        counted(bar, queries)
        if bar.asked > 200:
            raise KeyboardInterrupt

    counted, out = Bar.queries, tmp_path / "out"
    with serving_oracle(noisy_mnist, SHAPE) as url:
        words = ["attack", "--model", url, "--images", "8", "--budget", "100", "--out", str(out)]
        with monkeypatch.context() as patched:
            patched.setattr(Bar, "queries", ctrl_c)
            result = CliRunner().invoke(app, words)
        assert result.exit_code == 130
        assert "go on with the same command" in result.stderr
        first = json.loads((out / "outcomes.json").read_text())["total"]["answered"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    report = json.loads((out / "report.json").read_text())
    total = json.loads((out / "outcomes.json").read_text())["total"]["answered"]
    assert 0 < first <= total == sum(entry["queries"] for entry in report["images"])


def test_an_endpoint_from_a_users_file_is_told_of_like_an_address(noisy_mnist: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving_oracle(noisy_mnist, SHAPE) as url:
        (tmp_path / "far.py").write_text(
            f"import popskipjump as psj\ndef make():\n    return psj.Endpoint({url!r}, rate=1e4)\n"
        )
        words = [
            "attack",
            "--model",
            f"{tmp_path / 'far.py'}:make",
            "--images",
            "8",
            "--budget",
            "50",
            "--out",
            str(out),
        ]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "0 given up" in result.output
    report = json.loads((out / "report.json").read_text())
    assert [entry["outcomes"]["answered"] for entry in report["images"]] == [e["queries"] for e in report["images"]]


def test_overlapped_groups_warn_of_noise_once(noisy_mnist: Any) -> None:
    images, labels = psj.zoo.mnist_images(8)
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(50)))
    options: dict[str, Any] = {"starts": pool, "budget": 200, "seed": 1, "verdict": 20}
    together = psj.evaluate(noisy_mnist, images, labels, "psj", **options)
    apart = evaluate_overlapped(noisy_mnist, images, labels, "psj", groups=4, **options)
    assert sum("noisy" in text for text in together.warnings) == 1
    assert sum("noisy" in text for text in apart.warnings) == 1


def test_the_command_line_says_before_the_first_query_that_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "pause", lambda *_: 0.0)
    result = CliRunner().invoke(app, ["attack", "--model", "http://127.0.0.1:9/v2/models/m", "--images", "1"])
    assert result.exit_code == 2
    assert "no answer from http://127.0.0.1:9" in result.stderr


class Plain:
    """Class 1 where the sum is positive; raises on one image."""

    device = torch.device("cpu")

    def __init__(self, bad: int | None = None) -> None:
        self.bad = bad

    def ask(self, points: torch.Tensor, ticket: psj.Ticket) -> torch.Tensor:
        if self.bad is not None and self.bad in ticket.image.tolist():
            raise RuntimeError("this image breaks the classifier")
        return (points.sum(dim=1) > 0).to(torch.int64)


def _overlapped(oracle: Oracle, budget: int = 200) -> Report:
    images = np.full((6, DIMENSION), 0.1, dtype=np.float32) + np.arange(6, dtype=np.float32)[:, None] / 50
    return evaluate_overlapped(oracle, images, [1] * 6, "hsj", starts=-images, bounds=(-1, 1), budget=budget, groups=6)


def test_a_group_that_fails_does_not_end_the_others() -> None:
    report = _overlapped(Plain(bad=2))
    assert [status is psj.Status.ORACLE_FAILED for status in report.status] == [False, False, True, False, False, False]
    assert np.isinf(report.distances[2])
    assert np.isfinite(np.delete(report.distances, 2)).all()
    assert "breaks the classifier" in report.messages[2]
    assert report.queries[2] >= 1
    assert str(report)


def test_groups_that_all_fail_are_an_error() -> None:
    class Broken(Plain):
        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            raise RuntimeError("no model")

    with pytest.raises(OracleError, match="no model"):
        _overlapped(Broken())


def test_ctrl_c_ends_all_groups_with_what_they_have_found() -> None:
    class Interrupting(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.asked: Counter[int] = Counter()
            self.sent, self.lock = False, threading.Lock()

        def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
            time.sleep(0.001)  # lets the others go on
            with self.lock:
                self.asked.update(set(ticket.image.tolist()))
                if len(self.asked) == 6 and min(self.asked.values()) >= 15 and not self.sent:
                    self.sent = True
                    os.kill(os.getpid(), signal.SIGINT)
            return super().ask(points, ticket)

    report = _overlapped(Interrupting(), budget=100_000)
    assert psj.Status.INTERRUPTED in report.status
    assert report.queries.max() < 100_000
