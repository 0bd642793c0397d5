"""A torch module of your own under attack: any module that gives logits, here a linear one, trained in a second.

python examples/torch_model.py
psj attack --model examples/torch_model.py:make --noise flip:0.05 --images 5 --iterations 8
"""

import torch

import popskipjump as psj


def make() -> torch.nn.Module:
    """Softmax regression on the first 800 embedded images; every call gives the same module."""
    images, labels = (torch.from_numpy(array) for array in psj.zoo.mnist_images(800))
    linear = torch.nn.Linear(784, 10)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    module = torch.nn.Sequential(torch.nn.Flatten(), linear)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(images), labels).backward()
        optimizer.step()
    return module.eval()


def main() -> None:
    """Attack ten images that the module has not seen, with 5% of its answers flipped."""
    images, labels = psj.zoo.mnist_images(10, start=900)
    pool = psj.Pool(*map(torch.from_numpy, psj.zoo.mnist_images(100)))
    report = psj.evaluate(make(), images, labels, noise="flip:0.05", starts=pool, iterations=8)
    print(report)  # noqa: T201


if __name__ == "__main__":
    main()
