"""An attack over HTTP against a bare load generator on the same server, and how many connections it keeps busy.

The server is `psj serve` in a process of its own, with a latency for every request. The attack runs first, with its
images in groups that overlap; the server's log tells the size of each of its requests. The load generator then sends
as many requests of the same sizes over as many connections, with bodies made beforehand and no look at the answers:
nothing that asks these queries in these requests can be faster.

    python benchmarks/endpoint.py --images 40 --groups 8 --latency 0.05
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

import popskipjump as psj
from popskipjump.integrations.http import evaluate_overlapped
from popskipjump.integrations.http.protocol import Part, Request, Signature, request_of

SHAPE = (1, 28, 28)


def served(latency: float, max_rows: int, log: Path) -> tuple[subprocess.Popen[str], str]:
    """The server and the address of its model."""
    command = [sys.executable, "-m", "popskipjump", "serve", "--noise", "flip:0.1", "--latency", str(latency)]
    command += ["--max-rows", str(max_rows), "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    said = re.search(r"http://\S+", process.stdout.readline() if process.stdout else "")
    if said is None:
        raise SystemExit("the server did not start")
    return process, said[0]


def attack(url: str, options: argparse.Namespace) -> tuple[float, float, int]:
    """Seconds, share of the connections in use, and queries of an attack."""
    images, labels = psj.zoo.mnist_images(options.images)
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(200)))
    with psj.Endpoint(url, connections=options.connections, fewest_rows=options.rows) as endpoint:
        endpoint.connect()
        began = time.perf_counter()
        report = evaluate_overlapped(
            endpoint,
            images,
            labels,
            options.attack,
            groups=options.groups,
            starts=pool,
            iterations=options.iterations,
            keep_trace=False,
        )
        seconds = time.perf_counter() - began
        return seconds, endpoint.busy_seconds / (options.connections * seconds), int(report.queries.sum())


def load(url: str, sizes: list[int], connections: int) -> float:
    """Seconds of a load generator for requests of these sizes."""
    host, path = url.removeprefix("http://").split("/", 1)
    signature = Signature("input", output_name="label", addressed=True, binary=True)
    bodies: dict[int, Request] = {}
    for size in set(sizes):
        points = np.random.default_rng(size).random((size, *SHAPE), dtype=np.float32)
        numbers = np.arange(size, dtype=np.int64)
        bodies[size] = request_of(Part(points, numbers * 0, numbers), "load", signature)
    waiting, lock = list(reversed(sizes)), threading.Lock()

    def work() -> None:
        connection = http.client.HTTPConnection(host)
        while True:
            with lock:
                if not waiting:
                    return
                body = bodies[waiting.pop()]
            connection.request("POST", f"/{path}/infer", body.body, body.headers)
            connection.getresponse().read()

    workers = [threading.Thread(target=work) for _ in range(connections)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--attack", default="psj")
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1, help="inputs of a request at least")
    parser.add_argument("--max-rows", type=int, default=16, help="inputs of a request at most")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"psj {psj.__version__}: {vars(options)}")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "answered.jsonl"
        process, url = served(options.latency, options.max_rows, log)
        try:
            for _ in range(options.repeats):
                log.unlink(missing_ok=True)
                cpu = time.process_time()
                seconds, used, queries = attack(url, options)
                cpu = time.process_time() - cpu
                sizes = [len(json.loads(line)["image"]) for line in log.read_text().splitlines()]
                bare = load(url, sizes, options.connections)
                print(
                    f"attack {seconds:.2f} s, load generator {bare:.2f} s, ratio {seconds / bare:.3f}; "
                    f"{queries:,} queries in {len(sizes):,} requests; {used:.1%} of the connections in use; "
                    f"{cpu:.1f} s of processor time in the attack; "
                    f"{options.latency * len(sizes) / options.connections:.1f} s of latency alone"
                )
        finally:
            process.terminate()
            process.wait(10)


if __name__ == "__main__":
    main()
