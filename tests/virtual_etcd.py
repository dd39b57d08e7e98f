"""A store on a real etcd for the virtual loop, which has no sockets: requests block, so virtual time does not advance.

It is ``EtcdStore`` with another connection: requests block, and after each write the watch is read up to its revision.
What depends on etcd's clock, such as the expiry of a lease, does not follow virtual time.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import grpc
import grpc.aio
from tests.conformance.relative import RelativeClient, RelativeStore

from pilothouse.env import Env
from pilothouse.storage import Record, Retention
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.values import Values

_TIMEOUT_SECONDS = 10.0
_MAX_TURNS = 20
"""Iterations of the loop to wait for the watch to be opened."""
_RETRY_SECONDS = 0.2
"""etcd does not response a progress request of a watch that is not synced yet: it is repeated after this time."""


class BlockingStream:
    """A watch stream with the interface of ``grpc.aio``. A thread reads it; ``take`` passes on what it has read."""

    def __init__(self, open_stream: Any, newest: Callable[[], int]) -> None:
        self._newest = newest
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = open_stream(iter(self._requests.get, None))
        self._waiting: deque[Any] = deque()
        self._reader: asyncio.Future[None] | None = None
        self.revision = 0
        """The last revision that was read."""
        self.is_open = False
        threading.Thread(target=self._read, name="watch of etcd", daemon=True).start()

    def _read(self) -> None:
        try:
            for response in self._call:
                self._responses.put(response)
        except grpc.RpcError as error:
            self._responses.put(error)

    async def write(self, request: Any) -> None:
        """Send a request, and read its response."""
        self._requests.put(request)
        if request.HasField("create_request"):
            self.take(lambda response: response.created)
            self.revision = request.create_request.start_revision - 1
            self.is_open = True
            self.take_until(self._newest())
        else:
            self.take(lambda _response: True, again=request)

    def take_until(self, revision: int) -> None:
        """Read until the revision was reported."""
        if self.is_open and self.revision < revision:
            self.take(lambda _response: self.revision >= revision)

    def take(self, is_last: Callable[[Any], bool], again: Any = None) -> None:
        """Take responses until ``is_last``, and wake the reader. ``again`` is repeated if there is no response."""
        for _attempt in range(int(_TIMEOUT_SECONDS / _RETRY_SECONDS)):
            try:
                response = self._responses.get(timeout=_RETRY_SECONDS)
            except queue.Empty:
                if again is not None:
                    self._requests.put(again)
                continue
            self._waiting.append(response)
            if isinstance(response, grpc.RpcError):
                self.is_open = False
                break
            self.revision = max([self.revision, *(event.kv.mod_revision for event in response.events)])
            if not response.fragment and is_last(response):
                break
        else:
            raise AssertionError(f"no response on the watch of etcd at revision {self.revision}: {list(self._waiting)}")
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> Any:
        """The next response."""
        while not self._waiting:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        response = self._waiting.popleft()
        if isinstance(response, grpc.RpcError):
            raise _aio_error(response)
        return response

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Not called: the stream does not end before it is connected."""

    def cancel(self) -> None:
        """Cancel the watch."""
        self.is_open = False
        self._requests.put(None)
        self._call.cancel()


@cache
def _channel_to(target: str) -> Any:
    """One channel for all stores: connecting takes longer than a test."""
    return grpc.insecure_channel(target)


class BlockingChannel:
    """A channel with the interface of ``grpc.aio``."""

    def __init__(self, target: str) -> None:
        self._channel = _channel_to(target)
        self._streams: list[BlockingStream] = []
        self.newest = 0
        """The revision of the last write."""

    def unary_unary(self, method: str, **serializers: Any) -> Any:
        """A unary method."""
        call = self._channel.unary_unary(method, **serializers)

        async def send(request: Any, timeout: float | None = None) -> Any:
            if method.endswith("/Txn"):
                await self._wait_for_watch()
            try:
                response = call(request, timeout=timeout)
            except grpc.RpcError as error:
                raise _aio_error(error) from None
            if method.endswith("/Txn") and response.succeeded:
                self.newest = response.header.revision
                for stream in self._streams:
                    stream.take_until(response.header.revision)
            return response

        return send

    async def _wait_for_watch(self) -> None:
        # etcd syncs a watch that starts before an existing write only every 100 ms.
        for _turn in range(_MAX_TURNS):
            if any(stream.is_open for stream in self._streams):
                return
            await asyncio.sleep(0)

    def stream_stream(self, method: str, **serializers: Any) -> Any:
        """A streaming method."""
        call = self._channel.stream_stream(method, **serializers)

        def opened(metadata: Iterable[tuple[str, str]], **_options: Any) -> BlockingStream:
            stream = BlockingStream(lambda requests: _started(call, requests, metadata), lambda: self.newest)
            self._streams.append(stream)
            return stream

        return opened

    def blocking(self, method: str, response: Any) -> Any:
        """A unary method for synchronous callers."""
        return self._channel.unary_unary(
            method, request_serializer=lambda each: each.SerializeToString(), response_deserializer=response.FromString
        )

    async def close(self, _grace: float | None = None) -> None:
        """Close it."""
        for stream in self._streams:
            stream.cancel()


def _started(call: Any, requests: Iterator[Any], metadata: Iterable[tuple[str, str]]) -> Any:
    return call(requests, metadata=tuple(metadata))


def _aio_error(error: Any) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(error.code(), grpc.aio.Metadata(), grpc.aio.Metadata(), details=error.details())


class VirtualEtcdClient(RelativeClient):
    """A client with a blocking channel."""

    def _connected(self) -> Any:
        if self._channel is None:
            self._channel = BlockingChannel(self.endpoint.target)
        return self._channel

    def compact_at_once(self, revision: int) -> None:
        """Compact up to a revision, including what other tests have left."""
        call = self._connected().blocking("/etcdserverpb.KV/Compact", messages.CompactionResponse)
        try:
            call(messages.CompactionRequest(revision=revision + self.base), timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            if "has been compacted" not in error.details():
                raise


class VirtualEtcdStore(RelativeStore):
    """``EtcdStore`` with a blocking client."""

    def __init__(
        self,
        env: Env,
        client: EtcdClient,
        keys: Keys,
        values: Values,
        options: EtcdOptions,
        *,
        records: Iterable[Record],
        revision: int,
        retention: Retention,
        lasting: Callable[[str], float],
    ) -> None:
        super().__init__(
            env,
            client,
            keys,
            values,
            options,
            records=records,
            revision=revision,
            retention=retention,
            lasting=lasting,
            own=VirtualEtcdClient(options),
        )

    def compact(self, revision: int) -> None:
        """Compact etcd too, so that it cannot serve compacted revisions."""
        super().compact(revision)
        assert isinstance(self.client, VirtualEtcdClient)
        self.client.compact_at_once(min(revision, self.revision))
