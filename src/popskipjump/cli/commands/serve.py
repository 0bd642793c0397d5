"""`psj serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.console import output, plain_errors

Noise = Annotated[str | None, typer.Option(help="Noise to put on the answers, such as flip:0.1; see `psj noises`.")]
Seed = Annotated[int, typer.Option(help="Random seed of the noise.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one and prints it.")]
MaxRows = Annotated[int, typer.Option(min=1, help="Largest number of inputs in one request.")]
Latency = Annotated[float, typer.Option(min=0, help="Seconds that every request waits, to imitate a slow service.")]
Log = Annotated[Path | None, typer.Option(help="Append the addresses of answered queries to this file.")]


def serve(
    noise: Noise = None,
    seed: Seed = 0,
    port: Port = 0,
    max_rows: MaxRows = 256,
    latency: Latency = 0.0,
    log: Log = None,
) -> None:
    """Serve the embedded MNIST classifier on this machine, by the Open Inference Protocol (V2), until Ctrl-C."""
    with plain_errors("the server has ended"):
        from popskipjump.integrations.http.server import Served, application, listen, server_of
        from popskipjump.noise import noise_of
        from popskipjump.oracles import Classifier, TorchModel
        from popskipjump.zoo import mnist_model

        # As `evaluate` builds it from a module, so that the answers are those of an attack in process.
        oracle = Classifier(TorchModel(mnist_model()), noise_of(noise), seed)
        served = Served(oracle, (1, 28, 28), "mnist", max_rows, latency, log)
        server = server_of(application(served))
        with listen(port) as socket:
            address = f"http://127.0.0.1:{socket.getsockname()[1]}/v2/models/{served.name}"
            output().print(f"serving {address}", markup=False)
            server.run(sockets=[socket])
