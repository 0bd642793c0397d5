"""Sources of images and models, with the names and digests that identify them in the specification of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from popskipjump import Pool, zoo
from popskipjump.attacks import Retry
from popskipjump.errors import DataError, InputError, UnknownNameError
from popskipjump.evaluation.inputs import checked_pool
from popskipjump.oracles import TorchModel
from popskipjump.oracles.traits import classes_of, module_of
from popskipjump.runs.user_model import made_by_user
from popskipjump.space import Space
from popskipjump.storage import RunSpec
from popskipjump.types import Bounds
from popskipjump.zoo.readers import read_targets

EMBEDDED = "embedded"
DATASETS = ("mnist", "cifar10", "file", "table")
MODELS = {
    "mnist": "mnist-cnn",
    "cifar10": "cifar-resnet20",
    "file": None,
    "table": None,
}  # of each data set, unless another is named
DIGEST_LENGTH = 32
CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2471, 0.2435, 0.2616)
NARROW_STD = (0.2023, 0.1994, 0.2010)  # what the "kuangliu" networks were trained with

NETWORKS: dict[str, Callable[[], nn.Module]] = {  # published DenseNets differ in what no shape shows: see the zoo
    "mnist-cnn": zoo.MnistCnn,
    "cifar-resnet20": zoo.ResNet20Cifar,
    "cifar-densenet121": partial(zoo.DenseNet121Cifar, layout="kuangliu", mean=CIFAR_MEAN, std=NARROW_STD),
    "cifar-densenet121-torchvision": partial(
        zoo.DenseNet121Cifar, layout="torchvision", mean=CIFAR_MEAN, std=CIFAR_STD
    ),
    "cifar-densenet121-huyvnphan": partial(zoo.DenseNet121Cifar, layout="huyvnphan", mean=CIFAR_MEAN, std=CIFAR_STD),
    "cifar-densenet121-weiaicunzai": partial(
        zoo.DenseNet121Cifar, layout="weiaicunzai", mean=CIFAR_MEAN, std=CIFAR_STD
    ),
}


class Place(NamedTuple):
    """Where a source was read from, so that it can be found again; no part of a spec."""

    dataset: str
    data: str | None  # folder or npz file
    model: str | None  # "file.py:factory" with its path, or the name of a network
    weights: str | None  # safetensors file
    optimize: bool = True  # whether a torch module answers through a frozen copy
    mask: str | None = None  # npy file with a mask of each image


@dataclass(frozen=True, eq=False)
class Source:
    """Images, their labels and the model to attack; all images together are the pool that attacks start from."""

    dataset: str  # as in `RunSpec`
    data: str  # digest of images and labels, or "embedded"
    model_name: str
    weights: str  # digest of the model, or "embedded"
    images: np.ndarray  # (N, *S) float32 in [0, 1]
    labels: np.ndarray  # (N,) int64
    model: Any  # `TorchModel`, function or oracle: what `evaluate` takes
    classes: int
    place: Place
    bounds: tuple[float, float] = (0.0, 1.0)  # of the images
    targets: np.ndarray | None = None  # (N,) int64, classes to reach, where they were given
    starts: np.ndarray | Pool | None = None  # (N, *S) float32 starting points, or a pool other than the images
    space: Space | None = None  # of valid inputs; None for all within the bounds
    masks: np.ndarray | None = None  # (N, *S) bool, where each image may change, in addition to the space's own
    retry: Retry | None = None  # what happens when a call to the model fails; no part of a spec

    @cached_property
    def pool(self) -> Pool:
        """All images as a pool, checked once for all groups."""
        return self._checked(Pool(torch.from_numpy(self.images), torch.from_numpy(self.labels)))

    @cached_property
    def given_pool(self) -> Pool | None:
        """The pool that was given as `starts`, checked once for all groups."""
        return self._checked(self.starts) if isinstance(self.starts, Pool) else None

    def _checked(self, pool: Pool) -> Pool:
        """A checked pool; within a space its bounds are others for each image, so there it stays as it is."""
        return pool if self.space is not None else checked_pool(pool, Bounds.of(self.bounds))

    def spec(self, **choices: Any) -> RunSpec:
        """The spec of a run on this source; see `RunSpec` for the choices. What was given here is part of it."""
        names = {"dataset": self.dataset, "data": self.data, "model": self.model_name, "weights": self.weights}
        given: dict[str, Any] = {"bounds": self.bounds}
        given |= {} if self.targets is None else {"targets": self._targets}
        given |= {} if self.starts is None else {"starts": self._starts}
        given |= {"space": self.space, "mask": self._mask}
        return RunSpec(**names, **(given | choices))

    @property
    def _targets(self) -> str:
        return "none" if self.targets is None else f"given:{digest_of(self.targets)}"

    @property
    def _starts(self) -> str:
        if isinstance(self.starts, Pool):
            return f"pool:{digest_of(np.asarray(self.starts.images), np.asarray(self.starts.labels))}"
        return "none" if self.starts is None else f"given:{digest_of(self.starts)}"

    @property
    def _mask(self) -> str | None:
        return None if self.masks is None else f"given:{digest_of(self.masks)}"

    def check(self, spec: RunSpec) -> None:
        """Raise unless a spec speaks of these images and this model."""
        for what, here, there in (
            ("data set", self.dataset, spec.dataset),
            ("images", self.data, spec.data),
            ("model", self.model_name, spec.model),
            ("weights", self.weights, spec.weights),
            ("bounds", tuple(self.bounds), tuple(spec.bounds)),
            ("targets", self._targets if ":" in (spec.targets or "") else spec.targets, spec.targets),
            ("starts", self._starts if ":" in spec.starts else spec.starts, spec.starts),
            ("space", _digest_of(self.space), _digest_of(None if spec.space is None else Space.from_json(spec.space))),
            ("masks", self._mask, spec.mask),
        ):
            if here != there:
                raise InputError(
                    f"the spec says {what} {there!r}, and {here!r} was given: a run goes on with the files that it was "
                    "begun with. Name those, or begin another run with `source.spec(...)`."
                )


def source_of(
    dataset: str = "mnist",
    data_dir: str | Path | None = None,
    model: str | None = None,
    weights: str | Path | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    *,
    targeted: bool = False,
    optimize: bool = True,
) -> Source:
    """Read images and a model.

    Args:
        dataset: "mnist" (embedded, or the idx files in `data_dir`), "cifar10" (the published files in `data_dir`, or an
            npz file), "file" (an npz file), or "table" (one whose values are taken as they are, for a `Space`).
        data_dir: folder, or npz file with arrays `images` and `labels`.
        model: a name of `NETWORKS` or "file.py:factory"; None for the data set's own (`MODELS`).
        weights: safetensors file; "mnist-cnn" has its own.
        bounds: smallest and largest value of an input coordinate.
        targeted: whether to read the array `targets` of an npz file, too.
        optimize: ask a torch module through a frozen, fused copy.

    Raises:
        InputError: something is missing, or does not hold what its format promises.
    """
    if dataset not in DATASETS:
        raise UnknownNameError("data set", dataset, DATASETS)
    images, labels = _read_images(dataset, data_dir, bounds)
    targets = _read_targets(data_dir, len(images)) if targeted else None
    name = model or MODELS[dataset]
    if name is None:
        raise InputError("images of a file need a model: pass one of the networks' names, or file.py:factory.")
    network, digest = _read_model(name, None if weights is None else Path(weights), optimize)
    place = Place(dataset, _absolute(data_dir), _absolute_model(name), _absolute(weights), optimize)
    embedded = dataset == "mnist" and data_dir is None
    return Source(
        dataset=dataset,
        data=EMBEDDED if embedded else digest_of(images, labels),
        model_name=f"{Path(name.rpartition(':')[0]).name}:{name.rpartition(':')[2]}" if ":" in name else name,
        weights=digest,
        images=images,
        labels=labels,
        model=network,
        classes=_classes(network, images, labels, embedded=embedded),
        place=place,
        bounds=(float(bounds[0]), float(bounds[1])),
        targets=targets,
    )


def model_at(place: Place) -> tuple[Any, str]:
    """The model of a source that was read with `source_of`, built once more, and its digest.

    Raises:
        InputError: the place names no model, or it cannot be read here.
    """
    if place.model is None:
        raise InputError("this model was passed from Python: it cannot be built from a name.")
    return _read_model(place.model, None if place.weights is None else Path(place.weights), place.optimize)


def read_masks(path: str | Path | None, shape: tuple[int, ...]) -> np.ndarray:
    """A mask of each image from a `.npy` file: bool of the images' shape `(N, *S)`.

    Raises:
        DataError: there is no such file, or it does not hold masks of so many images.
    """
    try:
        masks = np.load(str(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"the masks in {path} cannot be read as a .npy file ({error}).") from error
    fits = isinstance(masks, np.ndarray) and masks.ndim == len(shape) and len(masks) == shape[0]
    if not fits or masks.dtype.kind not in "biuf":
        raise DataError(f"{path} must be one .npy array of numbers, with a mask of each of the {shape[0]} images.")
    return np.ascontiguousarray(np.broadcast_to(masks != 0, shape))


def digest_of(*arrays: np.ndarray) -> str:
    """A digest of arrays: of their types, shapes and values."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:DIGEST_LENGTH]


def _digest_of(space: Space | None) -> str | None:
    return None if space is None else space.digest[:DIGEST_LENGTH]


def _read_targets(data: str | Path | None, count: int) -> np.ndarray:
    if data is None or not Path(data).is_file():
        raise InputError("targets need an npz file with an array `targets`: the embedded images have none.")
    return read_targets(data, count)


def _read_images(
    dataset: str, data_dir: str | Path | None, bounds: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    if data_dir is None:
        if dataset != "mnist":
            raise InputError(f"the images of {dataset} are not in the package: pass their folder or npz file.")
        return zoo.mnist_images()
    if dataset == "table":
        return zoo.read_rows(data_dir)
    if dataset == "file" or Path(data_dir).is_file():
        return zoo.read_npz(data_dir, bounds)
    return zoo.read_mnist(data_dir) if dataset == "mnist" else zoo.read_cifar10(data_dir)


def _read_model(name: str, weights: Path | None, optimize: bool) -> tuple[Any, str]:
    """The model, and a digest of all that its answers follow from."""
    if name == "mnist-cnn" and weights is None:
        return TorchModel(zoo.mnist_model(), optimize=optimize), EMBEDDED
    parts: list[np.ndarray] = []
    if ":" in name:
        made = made_by_user(name)
        parts.append(np.frombuffer(Path(name.rpartition(":")[0]).read_bytes(), dtype=np.uint8))
    else:
        made = _network(name, weights)
    module = module_of(made)
    if module is not None:
        if weights is not None:
            zoo.load_weights(module, weights, zoo.densenet121_key if "densenet121" in name else None)
        parts += [value.detach().cpu().numpy() for _, value in sorted(module.state_dict().items())]
    elif weights is not None:
        raise InputError(f"weights fill torch modules, and {name} returned {type(made).__name__}.")
    return TorchModel(made, optimize=optimize) if isinstance(made, nn.Module) else made, digest_of(*parts)


def _network(name: str, weights: Path | None) -> nn.Module:
    """A network of the zoo, still without its weights."""
    if name not in NETWORKS:
        raise UnknownNameError("model", name, [*NETWORKS, "file.py:factory"])
    if weights is None:
        raise InputError(f"{name} has no weights in the package: pass a safetensors file.")
    with torch.random.fork_rng(devices=[]):  # the initial weights, lost at once, must not advance the user's stream
        return NETWORKS[name]()


def _classes(network: Any, images: np.ndarray, labels: np.ndarray, *, embedded: bool = False) -> int:
    """How many classes there are; a torch module is asked here, once, so that what does not fit is found early."""
    if isinstance(network, TorchModel):
        try:
            network.labels(torch.from_numpy(images[:1]).to(network.device))
        except RuntimeError as error:
            whose = "the embedded MNIST images, as no data was named" if embedded else "the images"
            raise InputError(
                f"the model does not take {whose} (shape {images.shape[1:]}): {' '.join(str(error).split())}. "
                "Pass images that it was made for."
            ) from error
    known = classes_of(network)
    return int(labels.max()) + 1 if known is None else known


def _absolute(path: str | Path | None) -> str | None:
    return None if path is None else str(Path(path).resolve())


def _absolute_model(name: str) -> str:
    file, colon, factory = name.rpartition(":")
    return f"{Path(file).resolve()}:{factory}" if colon else name
