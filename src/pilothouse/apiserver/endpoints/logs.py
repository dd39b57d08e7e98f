"""pods/log: selects and streams the lines of a container's log.

After kubernetes' ``pkg/registry/core/pod/{rest/log.go,strategy.go}`` (``LogLocation``) and
``ValidatePodLogOptions`` (v1.36). The lines come from ``Core.pod_logs``.
"""

import asyncio
import datetime
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from pilothouse.api.logs import ContainerLog, LogLine
from pilothouse.api.wire import Response
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE
from pilothouse.apiserver.request_info import Query
from pilothouse.apiserver.serializers.results import RawResult
from pilothouse.machinery.times import add_seconds, format_micro_time

_HEADERS: Mapping[str, str] = {"content-type": "text/plain", "cache-control": "no-cache, private"}
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``PodLogOptions``: which part of a log is requested."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime.datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


def read_log_options(query: Query, name: str, now: datetime.datetime) -> LogOptions:
    """The options in the query. Raises 422 for invalid options, 400 for values that cannot be parsed."""
    all_errors: ErrorList = []
    seconds, tail, limit = query.number("sinceSeconds"), query.number("tailLines"), query.number("limitBytes")
    time_text = query.first("sinceTime")
    if tail is not None and tail < 0:
        all_errors.append(field_errors.invalid("tailLines", tail, NON_NEGATIVE))
    if limit is not None and limit < 1:
        all_errors.append(field_errors.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and time_text:
        all_errors.append(field_errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        all_errors.append(field_errors.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if all_errors:
        raise errors.invalid("", "PodLogOptions", name, all_errors)
    since = None
    if seconds is not None:
        since = add_seconds(now, -seconds)
    elif time_text:
        since = _parse_time(time_text)
    return LogOptions(
        container=query.first("container"),
        follow=query.flag("follow"),
        previous=query.flag("previous"),
        timestamps=query.flag("timestamps"),
        since=since,
        tail_lines=tail,
        limit_bytes=limit,
    )


def _parse_time(text: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time
    except ValueError:
        pass
    quoted = field_errors.format_value(text)
    raise errors.bad_request(f'parsing time {quoted} as "2006-01-02T15:04:05Z07:00": cannot parse {quoted} as "2006"')


async def get_log(core: Core, call: Call) -> RawResult:
    """GET of pods/NAME/log."""
    options = read_log_options(call.request_info.query, call.name, core.env.now())
    pod = stored_pod(core, call)
    container = container_of(pod, call.name, options.container)
    if not (pod.get("spec") or {}).get("nodeName"):
        return RawResult(Response(204, {"cache-control": "no-cache, private"}, b""))
    source = _Source(core, call, container, previous=options.previous)
    log = source.read(pod)
    if options.follow:
        return RawResult(_FollowedLog(core, source, options, log))
    lines = _tail(log.lines, options)
    return RawResult(Response(200, _HEADERS, _truncate(_text(lines, options), options.limit_bytes)))


def stored_pod(core: Core, call: Call) -> Object:
    """The pod of a request, or 404."""
    record = core.store.get(call.key)
    if record is None:
        raise errors.not_found(call.info, call.name)
    pod: Object = msgspec.json.decode(record.value)
    return pod


def container_of(pod: Object, name: str, requested: str) -> str:
    """The name of the container: the requested one, or the only one."""
    spec = pod.get("spec") or {}
    names = {field: [container.get("name") or "" for container in spec.get(field) or ()] for field in _CONTAINERS}
    if requested:
        if not any(requested in container_names for container_names in names.values()):
            raise errors.bad_request(f"container {requested} is not valid for pod {name}")
        return requested
    if len(names["containers"]) == 1:
        return names["containers"][0]
    reason = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names['containers'])}]"
    if names["initContainers"]:
        reason += f" or one of the init containers: [{' '.join(names['initContainers'])}]"
    raise errors.bad_request(reason)


def check_node(core: Core, node: str) -> None:
    """Raise 404 if the pod's node does not exist; as upstream, it names the resource pods and the node."""
    if core.store.get(core.table.built_in("", "nodes").key("", node)) is None:
        raise errors.not_found(core.table.built_in("", "pods"), node)


class _Source:
    """The log of one container of one pod, read again whenever the pod has changed."""

    def __init__(self, core: Core, call: Call, container: str, *, previous: bool) -> None:
        self._core = core
        self.key = call.key
        self._container = container
        self._previous = previous

    def read(self, pod: Object) -> ContainerLog:
        core, node = self._core, pod["spec"]["nodeName"]
        check_node(core, node)
        log = None if core.pod_logs is None else core.pod_logs(pod, self._container, self._previous)
        if log is None:
            raise errors.internal(f'node "{node}" is not simulated here: there is no kubelet to ask')
        if log.error:
            raise errors.bad_request(log.error)
        return log


def _tail(lines: Sequence[LogLine], options: LogOptions) -> Sequence[LogLine]:
    if options.since is not None:
        lines = [line for line in lines if line.at >= options.since]
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(options.tail_lines, len(lines)) :]
    return lines


def _text(lines: Sequence[LogLine], options: LogOptions) -> bytes:
    if options.timestamps:
        return b"".join(f"{_rfc3339_nano(line.at)} {line.text}\n".encode() for line in lines)
    return b"".join(f"{line.text}\n".encode() for line in lines)


def _rfc3339_nano(time: datetime.datetime) -> str:
    return format_micro_time(time)[:-1] + "000Z"


def _truncate(text: bytes, limit: int | None) -> bytes:
    return text if limit is None else text[:limit]


class _FollowedLog:
    """A followed log, until the container ends, the pod is deleted, or the client disconnects."""

    def __init__(self, core: Core, source: _Source, options: LogOptions, log: ContainerLog) -> None:
        self.status = 200
        self.headers = _HEADERS
        self._core = core
        self._source = source
        self._options = options
        self._log = log
        self._watcher = core.store.watch(source.key, core.store.store_for(source.key).revision)
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining_bytes = self._options.limit_bytes
        try:
            sent_lines = len(self._log.lines)
            lines = _tail(self._log.lines, self._options)
            while True:
                chunk = _truncate(_text(lines, self._options), remaining_bytes)
                if chunk:
                    yield chunk
                if remaining_bytes is not None:
                    remaining_bytes -= len(chunk)
                    if remaining_bytes <= 0:
                        return
                if self._log.ended or self._closed:
                    return
                if not await self._wait_for_change():
                    return
                lines = self._log.lines[sent_lines:]
                sent_lines = len(self._log.lines)
        finally:
            self._watcher.close()

    async def _wait_for_change(self) -> bool:
        """Wait until there may be more lines; False if the log has ended."""
        env = self._core.env
        next_at = self._log.next_at
        timer: asyncio.TimerHandle | None = None
        if next_at is not None:
            seconds = max((next_at - env.now()).total_seconds(), 0.0)
            timer = asyncio.get_running_loop().call_later(seconds, self._watcher.nudge)
        try:
            await self._watcher.changed()
        finally:
            if timer is not None:
                timer.cancel()
        self._watcher.take()
        record = self._core.store.get(self._source.key)
        if self._closed or self._watcher.ended or record is None:
            return False
        try:
            self._log = self._source.read(msgspec.json.decode(record.value))
        except errors.StatusError:
            # The container is being recreated, or its node is deleted: the log of this run has ended.
            return False
        return True

    async def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._watcher.nudge()
