"""Memory and garbage collection: large blocks are returned to the system, and cycles are collected less often.

Every program uses both; runs in virtual time and the startup of test planes use the second. Objects created during
startup (modules, classes, first caches) are permanent, and excluded from collections.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import ctypes

TLS_BUFFER = 256 * 1024
"""The read buffer of a TLS connection of asyncio or uvloop."""
LARGE = 1024 * 1024
"""The threshold of a server. The chunks that it sends are smaller, so lists do not get slower."""
_M_MMAP_THRESHOLD = -3
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def return_large_blocks(size: int = LARGE) -> None:
    """Map blocks of ``size`` or more separately, so that they are returned to the system when they are freed.

    glibc does so too, but raises the threshold to the largest block that was ever freed (``mallopt(3)``). After that,
    large blocks lie between small ones, and their memory stays resident: 30 pods with image names of 2 MB, created and
    deleted, left 400 MB.

    A manager uses ``TLS_BUFFER``: every TLS connection has a block of 256 kB, most of which is never touched unless a
    list was read through it; a manager has about a hundred connections, and new ones after each outage. After ten
    minutes of outages its private resident memory was 62 MB instead of 94.

    The cost: the pages of a large list are mapped again each time, at most 20 ms for 20 MB. Decoding takes longer.

    Does nothing without glibc, or if the environment configures malloc.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SETTINGS):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, size)


_NEW_OBJECTS = 10_000
_CHECKS = 100
_START_OBJECTS = 200_000
"""The threshold during startup, in which a program creates about 150,000 objects."""

_Thresholds = tuple[int, int, int]


class _Start:
    """The startup of this program."""

    thresholds_after: _Thresholds | None = None
    """During startup: the thresholds to set when it is complete."""


@contextlib.contextmanager
def collecting_rarely(*, older: bool = True, new_objects: int = _NEW_OBJECTS) -> Iterator[None]:
    """Within the block, collect cycles after 10,000 new objects (or ``new_objects``) instead of 700, and, if ``older``,
    the second generation after a hundred collections instead of ten (``gc.set_threshold``).

    Caches and requests consist of objects without cycles, and every collection traverses those created since the
    previous one. While many objects arrive, collections take an eighth of the time with 700 and a twentieth with
    10,000, a third of which is for the second generation. Cycles (of exceptions, tasks, connections) live longer. In a
    manager with many outages they add up, so long-running programs pass ``older=False``. A higher threshold, or a
    disabled collector, is not changed.
    """
    old_thresholds = _Start.thresholds_after or gc.get_threshold()
    if not gc.isenabled() or not 0 < old_thresholds[0] < new_objects:
        yield
        return
    _set((new_objects, max(old_thresholds[1], _CHECKS) if older else old_thresholds[1], old_thresholds[2]))
    try:
        yield
    finally:
        _set(old_thresholds)


def _set(thresholds: _Thresholds) -> None:
    if _Start.thresholds_after is None:
        gc.set_threshold(*thresholds)
    else:
        _Start.thresholds_after = thresholds


def begin_startup() -> None:
    """Disable collections until 200,000 objects have been created: they took a twentieth of the 0.25 s until ``up``
    responds."""
    thresholds = gc.get_threshold()
    if gc.isenabled() and _Start.thresholds_after is None and 0 < thresholds[0] < _START_OBJECTS:
        _Start.thresholds_after = thresholds
        gc.set_threshold(_START_OBJECTS, *thresholds[1:])


def end_startup() -> None:
    """Startup is complete: the objects created so far are excluded from collections (``gc.freeze``). Does nothing
    without ``begin_startup``, or the second time."""
    if _Start.thresholds_after is not None:
        gc.freeze()
        gc.set_threshold(*_Start.thresholds_after)
        _Start.thresholds_after = None


@contextlib.contextmanager
def creating_permanent_objects() -> Iterator[None]:
    """``begin_startup`` and ``end_startup`` for a block in somebody else's process, such as pytest. The objects that it
    creates are not frozen, but moved to the oldest generation."""
    with collecting_rarely(new_objects=_START_OBJECTS):
        try:
            yield
        finally:
            # Otherwise the process's own frozen objects would be unfrozen.
            if gc.isenabled() and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
