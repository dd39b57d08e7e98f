"""Limits for clients: numbers of connections, and timeouts.

Connections without authentication may be closed to make room for others. Each class has its own limit, so that none can
block another:

* silent: accepted, without any data. Costs an open file. The oldest is closed immediately if needed.
* new: in their handshake or their first request, some 50 kB each. The oldest may be closed after
  ``patience_seconds``; until then new ones wait, so that a thousand clients can connect at once.
* unauthenticated: with a response, but without authentication. With everything that may be sent before a request is
  rejected, 300 kB each. One with pending requests, or unread responses, may be closed immediately; else the one with
  the oldest response.
* connections: all, including authenticated ones, which are never closed for others.
"""

from contextlib import suppress

import msgspec

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import resource

UNAUTHENTICATED_BUFFER, AUTHENTICATED_BUFFER = 32 * 1024, 64 * 1024
"""The receive buffer of the kernel for a connection, approximately. Its contents are decrypted immediately, into
buffers that never shrink. Less than this makes large bodies slow."""

_ALLOWED_FILES = 10_240
_MANY_FILES = 1 << 20
_FILES_FOR_OTHERS = 128
"""Open files other than connections: the store, the log, connections to other servers."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one server."""

    connections: int = 4096
    new_connections: int = 512
    unauthenticated: int = 64
    silent: int = 1024
    patience_seconds: float = 1.0
    handshake_seconds: float = 10.0
    """The timeout from the first byte to the end of the TLS handshake, and that for the first byte."""
    head_bytes: int = 8 * 1024 * 1024
    """The total size of incomplete heads; if it is exceeded, the oldest is closed."""
    head_seconds: float = 32.0
    """The timeout of a request's line and headers, from their first byte (``ReadHeaderTimeout`` of apiserver's
    ``pkg/server/secure_serving.go``, v0.36); also for the first request of a connection."""
    idle_seconds: float = 120.0
    """The idle timeout between requests: longer than that of Go's clients (90 s), which must not reuse a connection
    that is being closed here."""
    unread_seconds: float = 5.0
    """The timeout of the rest of a body after the response, so that the client can send it and read the response."""
    unread_unauthenticated_seconds: float = 0.5
    """The same before authentication; as Go's servers (``net/http``, ``rstAvoidanceDelay``)."""
    stalled_seconds: float = 60.0
    """The timeout of a client that does not read the response."""

    def within(self, files: int) -> "Limits":
        """The limits adapted to a process with this many open files."""
        room = max(files - _FILES_FOR_OTHERS, files // 2)
        return msgspec.structs.replace(
            self,
            connections=min(self.connections, room // 2),
            new_connections=min(self.new_connections, room // 4),
            unauthenticated=min(self.unauthenticated, room // 8),
            silent=min(self.silent, room // 4),
        )


def open_files() -> int:
    """The maximum number of open files of this process."""
    try:
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:  # Windows, where sockets are no files
        return _MANY_FILES
    return _MANY_FILES if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> None:
    """Raise the limit of open files of this process to its hard limit, up to a maximum, as Go programs do at startup.
    The default of shells (1,024, or 256 on macOS) is meant for programs that use ``select``."""
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except ImportError:
        return
    desired = _ALLOWED_FILES if hard == resource.RLIM_INFINITY else min(hard, _ALLOWED_FILES)
    if soft != resource.RLIM_INFINITY and soft < desired:
        with suppress(ValueError, OSError):  # macOS has a lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (desired, hard))
