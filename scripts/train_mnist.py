"""Make the embedded MNIST model and images from the original idx files.

    python scripts/train_mnist.py --data DIR            # trains, writes mnist_cnn.safetensors
    python scripts/train_mnist.py --data DIR --embed    # writes mnist_test_1000.npz instead

Both are reproducible: the same files, seed and torch version give the same result (one CPU thread).
"""

from __future__ import annotations

import argparse
import io
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from popskipjump.zoo.idx import read_idx_pair
from popskipjump.zoo.nets import MnistCnn
from popskipjump.zoo.readers import Split, read_mnist

ASSETS = Path(__file__).resolve().parents[1] / "src" / "popskipjump" / "zoo" / "assets"
EMBEDDED = 1000
BATCH = 100
PEAK_RATE = 4e-3
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date inside the archive, so that two runs write the same bytes


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    if args.embed:
        embed(args.data, args.out or ASSETS / "mnist_test_1000.npz")
    else:
        train(args.data, args.out or ASSETS / "mnist_cnn.safetensors", args.epochs, args.seed)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the MNIST idx files, gzipped or not")
    parser.add_argument("--out", type=Path, help="file to write (default: the package's asset)")
    parser.add_argument("--embed", action="store_true", help=f"write the first {EMBEDDED} test images; train nothing")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def embed(data: Path, out: Path) -> None:
    images, labels = read_idx_pair(data, "test")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in (("images", images[:EMBEDDED]), ("labels", labels[:EMBEDDED])):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH)
            archive.writestr(entry, buffer.getvalue(), compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)
    print(f"{out}: {EMBEDDED} images, {out.stat().st_size} bytes")


def train(data: Path, out: Path, epochs: int, seed: int) -> None:
    images, labels = tensors(data, "train")
    test_images, test_labels = tensors(data, "test")
    # Initial weights and dropout draw from torch's own stream: seeded here, given back unchanged afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MnistCnn()
        optimizer = torch.optim.Adam(model.parameters(), lr=PEAK_RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_RATE, epochs * (len(images) // BATCH))
        shuffler = torch.Generator().manual_seed(seed)
        for epoch in range(epochs):
            begin = time.perf_counter()
            order = torch.randperm(len(images), generator=shuffler)
            batches = [(images[part], labels[part]) for part in order.split(BATCH) if len(part) == BATCH]
            loss = one_epoch(model, batches, optimizer, schedule)
            print(f"epoch {epoch + 1}: loss {loss:.4f}, {time.perf_counter() - begin:.1f} s", flush=True)
    print(f"test accuracy {accuracy(model, test_images, test_labels):.2%}")
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out)
    print(f"{out}: {out.stat().st_size} bytes")


def tensors(data: Path, split: Split) -> tuple[Tensor, Tensor]:
    images, labels = read_mnist(data, split)
    return torch.from_numpy(images), torch.from_numpy(labels)


def one_epoch(
    model: MnistCnn,
    batches: list[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    """One pass over the batches; returns the mean loss."""
    model.train()
    total = 0.0
    for images, labels in batches:
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    return total / len(batches)


def accuracy(model: MnistCnn, images: Tensor, labels: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        predicted = torch.cat([model(part).argmax(1) for part in images.split(1000)])
    return (predicted == labels).float().mean().item()


if __name__ == "__main__":
    main()
