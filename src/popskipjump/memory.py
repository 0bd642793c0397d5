"""Settings of glibc's allocator: returning memory to the system can cost more than a network's forward pass."""

from __future__ import annotations

import ctypes
import sys

_TRIM, _TOP_PAD, _MMAP = -1, -2, -3  # parameters of mallopt, from malloc.h
_PAD = 256 << 20
_MMAP_LIMITS = (1 << 30, 32 << 20)  # older versions of glibc take no more than the second


def keep_memory() -> bool:
    """Tell glibc to keep memory that was freed, instead of giving it back and asking for it anew in every call.

    A network's activations of some MB are otherwise mapped, cleared by the kernel and given back in each forward pass,
    which can take longer than the pass itself. It acts on the whole process and lasts; `psj` does it when it starts.

    Returns:
        Whether it was done: False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - other libraries have a mallopt that does nothing
        mallopt = library.mallopt
    except (AttributeError, OSError):
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    kept = any(mallopt(_MMAP, limit) == 1 for limit in _MMAP_LIMITS)
    return bool(mallopt(_TRIM, -1) == 1 and mallopt(_TOP_PAD, _PAD) == 1 and kept)
