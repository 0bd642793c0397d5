"""Servers that break every promise: a clear error or a survived retry, and never a wrong label."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

httpx = pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import (  # noqa: E402
    DIMENSION,
    QUICK,
    SHORT,
    STUBBORN,
    Script,
    ScriptedHandler,
    hang,
    honest,
    question,
    reply,
    scripted,
    status,
)

import popskipjump as psj  # noqa: E402
from popskipjump.cli.endpoint import tell_outcomes  # noqa: E402
from popskipjump.errors import OracleError  # noqa: E402
from popskipjump.integrations.http import PlainJson  # noqa: E402
from popskipjump.runs.keep import write_report  # noqa: E402


def outputs(*entries: dict[str, Any], **more: Any) -> Callable[..., Any]:
    return lambda handler, request: reply(handler, {"id": request["id"], "outputs": list(entries), **more})


def labels(data: Any, shape: list[int] | None = None, datatype: str = "INT64") -> dict[str, Any]:
    return {"name": "label", "datatype": datatype, "shape": [len(data)] if shape is None else shape, "data": data}


def close(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    handler.close_connection = True


def half(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"outputs": [')
    handler.close_connection = True


def drip(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.over.wait(0.02):  # a header that never ends, a byte at a time
        handler.wfile.write(b"x")


def endless(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"100000\r\n" + b" " * 0x100000 + b"\r\n")


def announced(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(100 << 20))
    handler.end_headers()
    handler.close_connection = True


def compressed(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    reply(handler, b"\x1f\x8b" + b"\0" * 50, headers={"Content-Encoding": "gzip"})


def other_id(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    reply(handler, {"id": "another", "outputs": [labels([1, 1, 1])]})


def not_a_length(handler: ScriptedHandler, request: dict[str, Any]) -> None:
    reply(handler, b"{}", headers={"Inference-Header-Content-Length": "-3"})


HOSTILE = {
    "500": status(500),
    "hangs": hang,
    "closes": close,
    "sends half": half,
    "drips": drip,
    "100 MB": endless,
    "announces 100 MB": announced,
    "compressed": compressed,
    "HTML": lambda h, r: reply(h, b"<html>SECRET-BODY</html>", kind="text/html"),
    "deep JSON": lambda h, r: reply(h, b"[" * 200_000),
    "empty": lambda h, r: reply(h, b""),
    "no outputs": outputs(),
    "two outputs": outputs(labels([1, 1, 1]), {**labels([0, 0, 0]), "name": "label"}),
    "NaN label": lambda h, r: reply(
        h, b'{"outputs":[{"name":"label","datatype":"INT64","shape":[3],"data":[NaN,1,1]}]}'
    ),
    "NaN score": outputs(labels([0.5, float("nan"), 0, 1, 0, 1], [3, 2], "FP32")),
    "infinite score": outputs(labels([0.5, float("inf"), 0, 1, 0, 1], [3, 2], "FP32")),
    "too few": outputs(labels([1, 1])),
    "too many": outputs(labels([1, 1, 1, 1])),
    "fewer than said": outputs(labels([1, 1], [3])),
    "strings": outputs(labels(["1", "1", "1"])),
    "words": outputs(labels(["a", "b", "c"], datatype="BYTES")),
    "floats": outputs(labels([1.0, 1.0, 1.0], datatype="FP32")),
    "halves": outputs(labels([0.5, 1.5, 1.0])),
    "truths": outputs(labels([True, True, False])),
    "huge": outputs(labels([1 << 63, 1, 1], datatype="UINT64")),
    "ragged": outputs(labels([[1], [1, 1]], [3])),
    "another id": other_id,
    "header length": not_a_length,
    "wrong shape": outputs(labels([1, 1, 1], [1, 3])),
    "negative shape": outputs(labels([1, 1, 1], [-3])),
}
FATAL = {
    "redirect": lambda h, r: reply(h, b"", 302, headers={"Location": "http://127.0.0.1:9/elsewhere"}),
    "401": status(401),
    "404": status(404),
}


ENDLESS = ("hangs", "drips")


def endpoint_for(url: str) -> psj.Endpoint:
    return psj.Endpoint(url, patience=QUICK, max_response=1 << 20)


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ENDLESS])
def test_a_server_that_misbehaves_once_is_asked_again(name: str) -> None:
    points, ticket, right = question(3)
    with scripted(Script(HOSTILE[name])) as url, endpoint_for(url) as endpoint:
        assert torch.equal(endpoint.ask(points, ticket), right)
    assert endpoint.tally.of(0) == {
        "sent": 6,
        "answered": 3,
        "rejected": 0,
        "late": 0,
        "failed": 3,
        "given_up": 0,
    }


@pytest.mark.parametrize("name", ENDLESS)
def test_a_server_that_never_ends_its_answer_is_late_and_asked_again(name: str) -> None:
    points, ticket, right = question(3)
    with (
        scripted(Script(HOSTILE[name])) as url,
        psj.Endpoint(url, patience=STUBBORN, timeout=SHORT) as endpoint,
    ):
        assert torch.equal(endpoint.ask(points, ticket), right)
    counts = endpoint.tally.of(0)
    assert counts["answered"] == 3
    assert counts["late"] >= 3  # the scripted one, and honest answers that a busy machine delays
    assert counts["late"] % 3 == 0
    assert counts["sent"] == counts["answered"] + counts["late"]


@pytest.mark.parametrize("name", [*HOSTILE, *FATAL])
def test_a_server_that_always_misbehaves_ends_in_a_clear_error_and_no_label(name: str) -> None:
    if name in (*ENDLESS, "100 MB"):
        pytest.skip("the wait of one attempt is enough: see the tests above")
    points, ticket, _ = question(3)
    script = Script({**HOSTILE, **FATAL}[name], forever=True)
    with scripted(script) as url, endpoint_for(url) as endpoint, pytest.raises(OracleError) as caught:
        endpoint.ask(points, ticket)
    assert "SECRET" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert len(script.requests) == (1 if name in FATAL else len(script.requests)) <= QUICK.attempts
    assert endpoint.tally.of(0)["answered"] == 0


def test_a_redirect_is_never_followed() -> None:
    elsewhere = Script()
    with scripted(elsewhere) as other:
        away = lambda h, r: reply(h, b"", 307, headers={"Location": f"{other}/infer"})  # noqa: E731
        points, ticket, _ = question(3)
        with scripted(Script(away)) as url, endpoint_for(url) as endpoint, pytest.raises(OracleError, match="redirect"):
            endpoint.ask(points, ticket)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "content", [b"{}", b"[1, 2]", b'{"p": ["a", "b", "c"]}', b'{"p": [1.5, 1, 1]}', b'{"p": 3}', b"x"]
)
def test_a_plain_json_server_cannot_pass_off_anything_as_labels(content: bytes) -> None:
    points, ticket, _ = question(3)
    with scripted(Script(lambda h, r: reply(h, content), forever=True)) as url:
        endpoint = psj.Endpoint(url, PlainJson({"i": "$inputs"}, "p"), patience=QUICK)
        with endpoint, pytest.raises(OracleError, match="cannot be used"):
            endpoint.ask(points, ticket)


@pytest.mark.parametrize(
    "metadata",
    [
        {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1]}]},
        {"inputs": [{"name": "x", "datatype": "FP32"}, {"name": "y", "datatype": "FP32"}]},
    ],
)
def test_a_model_that_cannot_be_asked_is_refused_before_the_first_query(metadata: Any) -> None:
    script = Script()
    with scripted(script, metadata) as url, endpoint_for(url) as endpoint, pytest.raises(psj.InputError):
        endpoint.connect()
    assert script.requests == []


def test_credentials_and_bodies_appear_in_no_log_report_or_file(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = uuid.uuid4().hex
    monkeypatch.setenv("PSJ_TEST_TOKEN", f"Bearer {secret}")
    caplog.set_level(logging.DEBUG)
    images = np.full((2, DIMENSION), 0.123456789, dtype=np.float32)
    images[1] += 0.05
    body = repr(float(images[0, 0]))
    script = Script(*[honest] * 20, status(500), HOSTILE["HTML"], *[honest] * 10, *[status(403)] * 3)
    with scripted(script) as url:
        endpoint = psj.Endpoint(url, secrets={"Authorization": "PSJ_TEST_TOKEN"}, patience=QUICK)
        with endpoint:
            report = psj.evaluate(endpoint, images, [1, 1], "hsj", starts=-images, budget=60, bounds=(-1, 1))
            write_report(tmp_path, report, np.arange(2), {"spec": {"model": str(endpoint.address)}})
            tell_outcomes(endpoint, tmp_path)
        script.behaviours, script.forever = [status(401)], True
        with pytest.raises(OracleError) as caught, psj.Endpoint(url, patience=QUICK) as bare:
            bare.ask(torch.from_numpy(images), psj.Ticket(torch.arange(2), torch.zeros(2, dtype=torch.int64)))
    assert all(headers["Authorization"] == f"Bearer {secret}" for headers in script.headers[:-1])
    printed = capsys.readouterr()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.suffix == ".json"]
    assert len(files) == 2
    text = [caplog.text, printed.out, printed.err, repr(endpoint), str(vars(endpoint)), str(report), str(caught.value)]
    for written in [*text, *(file.decode() for file in files), *map(str, report.messages.values())]:
        assert secret not in written
        assert body not in written
        assert "SECRET-BODY" not in written
