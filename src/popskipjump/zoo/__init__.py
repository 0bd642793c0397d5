"""Model zoo: networks, their weights, and readers of image data sets."""

from popskipjump.zoo.densenet import DenseNet121Cifar, densenet121_key
from popskipjump.zoo.embedded import mnist_images, mnist_model
from popskipjump.zoo.nets import MnistCnn
from popskipjump.zoo.normalize import Normalize
from popskipjump.zoo.readers import read_cifar10, read_mnist, read_npz, read_rows
from popskipjump.zoo.resnet import ResNet20Cifar
from popskipjump.zoo.selection import select_images
from popskipjump.zoo.weights import load_weights

__all__ = [
    "DenseNet121Cifar",
    "MnistCnn",
    "Normalize",
    "ResNet20Cifar",
    "densenet121_key",
    "load_weights",
    "mnist_images",
    "mnist_model",
    "read_cifar10",
    "read_mnist",
    "read_npz",
    "read_rows",
    "select_images",
]
