"""Tracebacks of failed runs, for the author of an operator: their own frames, without those between."""

import sys
from types import TracebackType

_PACKAGES = frozenset({"pilothouse", "uvloop"})


def without_internals(error: BaseException) -> BaseException:
    """The same error, with only the frames of the author's code in its traceback, and in those of its causes. A
    traceback without such a frame remains: the error may be pilothouse's."""
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = _own_frames(seen.__traceback__) or seen.__traceback__
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return error


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        if not _is_internal(traceback.tb_frame.f_globals.get("__name__") or ""):
            frames.append(traceback)
        traceback = traceback.tb_next
    own = None
    for entry in reversed(frames):
        own = TracebackType(own, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return own


def _is_internal(module: str) -> bool:
    package = module.partition(".")[0]
    return package in _PACKAGES or (package in sys.stdlib_module_names and package != "__main__")
