"""Connection to Ray: an existing cluster, or one started on this machine and stopped after the work."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from popskipjump.errors import EngineError, MissingExtraError

EXTRA = "ray"
_ROOM = 128 << 20  # bytes of the object store, beyond the images: shards' results on their way back
_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0": no other machine joins
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to anyone
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what Ray 2 warns of otherwise
    "RAY_worker_niceness": "0",  # Ray's own, 15, starves workers on a machine that does other work
}


def require() -> Any:
    """Ray itself.

    Raises:
        MissingExtraError: it is not installed.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", EXTRA) from None
    return ray


@contextmanager
def _for_us_alone(ray: Any) -> Iterator[None]:
    """A Ray that starts within listens on the loopback interface only, and writes files for the user alone.

    Ray does the former by itself on Windows and macOS; elsewhere it listens to every network that the machine is in.
    """
    constants = getattr(getattr(ray, "_private", None), "ray_constants", None)
    before, mask = os.environ.get(_CLUSTERS), os.umask(0o077)
    switch = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    os.environ[_CLUSTERS] = "0"
    if switch is not None:
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[union-attr]  # there is one, as it has the switch
    try:
        yield
    finally:
        os.umask(mask)
        os.environ.pop(_CLUSTERS)
        if before is not None:
            os.environ[_CLUSTERS] = before
        if switch is not None:
            constants.ENABLE_RAY_CLUSTER = switch  # type: ignore[union-attr]


@contextmanager
def connected(address: str | None, cpus: float, gpus: float, store: int) -> Iterator[Any]:
    """Ray, connected.

    Args:
        address: of a cluster; None takes the one that this process is connected to, or starts one on this machine.
        cpus: that a Ray of our own offers.
        gpus: likewise.
        store: bytes that its object store must hold.

    Raises:
        MissingExtraError: Ray is not installed.
        EngineError: no cluster answers at the address, or none can be started.
    """
    ray = require()
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is not None:
            ray.init(address=address, **quiet)
        else:
            with _for_us_alone(ray):
                ray.init(
                    address="local",
                    num_cpus=math.ceil(cpus),
                    num_gpus=math.ceil(gpus) or None,
                    include_dashboard=False,
                    object_store_memory=store + _ROOM,
                    _node_ip_address="127.0.0.1",
                    **quiet,
                )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise EngineError(
            f"there is no Ray {where} ({' '.join(str(error).split())}): check the address, or leave it out to start a "
            "Ray of its own on this machine."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def workers_that_fit(ray: Any, cpus: float, gpus: float) -> int:
    """How many workers a cluster has room for.

    Raises:
        EngineError: not even one.
    """
    has = ray.cluster_resources()
    rooms = [has.get(kind, 0.0) / need for kind, need in (("CPU", cpus), ("GPU", gpus)) if need]
    count = int(min(rooms, default=1.0) + 1e-9)
    if count < 1:
        raise EngineError(
            f"the Ray cluster has {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs, too few for one worker of "
            f"{cpus:g} and {gpus:g}: ask for smaller parts (cpus=, gpus=)."
        )
    return count
