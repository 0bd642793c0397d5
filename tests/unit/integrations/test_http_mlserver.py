"""A real MLServer in an environment of its own, serving a randomized classifier, killed in mid-attack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from present import present

httpx = pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")

from http_toys import LIFE, Killing, port_for_long, whole_lines  # noqa: E402

import popskipjump as psj  # noqa: E402
from popskipjump.integrations.http import Patience  # noqa: E402
from popskipjump.oracles import Ticket  # noqa: E402

READY_ENVIRONMENT = "PSJ_MLSERVER_VENV"  # an environment with mlserver, to spare the installation; `.ci/run` makes one
pytestmark = [pytest.mark.timeout(900), *([] if os.environ.get(READY_ENVIRONMENT) else [pytest.mark.slow])]
DIMENSION = 12

RUNTIME = '''
"""A plane whose answers are flipped in 10% of the queries, by the address of each."""
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Randomized(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        x, image, serial = (NumpyCodec.decode_input(tensor) for tensor in payload.inputs)
        flips = (image.ravel() * 7919 + serial.ravel() * 104729) * 2654435761 % (1 << 32) >> 16
        labels = (x.sum(axis=1) > 0).astype(np.int64) ^ (flips % 10 == 0)
        with open(ANSWERED, "a") as log:
            log.write("".join(f"{i} {s}\\n" for i, s in zip(image.ravel(), serial.ravel())))
        output = NumpyCodec.encode_output("label", labels.astype(np.int64))
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[output])
'''


class Twin:
    """The same classifier in process."""

    device = torch.device("cpu")

    def ask(self, points: torch.Tensor, ticket: Ticket) -> torch.Tensor:
        image, serial = ticket.image.numpy(), present(ticket.serial).numpy()
        flips = (image * 7919 + serial * 104729) * 2654435761 % (1 << 32) >> 16
        labels = (points.numpy().astype(np.float64).sum(axis=1) > 0).astype(np.int64) ^ (flips % 10 == 0)
        return torch.from_numpy(labels.astype(np.int64))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with MLServer, whose pins do not agree with ours."""
    if os.environ.get(READY_ENVIRONMENT):
        return Path(os.environ[READY_ENVIRONMENT]) / "bin"
    folder = tmp_path_factory.mktemp("mlserver") / "venv"
    try:
        venv.create(folder, with_pip=True)
        command = [str(folder / "bin" / "pip"), "install", "--quiet", "mlserver>=1.6"]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"MLServer cannot be installed here: {type(error).__name__}")
    return folder / "bin"


class MLServer:
    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.http, grpc, metrics = (port_for_long(first) for first in (24_000, 28_000, 16_000))
        settings = {"host": "127.0.0.1", "http_port": self.http, "grpc_port": grpc, "metrics_port": metrics}
        settings |= {"parallel_workers": 0, "debug": False}
        (folder / "settings.json").write_text(json.dumps(settings))
        tensors = [{"name": "x", "datatype": "FP32", "shape": [-1, DIMENSION]}]
        tensors += [{"name": name, "datatype": "INT64", "shape": [-1]} for name in ("psj_image", "psj_serial")]
        output = [{"name": "label", "datatype": "INT64", "shape": [-1, 1]}]
        model = {"name": "toy", "implementation": "runtime.Randomized", "inputs": tensors, "outputs": output}
        (folder / "model-settings.json").write_text(json.dumps(model))
        self.log = folder / "answered.txt"
        (folder / "runtime.py").write_text(RUNTIME.replace("ANSWERED", repr(str(self.log))))
        self.url = f"http://127.0.0.1:{self.http}/v2/models/toy"
        self.start()

    def start(self) -> None:
        command = [str(self.programs / "python"), str(self.programs / "mlserver"), "start", str(self.folder)]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=quiet, stderr=quiet, start_new_session=True)
        deadline = time.monotonic() + LIFE
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/ready", trust_env=False, timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.2)
        raise AssertionError("MLServer did not start")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # with its workers
        self.process.wait(LIFE)

    def answered(self) -> list[tuple[int, ...]]:
        return [tuple(map(int, line.split())) for line in whole_lines(self.log)]


def test_an_attack_on_a_real_mlserver_survives_its_kill_and_equals_the_one_in_process(
    environment: Any, tmp_path: Path
) -> None:
    generator = torch.Generator().manual_seed(0)
    images = (0.05 + 0.2 * torch.rand(3, DIMENSION, generator=generator)).numpy()
    options: dict[str, Any] = {"attack": "psj", "starts": -images, "bounds": (-1, 1), "budget": 400, "seed": 2}
    here = psj.evaluate(Twin(), images, [1, 1, 1], **options)

    server = MLServer(environment, tmp_path)
    try:
        with psj.Endpoint(server.url, patience=Patience(attempts=5000, longest=0.5), timeout=20) as endpoint:
            killing = Killing(server, [150, 500], endpoint.tally)
            killing.start()
            hooks = psj.Hooks(on_queries=killing.wait)
            there = psj.evaluate(endpoint, images, [1, 1, 1], hooks=hooks, **options)
            killing.end()
    finally:
        server.kill()
    assert killing.kills == 2
    assert np.array_equal(here.points, there.points)
    assert np.array_equal(here.queries, there.queries)
    asked = {(image, number) for image, count in enumerate(there.queries) for number in range(count)}
    assert set(server.answered()) == asked
    assert endpoint.tally.total()["answered"] == len(asked)
    assert endpoint.tally.total()["failed"] + endpoint.tally.total()["late"] >= 1
