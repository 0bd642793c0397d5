"""Number of images that are attacked together, from the memory they need; results do not depend on it."""

from __future__ import annotations

import re
from pathlib import Path

from popskipjump.attacks.protocols import PlansIterations
from popskipjump.errors import InputError
from popskipjump.runs.engine import Room
from popskipjump.storage import RunSpec

STEPWISE = ("boundary",)
TRACE_BYTES = 256 << 20  # what the points of one group's trace may take, unless a limit is stated
WORKING = 384 << 20  # directions, buffers and activations, which do not grow with the number of images
LEAST = 256 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)


def bytes_of(text: str) -> int:
    """A size such as "2GB", "500 MB" or "1.5G" in bytes; a K is 1,024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text!r} is no size: write 2GB, 500MB or the like.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def room_for(spec: RunSpec, values: int, group: int, memory: int | None = None) -> Room:
    """What fits.

    Args:
        spec: of the run.
        values: of one input.
        group: how many images are best attacked together.
        memory: bytes that the process may take altogether; what it takes now is counted. None takes no look at it.

    Raises:
        InputError: so little memory that nothing fits.
    """
    image = 4 * values * (_iterations(spec) + 1)
    if memory is None:
        return Room(max(1, min(group, TRACE_BYTES // image)))
    now = _resident()
    if memory < now + LEAST:
        raise InputError(
            f"memory must be at least {(now + LEAST) >> 20} MB here: the process, its images and its model take "
            f"{now >> 20} MB before the first query."
        )
    free = max(LEAST, memory - now - WORKING)
    state = 32 * 4 * values  # of an image, without its trace: borders, sums and directions that wait
    fits = free // (image + state)
    return Room(min(group, fits)) if fits else Room(max(1, min(group, free // state)), points=False)


def _iterations(spec: RunSpec) -> int:
    config = spec.attack.config()
    if spec.iterations is None and spec.budget is not None and isinstance(config, PlansIterations):
        return int(config.iterations_within(spec.budget))
    return int(config.iterations if spec.iterations is None else spec.iterations)


def _resident() -> int:
    """Bytes of memory that this process takes now; 0 where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0
