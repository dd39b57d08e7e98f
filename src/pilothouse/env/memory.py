"""Memory and garbage collection settings: large blocks are returned to the system, and cycles are collected rarely.

Every program uses both; every run in virtual time and the start of a test's plane the latter. Objects created during
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
"""A server maps larger blocks separately. Those that it sends are smaller, so that lists cost the same."""
_M_MMAP_THRESHOLD = -3
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def give_back_large_blocks(size: int = LARGE) -> None:
    """Let every block of ``size`` or more be mapped separately, and returned to the system when it is freed.

    This is glibc's default, but it raises the threshold to the largest block that was ever freed (``mallopt(3)``). Then
    such blocks are between small ones, and memory that was touched once stays resident: 30 pods with image names of
    2 MB, created and deleted, left 400 MB.

    A manager uses ``TLS_BUFFER``: every TLS connection has a block of 256 kB, most of which is never touched unless a
    list was read through it; a manager has about a hundred connections, and new ones after each outage. After ten
    minutes of outages 62 MB of its own were resident instead of 94.

    The cost: the pages of a large list are new ones each time, at most 20 ms for 20 MB, which take longer to decode.

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
"""A program that has just started has created 150,000."""

_Thresholds = tuple[int, int, int]


class _Start:
    """The startup of this program."""

    thresholds_then: _Thresholds | None = None
    """While it lasts: the thresholds to be set at its end."""


@contextlib.contextmanager
def collecting_rarely(*, older: bool = True, new_objects: int = _NEW_OBJECTS) -> Iterator[None]:
    """Collect cycles after 10,000 new objects (or ``new_objects``) instead of 700, and the next generation after a
    hundred collections instead of ten (``gc.set_threshold``), until this ends. ``older`` False: the next generation
    after ten, as by default.

    Caches and requests consist of objects without cycles, and every collection traverses those created since the
    previous one: with 700 it takes an eighth of the time while many objects arrive, with 10,000 a twentieth, a third of
    it for the older ones. Cycles (of exceptions, tasks, connections) live longer. In a manager with many outages they
    add up, so long-running programs do not use ``older``. A higher threshold, or a disabled collector, is not changed.
    """
    before = _Start.thresholds_then or gc.get_threshold()
    if not gc.isenabled() or not 0 < before[0] < new_objects:
        yield
        return
    _set((new_objects, max(before[1], _CHECKS) if older else before[1], before[2]))
    try:
        yield
    finally:
        _set(before)


def _set(thresholds: _Thresholds) -> None:
    if _Start.thresholds_then is None:
        gc.set_threshold(*thresholds)
    else:
        _Start.thresholds_then = thresholds


def begin_startup() -> None:
    """Disable collections during startup, up to 200,000 new objects: they took a twentieth of the 0.25 seconds until
    ``up`` responds."""
    thresholds = gc.get_threshold()
    if gc.isenabled() and _Start.thresholds_then is None and 0 < thresholds[0] < _START_OBJECTS:
        _Start.thresholds_then = thresholds
        gc.set_threshold(_START_OBJECTS, *thresholds[1:])


def end_startup() -> None:
    """Startup is complete: the objects created so far are excluded from collections (``gc.freeze``). Does nothing
    without ``begin_startup``, or the second time."""
    if _Start.thresholds_then is not None:
        gc.freeze()
        gc.set_threshold(*_Start.thresholds_then)
        _Start.thresholds_then = None


@contextlib.contextmanager
def creating_permanent_objects() -> Iterator[None]:
    """The same for a block in a process that is not ours. The objects created in it are moved to the oldest generation,
    and collected as rarely as that."""
    with collecting_rarely(new_objects=_START_OBJECTS):
        try:
            yield
        finally:
            if gc.isenabled() and not gc.get_freeze_count():  # objects that the process has frozen stay frozen
                gc.freeze()
                gc.unfreeze()
