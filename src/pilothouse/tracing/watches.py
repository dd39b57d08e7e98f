"""The spans of watch events: the field that our API servers add to the events of a watch on request.

``{"type":"ADDED","object":{…},"traceparent":"00-…"}``: the span of the commit. The client removes it, so that all other
code gets the usual form of events.
"""

import re
from collections.abc import AsyncIterator, Mapping

import msgspec

from pilothouse.api import wire
from pilothouse.tracing.commits import Commits
from pilothouse.tracing.propagation import header_of, read_traceparent
from pilothouse.tracing.provider import Tracing

_TAIL = 100
"""The number of bytes at the end of a line that can contain a ``traceparent``."""
_traceparent = re.compile(rb',"traceparent":"([0-9a-f-]{55})"\}\s*$').search


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    object: _Object = _Object()


_decode = msgspec.json.Decoder(_Event).decode


def _version(line: bytes) -> str:
    """The resource version of an event's object; empty for a bookmark and an error, which have no object."""
    try:
        event = _decode(line)
    except msgspec.DecodeError:
        return ""
    return "" if event.type in ("BOOKMARK", "ERROR") else event.object.metadata.resource_version


def with_traceparent(line: bytes, commits: Commits) -> bytes:
    """The line of an event with the span of its commit, if that is known."""
    commit = commits.get(_version(line))
    if commit is None:
        return line
    return b'%b,"traceparent":"%b"}\n' % (line[: line.rindex(b"}")], header_of(commit.context).encode())


class TracedStream:
    """A watch from another process whose events contain their spans, which are recorded as commits. Chunks are whole
    lines."""

    def __init__(self, stream: wire.Stream, tracing: Tracing) -> None:
        self.status = stream.status
        self.headers: Mapping[str, str] = stream.headers
        self._stream = stream
        self._tracing = tracing

    async def __aiter__(self) -> AsyncIterator[bytes]:
        partial: list[bytes] = []
        async for piece in self._stream:
            end = piece.rfind(b"\n") + 1
            if not end:
                partial.append(piece)
                continue
            whole = b"".join([*partial, piece[:end]]) if partial else piece[:end]
            partial = [piece[end:]] if end < len(piece) else []
            for line in whole.splitlines(keepends=True):
                yield self._note(line)
        if partial:
            yield b"".join(partial)

    def _note(self, line: bytes) -> bytes:
        traceparent = _traceparent(line, max(0, len(line) - _TAIL))
        if traceparent is None:
            return line
        line_without = line[: traceparent.start()] + b"}\n"
        context = read_traceparent(traceparent[1].decode())
        version = _version(line_without)
        if context is not None and version:
            self._tracing.commits.remember(version, context, self._tracing.now())
        return line_without

    async def close(self) -> None:
        await self._stream.close()
