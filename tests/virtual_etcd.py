"""A store on a real etcd for the virtual loop, which has no sockets: what is asked is answered before time goes on.

``EtcdStore`` is the one that serves; only its connection is another: requests block, and after each write the stream of
the watch is read up to it. What etcd does by its own clock, such as the end of a lease, does not follow virtual time.
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

_SECONDS = 10.0
_MOST_TURNS = 20
"""Of the loop, for the watch to be opened."""
_ASK_AGAIN = 0.2
"""etcd does not answer a question for the progress of a watch that it is still bringing up to date."""


class BlockingStream:
    """A watch, as ``grpc.aio`` has it. A thread reads it, and what it has read is handed on by ``take``."""

    def __init__(self, opened: Any, newest: Callable[[], int]) -> None:
        self._newest = newest
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = opened(iter(self._requests.get, None))
        self._waiting: deque[Any] = deque()
        self._reader: asyncio.Future[None] | None = None
        self.revision = 0
        """Up to which the watch was read."""
        self.is_open = False
        threading.Thread(target=self._read, name="watch of etcd", daemon=True).start()

    def _read(self) -> None:
        try:
            for response in self._call:
                self._responses.put(response)
        except grpc.RpcError as error:
            self._responses.put(error)

    async def write(self, request: Any) -> None:
        """Send a request, and take its answer."""
        self._requests.put(request)
        if request.HasField("create_request"):
            self.take(lambda response: response.created)
            self.revision = request.create_request.start_revision - 1
            self.is_open = True
            self.take_until(self._newest())
        else:
            self.take(lambda _response: True, again=request)

    def take_until(self, revision: int) -> None:
        """Read on until a revision was reported."""
        if self.is_open and self.revision < revision:
            self.take(lambda _response: self.revision >= revision)

    def take(self, is_last: Callable[[Any], bool], again: Any = None) -> None:
        """Take responses until the last one, and wake who reads; a request that may go unanswered is repeated."""
        for _attempt in range(int(_SECONDS / _ASK_AGAIN)):
            try:
                response = self._responses.get(timeout=_ASK_AGAIN)
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
            raise AssertionError(f"the watch of etcd is silent at {self.revision}: {list(self._waiting)}")
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> Any:
        """The next response."""
        while not self._waiting:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        response = self._waiting.popleft()
        if isinstance(response, grpc.RpcError):
            raise _of_aio(response)
        return response

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """It never ends before it is connected."""

    def cancel(self) -> None:
        """End it."""
        self.is_open = False
        self._requests.put(None)
        self._call.cancel()


@cache
def _channel_to(target: str) -> Any:
    """One for all stores: a connection costs more than a test."""
    return grpc.insecure_channel(target)


class BlockingChannel:
    """A connection, as ``grpc.aio`` has it."""

    def __init__(self, target: str) -> None:
        self._channel = _channel_to(target)
        self._streams: list[BlockingStream] = []
        self.newest = 0
        """The revision of the last write."""

    def unary_unary(self, method: str, **serializers: Any) -> Any:
        """A method with one answer."""
        call = self._channel.unary_unary(method, **serializers)

        async def ask(request: Any, timeout: float | None = None) -> Any:
            if method.endswith("/Txn"):
                await self._until_watched()
            try:
                answer = call(request, timeout=timeout)
            except grpc.RpcError as error:
                raise _of_aio(error) from None
            if method.endswith("/Txn") and answer.succeeded:
                self.newest = answer.header.revision
                for stream in self._streams:
                    stream.take_until(answer.header.revision)
            return answer

        return ask

    async def _until_watched(self) -> None:
        # A watch that begins before a write that was made already is brought up to date every 100 ms only.
        for _turn in range(_MOST_TURNS):
            if any(stream.is_open for stream in self._streams):
                return
            await asyncio.sleep(0)

    def stream_stream(self, method: str, **serializers: Any) -> Any:
        """A method with streams."""
        call = self._channel.stream_stream(method, **serializers)

        def opened(metadata: Iterable[tuple[str, str]], **_options: Any) -> BlockingStream:
            stream = BlockingStream(lambda requests: _started(call, requests, metadata), lambda: self.newest)
            self._streams.append(stream)
            return stream

        return opened

    def blocking(self, method: str, response: Any) -> Any:
        """A method with one answer, for callers that are no coroutines."""
        return self._channel.unary_unary(
            method, request_serializer=lambda each: each.SerializeToString(), response_deserializer=response.FromString
        )

    async def close(self, _grace: float | None = None) -> None:
        """Close it."""
        for stream in self._streams:
            stream.cancel()


def _started(call: Any, requests: Iterator[Any], metadata: Iterable[tuple[str, str]]) -> Any:
    return call(requests, metadata=tuple(metadata))


def _of_aio(error: Any) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(error.code(), grpc.aio.Metadata(), grpc.aio.Metadata(), details=error.details())


class VirtualEtcdClient(RelativeClient):
    """Asks over a connection that blocks."""

    def _connected(self) -> Any:
        if self._channel is None:
            self._channel = BlockingChannel(self.endpoint.target)
        return self._channel

    def compact_at_once(self, revision: int) -> None:
        """Let go of everything before a revision, and of what other tests have left."""
        call = self._connected().blocking("/etcdserverpb.KV/Compact", messages.CompactionResponse)
        try:
            call(messages.CompactionRequest(revision=revision + self.base), timeout=_SECONDS)
        except grpc.RpcError as error:
            if "has been compacted" not in error.details():
                raise


class VirtualEtcdStore(RelativeStore):
    """The store."""

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
        """Let go of it in etcd as well, where it would be read otherwise."""
        super().compact(revision)
        assert isinstance(self.client, VirtualEtcdClient)
        self.client.compact_at_once(min(revision, self.revision))
