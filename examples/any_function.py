"""Any function from a NumPy batch to labels under attack, whatever it is made of.

Here it is the nearest class mean, and it answers at random now and then: a service with noise of its own.

    python examples/any_function.py
    psj attack --model examples/any_function.py:make --images 5 --iterations 8
"""

from collections.abc import Callable

import numpy as np

import popskipjump as psj

Labels = Callable[[np.ndarray], np.ndarray]


def make(error_rate: float = 0.05) -> Labels:
    """The function under attack: float32 `(M, 1, 28, 28)` -> integers `(M,)`."""
    images, labels = psj.zoo.mnist_images(800)
    means = np.stack([images[labels == k].mean(axis=0).ravel() for k in range(10)])  # (10, 784)
    noise = np.random.default_rng(0)

    def predict(batch: np.ndarray) -> np.ndarray:
        flat = batch.reshape(len(batch), -1)
        nearest = ((flat[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        wrong = noise.random(len(batch)) < error_rate
        return np.where(wrong, noise.integers(0, 10, len(batch)), nearest)

    return predict


def main() -> None:
    """Attack ten images that the means were not made of, with at most 3,000 queries each."""
    images, labels = psj.zoo.mnist_images(10, start=900)
    pool = psj.Pool(*psj.zoo.mnist_images(100))
    report = psj.evaluate(make(), images, labels, starts=pool, budget=3000)
    print(report)  # noqa: T201


if __name__ == "__main__":
    main()
