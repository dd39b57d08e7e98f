"""``--decision-log``: the writes of a program to an API server, with their reasons, as JSON lines. Works with any API
server.

``DecisionLog.wrap`` wraps a transport. Each write to which the API server responded, or that it may have received, is
one ``Line``. Not recorded are reads and writes that do not change the state of a cluster: renewals of Leases, Events,
and requests of authentication.k8s.io and authorization.k8s.io, including tokens. Lines have no objects, and therefore
no Secrets.

Lines are collected for a moment and written by a thread. If the disk is full or slow, lines are lost and counted, and
nothing else is affected.
"""

import asyncio
import datetime

import msgspec

from pilothouse.api import wire
from pilothouse.client.request_info import RequestInfo, describe
from pilothouse.env import Env, Log
from pilothouse.env.log_files import Rotation, open_sink
from pilothouse.env.log_writer import BatchConfig, Writer
from pilothouse.machinery.causes import Cause, current_cause
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.times import format_time

_COLLECT_SECONDS = 0.1
_COLLECT_BYTES = 64 * 1024
"""Maximum bytes per call of the thread: waking it for each line would cost more than writing it."""
_WAITING = BatchConfig(buffer_size=1000)
_LOG_SECONDS = 10.0
"""How often a failure is logged."""
_MAX_MESSAGE = 500
_MAX_ID = 128

_READS = ("GET", "HEAD", "OPTIONS")
_UNSTORED = ("authentication.k8s.io", "authorization.k8s.io")
_EVENTS = ("", "events.k8s.io")

_log = Log("decision-log")


class Line(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """One write."""

    time: str
    """When the response was received, in UTC with microseconds."""
    verb: str
    """As audit has it: create, update, patch, delete, deletecollection."""
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """From the response, if the API server generated it."""
    uid: str = ""
    resource_version: str = ""
    """From the response: the version of this write or, if it changed nothing, the current one."""
    code: int = 0
    """Of the response; 0 if there was none, and then the write may have been carried out."""
    reason: str = ""
    message: str = ""
    """The message of the Status, if the code is not 2xx, or why there was no response."""
    user_agent: str = ""
    audit_id: str = msgspec.field(default="", name="auditID")
    """From the response, if the API server has audit IDs: the same as in its audit event."""
    cause: Cause | None = None
    """None for writes that are not made by a sync of a controller: leader election, for example."""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Details(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""


class _Status(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


class _Object(msgspec.Struct, gc=False):
    kind: str = ""
    metadata: _Metadata = _Metadata()


_decode_object = msgspec.json.Decoder(_Object).decode
_encode = msgspec.json.Encoder().encode


class DecisionLog:
    """One log. ``close`` it when nothing writes any more."""

    def __init__(self, env: Env, path: str, rotation: Rotation, metrics: Registry | None = None) -> None:
        """Opens the log, and counts in ``metrics``. Raises ``OSError``."""
        self._env = env
        self._path = path
        self._writer = Writer(open_sink(path, rotation, env.now), _WAITING, "decision log")
        self._lines: list[bytes] = []
        self._size = 0
        self._flushing: asyncio.TimerHandle | None = None
        self._logged_at = -_LOG_SECONDS
        self.dropped = 0
        """Lines that could not be written."""
        registry = metrics or Registry()
        self._counted = registry.counter(
            "pilothouse_decision_log_lines_total", "Writes that were recorded in the decision log.", ()
        ).labels()
        self._counted_dropped = registry.counter(
            "pilothouse_decision_log_dropped_lines_total",
            "Lines of the decision log that were lost because they could not be written.",
            (),
        ).labels()

    def wrap(self, transport: wire.Transport) -> wire.Transport:
        """The same transport, with its writes recorded."""
        return _Recorded(transport, self)

    def add(self, request: wire.Request, response: wire.Response | None, error: str = "") -> None:
        """Record a write, and its response or why there was none."""
        info = describe(request)
        if _is_left_out(info, response) or "dryRun=" in request.target:
            return
        line = _encode(self._line(request, info, response, error)) + b"\n"
        self._counted.inc()
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _COLLECT_BYTES:
            self._flush()
        elif self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_COLLECT_SECONDS, self._flush)

    def _line(self, request: wire.Request, info: RequestInfo, response: wire.Response | None, error: str) -> Line:
        code = 0 if response is None else response.status
        name, uid, version, reason, message = info.name, "", "", "", error[:_MAX_MESSAGE]
        if response is not None and response.body:
            if 200 <= code < 300:
                name, uid, version = _result(response.body, info)
            else:
                reason, message = _failure(response.body)
        return Line(
            time=_time(self._env.now()),
            verb=info.verb,
            group=info.group,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=name,
            uid=uid,
            resource_version=version,
            code=code,
            reason=reason,
            message=message,
            user_agent=request.headers.get("user-agent", ""),
            audit_id="" if response is None else response.headers.get("audit-id", "")[:_MAX_ID],
            cause=current_cause(),
        )

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        lines, self._lines, self._size = self._lines, [], 0
        if not lines:
            return
        count = len(lines)
        self._note(self._writer.submit(b"".join(lines), lambda why: self._note(why, count)), count)

    def _note(self, why: str, count: int) -> None:
        if not why:
            return
        self.dropped += count
        self._counted_dropped.inc(count)
        now = self._env.monotonic()
        if now >= self._logged_at + _LOG_SECONDS:
            self._logged_at = now
            _log.error("Lines of the decision log are lost", log=self._path, lines=self.dropped, reason=why)

    async def close(self) -> None:
        """Write the remaining lines. Gives up after some seconds if the disk does not respond."""
        self._flush()
        await self._writer.close()


class _Recorded:
    """A transport whose writes are recorded."""

    def __init__(self, inner: wire.Transport, log: DecisionLog) -> None:
        self._inner = inner
        self._log = log

    async def request(self, request: wire.Request) -> wire.Response:
        if request.method in _READS:
            return await self._inner.request(request)
        try:
            response = await self._inner.request(request)
        except (ConnectionError, TimeoutError) as error:
            self._log.add(request, None, str(error) or type(error).__name__)
            raise
        except asyncio.CancelledError:
            self._log.add(request, None, "the request was cancelled before the answer came")
            raise
        self._log.add(request, response)
        return response

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


def _time(at: datetime.datetime) -> str:
    """With microseconds. The part before them is formatted once a second."""
    return f"{format_time(at.replace(microsecond=0))[:-1]}.{at.microsecond:06}Z"


def _is_left_out(info: RequestInfo, response: wire.Response | None) -> bool:
    if info.resource == "leases":
        is_renewal = info.verb in ("update", "patch") and response is not None and response.status == 200
        return is_renewal and info.group == "coordination.k8s.io"
    if info.resource == "events":
        return info.group in _EVENTS
    return not info.resource or info.group in _UNSTORED or info.subresource == "token"


def _result(body: bytes, info: RequestInfo) -> tuple[str, str, str]:
    """Name, uid and resourceVersion of the written object."""
    try:
        written = _decode_object(body)
        metadata = written.metadata
        if written.kind != "Status":
            return info.name or metadata.name, metadata.uid, metadata.resource_version
        details = _decode_status(body).details
    except msgspec.DecodeError:  # protobuf, or no JSON at all
        return info.name, "", ""
    if details is None:
        return info.name, "", ""
    return info.name or details.name, details.uid, ""


def _failure(body: bytes) -> tuple[str, str]:
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        return "", body[:_MAX_MESSAGE].decode("utf-8", "replace")
    return status.reason or "", (status.message or "")[:_MAX_MESSAGE]
