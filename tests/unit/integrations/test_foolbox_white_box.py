from __future__ import annotations

import importlib.util

import pytest
import torch

from popskipjump import zoo
from popskipjump.errors import MissingExtraError
from popskipjump.integrations import foolbox
from popskipjump.integrations.foolbox import white_box

INSTALLED = all(importlib.util.find_spec(package) for package in foolbox.PACKAGES)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(white_box, "PACKAGES", ("no_such_package",))
    with pytest.raises(MissingExtraError, match=r"no_such_package.*popskipjump\[white-box\]"):
        foolbox.require()


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="the extra white-box (Foolbox and numba) is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["PGD", "Brendel-Bethge"])
def test_a_white_box_attack_returns_nearer_adversarial_points(name: str) -> None:
    model = zoo.mnist_model()
    images, labels = (torch.from_numpy(a) for a in zoo.mnist_images(40))
    with torch.no_grad():
        found = model(images).argmax(dim=1)
    starts = torch.stack([images[(labels != label).nonzero()[0, 0]] for label in labels[:3]])
    assert bool((found == labels)[:3].all())
    points = foolbox.white_box_attacks()[name](model, images[:3], labels[:3], starts, 30)
    with torch.no_grad():
        assert bool((model(points).argmax(dim=1) != labels[:3]).all())
    nearer = (points - images[:3]).flatten(1).norm(dim=1) < (starts - images[:3]).flatten(1).norm(dim=1)
    assert bool(nearer.all())
    assert float(points.min()) >= 0
    assert float(points.max()) <= 1
