"""Runs that are kept, and connections that are encrypted."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import QUICK, Script, question, scripted, serving_oracle, status
from run_toys import SHAPE, Logging, everything, source_with, spec_of

import popskipjump as psj
from popskipjump.errors import OracleError
from popskipjump.runs.collect import collect


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_kept_run_over_http_is_the_one_in_process_and_its_folder_holds_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = uuid.uuid4().hex
    monkeypatch.setenv("PSJ_TEST_TOKEN", secret)
    source = source_with(Logging())
    here = collect(spec_of(source), range(3), tmp_path / "here", source=source)
    with (
        serving_oracle(Logging(), SHAPE) as url,
        psj.Endpoint(url, secrets={"Authorization": "PSJ_TEST_TOKEN"}) as endpoint,
    ):
        remote = source_with(endpoint)
        there = collect(spec_of(remote), range(3), tmp_path / "there", source=remote)
    assert np.array_equal(here.points, there.points)
    assert np.array_equal(here.queries, there.queries)
    assert len(everything(there)) == len(everything(here))
    assert secret.encode() not in contents(tmp_path / "there")


def test_a_failure_that_a_run_keeps_quotes_neither_credential_nor_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = uuid.uuid4().hex
    monkeypatch.setenv("PSJ_TEST_TOKEN", secret)
    metadata = {"name": "toy", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, *SHAPE]}]}
    with (
        scripted(Script(status(500), forever=True), metadata) as url,
        psj.Endpoint(url, secrets={"X-Key": "PSJ_TEST_TOKEN"}, patience=QUICK) as endpoint,
    ):
        source = source_with(endpoint)
        with pytest.raises(OracleError, match="status 500") as caught:
            collect(spec_of(source), range(2), tmp_path, source=source)
    kept = contents(tmp_path) + str(caught.value).encode()
    for hidden in (secret, "SECRET-BODY", repr(float(source.images[0, 0, 0, 0]))):
        assert hidden.encode() not in kept


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


def test_a_certificate_is_verified_and_an_unknown_one_refused_at_once(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    points, ticket, labels = question(5)
    with scripted(Script(), tls=context) as url:
        assert url.startswith("https://")
        with psj.Endpoint(url) as endpoint, pytest.raises(OracleError, match="certificate"):
            endpoint.connect()
        with psj.Endpoint(url, verify=str(certificate[0])) as endpoint:
            assert torch.equal(endpoint.ask(points, ticket), labels)
