"""A client of etcd over gRPC: ranges, transactions, leases, compaction, and the stream of a watch.

One connection at a time, to one member; if it fails, the next one is tried. A read is repeated on another member, a
write only if it was certainly not carried out; otherwise its result is unknown and the caller gets the error, as with
etcd's own client (``clientv3/retry_interceptor.go``, v3.5).
"""

import asyncio
import re
import time
import weakref
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from pilothouse.env import Log
from pilothouse.storage.errors import BackendError
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.options import Endpoint, EtcdOptions, endpoints_of
from pilothouse.storage.store import OnRequest

REQUEST_TIMEOUT = 10.0
"""Timeout of one request in seconds; etcd itself gives up after seven."""
_ROUNDS = 3
"""How often every member is tried."""
_MAX_TIMEOUTS = 1.5
"""A request is not repeated when it has taken that many times its timeout already: after a member that hangs another
one is tried, but not a third one."""
_TIMED_OUT = "DeadlineExceeded"
_RETRY_DELAY = 0.1
"""Seconds between rounds in which every member was tried."""
_GRACE = 1.0
"""Seconds for responses of a member from which the client switches to another one: it may hang."""
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # As upstream's client (``pkg/storage/storagebackend/factory/etcd3.go``, v0.36): a dead peer is noticed in time.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)
_KV = "/etcdserverpb.KV/"
_REQUIRE_LEADER = (("hasleader", "true"),)
CLOSED = "the connection was closed, since another request had failed"

_log = Log("etcd")


class EtcdError(BackendError):
    """etcd has rejected a request, or is not reachable. ``code`` is gRPC's."""

    def __init__(self, code: str, details: str) -> None:
        # Errors of etcd itself are shown unchanged; errors of the connection as Go's gRPC formats them.
        super().__init__(details if details.startswith("etcdserver:") else f"rpc error: code = {code} desc = {details}")
        self.code = code
        self.details = details

    @property
    def is_compacted(self) -> bool:
        """Whether the requested revision was compacted."""
        return "has been compacted" in self.details


def _ignore(operation: str, kind: str, seconds: float, failed: bool) -> None:
    pass


def to_etcd_error(error: grpc.RpcError) -> EtcdError:
    """The error of a call, with Go's name of its code: gRPC's ``DEADLINE_EXCEEDED`` is ``DeadlineExceeded``."""
    code = error.code().name.title().replace("_", "")
    return EtcdError(code, error.details() or "")


def _was_not_sent(error: EtcdError) -> bool:
    """Whether a request that failed so has not reached any member."""
    return error.code == "Unavailable" and (
        "failed to connect" in error.details.lower() or "connection refused" in error.details.lower()
    )


def _may_succeed_elsewhere(error: EtcdError) -> bool:
    """Whether another member may be able to perform the request."""
    return error.code in ("Unavailable", _TIMED_OUT)


def is_being_cancelled() -> bool:
    """Whether a ``CancelledError`` is for this task. gRPC also raises it in tasks that wait for a connection that
    another request has closed because its member had failed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _credentials(options: EtcdOptions) -> Any:
    def read(path: str) -> bytes | None:
        if not path:
            return None
        with open(path, "rb") as file:
            return file.read()

    return grpc.ssl_channel_credentials(read(options.ca_file), read(options.key_file), read(options.cert_file))


class EtcdClient:
    """The connection of one process, for one event loop."""

    def __init__(self, options: EtcdOptions, observe: OnRequest = _ignore) -> None:
        self.endpoints = endpoints_of(options)
        self.observe = observe
        self._options = options
        self._current = 0
        self._channel: Any = None
        self._stubs: dict[str, Any] = {}
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closing: dict[Any, asyncio.Task[None]] = {}
        """The connections that are closed after their last response, and the tasks that wait for that."""
        self._closed = False

    async def range(self, request: Any, *, kind: str = "", timeout: float = REQUEST_TIMEOUT) -> Any:
        """The response to a ``RangeRequest``. Raises ``EtcdError``."""
        operation = "get" if not request.range_end else "list"
        return await self._call(
            f"{_KV}Range", request, messages.RangeResponse, operation, kind, timeout, repeatable=True
        )

    async def txn(self, request: Any, *, operation: str, kind: str = "") -> Any:
        """The response to a ``TxnRequest``. Raises ``EtcdError``; the transaction may have been carried out."""
        return await self._call(
            f"{_KV}Txn", request, messages.TxnResponse, operation, kind, REQUEST_TIMEOUT, repeatable=False
        )

    async def compact(self, revision: int) -> None:
        """Compact everything before a revision."""
        request = messages.CompactionRequest(revision=revision)
        await self._call(
            f"{_KV}Compact", request, messages.CompactionResponse, "compact", "", REQUEST_TIMEOUT, repeatable=True
        )

    async def grant(self, ttl: int) -> int:
        """Create a lease with this TTL in seconds; returns its ID."""
        request = messages.LeaseGrantRequest(TTL=ttl)
        response = await self._call(
            "/etcdserverpb.Lease/LeaseGrant",
            request,
            messages.LeaseGrantResponse,
            "leaseGrant",
            "",
            REQUEST_TIMEOUT,
            repeatable=True,
        )
        return int(response.ID)

    async def database_size(self) -> int:
        """The size in bytes of the database of the current member."""
        response = await self._call(
            "/etcdserverpb.Maintenance/Status",
            messages.StatusRequest(),
            messages.StatusResponse,
            "status",
            "",
            REQUEST_TIMEOUT,
            repeatable=True,
        )
        return int(response.dbSize)

    def watch(self) -> Any:
        """A stream of ``WatchRequest`` and ``WatchResponse`` (``grpc.aio.StreamStreamCall``). It ends if its member has
        lost quorum, as upstream's do (``clientv3.WithRequireLeader``, v0.36); otherwise it would be silent."""
        stream = self._connected().stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.WatchResponse.FromString,
        )(wait_for_ready=False, metadata=_REQUIRE_LEADER)
        self._streams.add(stream)
        return stream

    def fail_over(self, failed: Endpoint) -> None:
        """Go on with the next member, unless that was done already.

        One request's failure is no reason to fail the others that were sent to the member: it may only be slow.
        """
        if self.endpoint != failed:
            return
        self._current = (self._current + 1) % len(self.endpoints)
        self._end_streams()
        channel, self._channel = self._channel, None
        self._stubs.clear()
        if channel is not None:
            grace = _GRACE if len(self.endpoints) > 1 else REQUEST_TIMEOUT
            closing = self._closing[channel] = asyncio.create_task(channel.close(grace))
            closing.add_done_callback(lambda _task: self._closing.pop(channel, None))

    @property
    def endpoint(self) -> Endpoint:
        """The current member."""
        return self.endpoints[self._current]

    async def close(self) -> None:
        """Close the connection, even with requests in flight. They fail, as do later ones, and are not repeated."""
        self._closed = True
        self._end_streams()
        old_channels, self._closing = self._closing, {}
        for closing in old_channels.values():
            closing.cancel()
        await asyncio.gather(*old_channels.values(), return_exceptions=True)
        channels = [*old_channels] if self._channel is None else [*old_channels, self._channel]
        self._channel = None
        self._stubs.clear()
        for channel in channels:
            await channel.close()

    def _end_streams(self) -> None:
        """A stream that is still being opened would not be ended by closing the connection."""
        streams, self._streams = self._streams, weakref.WeakSet()
        for stream in streams:
            stream.cancel()

    def _connected(self) -> Any:
        if self._channel is None:
            if self._closed:
                raise EtcdError("Canceled", "the client is closed")
            endpoint = self.endpoint
            if endpoint.secure:
                self._channel = grpc.aio.secure_channel(
                    endpoint.target, _credentials(self._options), options=_CHANNEL_OPTIONS
                )
            else:
                self._channel = grpc.aio.insecure_channel(endpoint.target, options=_CHANNEL_OPTIONS)
        return self._channel

    def _stub(self, method: str, response: Any) -> Any:
        stub = self._stubs.get(method)
        if stub is None:
            stub = self._stubs[method] = self._connected().unary_unary(
                method,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=response.FromString,
            )
        return stub

    async def _call(
        self, method: str, request: Any, response: Any, operation: str, kind: str, timeout: float, *, repeatable: bool
    ) -> Any:
        start = time.perf_counter()
        try:
            result = await self._call_any_member(method, request, response, timeout, repeatable=repeatable)
        except EtcdError:
            self.observe(operation, kind, time.perf_counter() - start, failed=True)
            raise
        self.observe(operation, kind, time.perf_counter() - start, failed=False)
        return result

    async def _call_any_member(
        self, method: str, request: Any, response: Any, timeout: float, *, repeatable: bool
    ) -> Any:
        attempts, start = _ROUNDS * len(self.endpoints), time.monotonic()
        for attempt in range(1, attempts + 1):
            endpoint = self.endpoint
            try:
                return await self._stub(method, response)(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                failure = to_etcd_error(error)
            except asyncio.CancelledError:
                if is_being_cancelled():
                    raise
                failure = EtcdError("Unavailable", CLOSED)
            _log.info("A request to etcd has failed", endpoint=endpoint.url, method=method, error=failure, v=2)
            is_last = attempt == attempts or time.monotonic() - start > _MAX_TIMEOUTS * timeout
            if is_last or not (_was_not_sent(failure) or (repeatable and _may_succeed_elsewhere(failure))):
                if failure.code == _TIMED_OUT:
                    self.fail_over(endpoint)  # it may hang, and the next request must not wait for it
                raise failure from None
            self.fail_over(endpoint)
            if attempt % len(self.endpoints) == 0:
                await asyncio.sleep(_RETRY_DELAY)
        raise AssertionError("the last attempt returns or raises")


def read_blocking(options: EtcdOptions, read: Callable[[Callable[[Any], Any]], Any]) -> Any:
    """Read from the first member that responds, at startup, without an event loop. ``read`` is called with a function
    that sends a ``RangeRequest``. Raises ``EtcdError``."""
    failure = EtcdError("Unavailable", "no member")
    for endpoint in endpoints_of(options):
        if endpoint.secure:
            channel = grpc.secure_channel(endpoint.target, _credentials(options), options=_CHANNEL_OPTIONS)
        else:
            channel = grpc.insecure_channel(endpoint.target, options=_CHANNEL_OPTIONS)
        with channel:
            stub = channel.unary_unary(
                f"{_KV}Range",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=messages.RangeResponse.FromString,
            )
            try:
                result = read(lambda request: stub(request, timeout=REQUEST_TIMEOUT))  # noqa: B023  # called immediately
                version = _version(channel)
                if is_supported(version):
                    return result
                failure = EtcdError("FailedPrecondition", _TOO_OLD.format(version=version, endpoint=endpoint.url))
            except grpc.RpcError as error:
                failure = to_etcd_error(error)
            _log.warning("An etcd can't be read", endpoint=endpoint.url, error=failure)
    raise failure


_TOO_OLD = (
    "etcd v{version} at {endpoint} is too old: its answers to RequestWatchProgress can overtake events, which would be "
    "lost; v3.4.31, v3.5.13, v3.6 or newer is needed"
)


def is_supported(version: str) -> bool:
    """Whether progress notifications of an etcd of this version are in order with its events (apiserver
    ``pkg/storage/feature/feature_support_checker.go``, v0.36). An empty or unusual version counts as supported."""
    match = _VERSION(version)
    if match is None:
        return True
    parsed = (int(match[1]), int(match[2]), int(match[3]))
    return (3, 4, 31) <= parsed < (3, 5, 0) or parsed >= (3, 5, 13)


_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})").match


def _version(channel: grpc.Channel) -> str:
    """The version of the member, empty if the client has no permission to read it."""
    status = channel.unary_unary(
        "/etcdserverpb.Maintenance/Status",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=messages.StatusResponse.FromString,
    )
    try:
        return str(status(messages.StatusRequest(), timeout=REQUEST_TIMEOUT).version)
    except grpc.RpcError as error:
        _log.info("etcd does not return its version", error=to_etcd_error(error), v=2)
        return ""
