"""How much room callers get, in connections and in time.

Until a caller has logged in nothing is known of it, and its connection may be closed to make room for the next. Each
class is bounded by itself, so that none keeps another out:

* silent: accepted, and not a byte came. Costs an open file. The oldest makes room at once.
* newcomers: in their handshake or their first request, some 50 kB each. The oldest makes room once it has had
  ``patience_seconds``; until then new ones wait: of a thousand clients that connect at once all are served.
* strangers: a request was answered, without authentication. With all that may be sent before a request is rejected,
  300 kB each. One with more to send, or with answers that it does not read, makes room at once; else the one that was
  answered longest ago.
* connections: with those that have logged in, which are never closed for others.
"""

from contextlib import suppress

import msgspec

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import resource

UNREAD_OF_STRANGER, UNREAD_OF_KNOWN = 32 * 1024, 64 * 1024
"""Bytes that the kernel keeps of a connection until they are read, about. What is there is decrypted at once, in
buffers that stay as large as they once were. Less than this makes large bodies slow."""

_ALLOWED_FILES = 10_240
_MANY_FILES = 1 << 20
_FILES_FOR_OTHERS = 128
"""Open files that are not connections: the store, the log, connections to other servers."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one server."""

    connections: int = 4096
    newcomers: int = 512
    strangers: int = 64
    silent: int = 1024
    patience_seconds: float = 1.0
    handshake_seconds: float = 10.0
    """From the first byte to the end of the TLS handshake; and to the first byte."""
    head_bytes: int = 8 * 1024 * 1024
    """For all heads together that are not complete; the oldest makes room."""
    head_seconds: float = 32.0
    """For a request's line and headers, once they have begun (``ReadHeaderTimeout`` of apiserver's
    ``pkg/server/secure_serving.go``, v0.36); and for the first request of a connection."""
    idle_seconds: float = 120.0
    """Between requests: longer than Go's clients keep a connection (90 s), which must not reuse one that is being
    closed here."""
    unread_seconds: float = 5.0
    """For the rest of a body whose request is answered already; so that the client can send it and see the answer."""
    unread_of_stranger_seconds: float = 0.5
    """The same before anybody has logged in; as Go's servers wait (``net/http``, ``rstAvoidanceDelay``)."""
    stalled_seconds: float = 60.0
    """For a client that reads nothing of what is written to it."""

    def within(self, files: int) -> "Limits":
        """The same for a process that may open so many files."""
        room = max(files - _FILES_FOR_OTHERS, files // 2)
        return msgspec.structs.replace(
            self,
            connections=min(self.connections, room // 2),
            newcomers=min(self.newcomers, room // 4),
            strangers=min(self.strangers, room // 8),
            silent=min(self.silent, room // 4),
        )


def open_files() -> int:
    """How many files this process may open at a time."""
    try:
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:  # Windows, where sockets are no files
        return _MANY_FILES
    return _MANY_FILES if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> None:
    """Let this process open as many files as it may allow itself, up to a bound; as Go's programs do at their start.
    What a shell allows (1,024, or 256 on macOS) is meant for programs that ``select``."""
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:
        return
    desired = _ALLOWED_FILES if hard == resource.RLIM_INFINITY else min(hard, _ALLOWED_FILES)
    if soft != resource.RLIM_INFINITY and soft < desired:
        with suppress(ValueError, OSError):  # macOS has a bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (desired, hard))
