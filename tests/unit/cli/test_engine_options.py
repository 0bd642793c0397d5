"""The options that say where images are attacked."""

from __future__ import annotations

import pytest

from popskipjump import InputError
from popskipjump.cli.engine import EngineName, engine_of


def test_without_options_the_images_are_attacked_in_this_process() -> None:
    assert engine_of(None, None, None) is None
    assert engine_of(EngineName.LOCAL, None, None) is None


def test_workers_alone_mean_ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from popskipjump.integrations.ray.engine import RayEngine

    engine, named = engine_of(None, None, 3, 0.5, 0.25), engine_of(None, "auto", None)
    assert isinstance(engine, RayEngine)
    assert isinstance(named, RayEngine)
    assert (engine.address, engine.workers, engine.cpus, engine.gpus) == (None, 3, 0.5, 0.25)
    assert named.address == "auto"


@pytest.mark.parametrize("options", [(None, 2), ("auto", None)])
def test_workers_of_one_process_are_refused(options: tuple[str | None, int | None]) -> None:
    with pytest.raises(InputError, match="--engine ray"):
        engine_of(EngineName.LOCAL, *options)
