"""How the process takes memory and gives it back: large blocks come and go by themselves, and cycles are
collected seldom.

``pilothouse manager`` asks for the former; every program, every run in virtual time and the start of a test's plane for
the latter. What a start makes (modules, classes, first caches) stays, and is not looked through for cycles at all.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import ctypes

LARGE = 256 * 1024
"""What a TLS connection of asyncio or uvloop reads into."""
_M_MMAP_THRESHOLD = -3
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def give_back_large_blocks() -> None:
    """Have every block of 256 kB and more mapped when it is asked for, and given back to the system when it is freed.

    glibc begins so, but moves the threshold up to the largest block that was ever freed (``mallopt(3)``). From then on
    such blocks lie between small ones, and what was once touched stays resident. Every TLS connection has a block of
    256 kB, most of which is never touched unless a list was read through it; a manager has about a hundred connections,
    and new ones after each outage. After ten minutes of outages 62 MB of its own were resident instead of 94.

    The price is that pages of a large list are new ones each time: at most 20 ms for 20 MB, which take longer than that
    to be decoded.

    Elsewhere than with glibc, and when the environment says how malloc is to work, nothing is done.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SETTINGS):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE)


_NEW_OBJECTS = 10_000
_CHECKS = 100
_START_OBJECTS = 200_000
"""A program that has just become ready has made 150,000."""

_Thresholds = tuple[int, int, int]


class _Start:
    """The start of this program."""

    thresholds_then: _Thresholds | None = None
    """While it lasts: what the thresholds will be when it is over."""


@contextlib.contextmanager
def seldom_collecting(*, older: bool = True, new_objects: int = _NEW_OBJECTS) -> Iterator[None]:
    """Collect cycles after 10,000 new objects (or ``new_objects``) rather than 700, and the next generation after a
    hundred collections rather than ten (``gc.set_threshold``), until this ends. ``older`` False: the next generation
    after ten, as ever.

    Caches and requests are made of objects that hold no cycle, and every collection goes through those made since
    the one before: with 700 it takes an eighth of all time when many objects come, with 10,000 a twentieth, of which
    the older ones are a third. What cycles there are (of exceptions, tasks, connections) stay so much longer. In a
    manager that lives through outages that adds up: programs that go on do without ``older``. A threshold that
    somebody has set higher, or a collector that is switched off, stays as it is.
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


def begin_start() -> None:
    """Look for no cycles while this program starts, or until there are 200,000 new objects: of the 0.25 seconds until
    ``up`` answers a twentieth was that."""
    thresholds = gc.get_threshold()
    if gc.isenabled() and _Start.thresholds_then is None and 0 < thresholds[0] < _START_OBJECTS:
        _Start.thresholds_then = thresholds
        gc.set_threshold(_START_OBJECTS, *thresholds[1:])


def end_start() -> None:
    """The program has started: what it has made stays, and is never looked through (``gc.freeze``). Without
    ``begin_start``, and the second time, nothing happens."""
    if _Start.thresholds_then is not None:
        gc.freeze()
        gc.set_threshold(*_Start.thresholds_then)
        _Start.thresholds_then = None


@contextlib.contextmanager
def making_what_stays() -> Iterator[None]:
    """The same in a process that is not ours, until this ends. What was made counts as old from then on, as if it had
    been looked through twice: it is looked through with everything else that is old, seldom."""
    with seldom_collecting(new_objects=_START_OBJECTS):
        try:
            yield
        finally:
            if gc.isenabled() and not gc.get_freeze_count():  # somebody else's frozen objects stay so
                gc.freeze()
                gc.unfreeze()
