"""A store on a used etcd whose revisions start at 1, as those of other stores."""

from collections.abc import Callable, Iterable
from typing import Any

from pilothouse.env import Env
from pilothouse.storage import Record, Retention
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.etcd.values import Values


class RelativeClient(EtcdClient):
    """Subtracts a constant from revisions received from etcd, and adds it to revisions sent to it."""

    base = 0

    async def range(self, request: Any, **options: Any) -> Any:
        if request.revision:
            request.revision += self.base
        return self._relative(await super().range(request, **options))

    async def txn(self, request: Any, **options: Any) -> Any:
        for compare in request.compare:
            if compare.target == messages.MODIFIED and compare.mod_revision:
                compare.mod_revision += self.base
        answer = self._relative(await super().txn(request, **options))
        for response in answer.responses:
            self._pairs(response.response_range.kvs)
        return answer

    def watch(self) -> Any:
        return RelativeStream(super().watch(), self)

    def _relative(self, answer: Any) -> Any:
        answer.header.revision -= self.base
        self._pairs(getattr(answer, "kvs", ()))
        return answer

    def _pairs(self, pairs: Iterable[Any]) -> None:
        for pair in pairs:
            pair.mod_revision -= self.base
            pair.create_revision = max(pair.create_revision - self.base, 0)


class RelativeStream:
    """The same for a watch."""

    def __init__(self, stream: Any, client: RelativeClient) -> None:
        self._stream = stream
        self._client = client

    async def write(self, request: Any) -> None:
        if request.create_request.start_revision:
            request.create_request.start_revision += self._client.base
        await self._stream.write(request)

    async def read(self) -> Any:
        response = await self._stream.read()
        if hasattr(response, "header"):
            self._client._relative(response)
            self._client._pairs(event.kv for event in response.events)
        return response

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._stream.add_done_callback(callback)

    def cancel(self) -> None:
        self._stream.cancel()


class RelativeStore(EtcdStore):
    """A store whose revision is 1 when it is opened."""

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
        own: RelativeClient | None = None,
    ) -> None:
        own = own or RelativeClient(options)
        own.base = revision - 1
        super().__init__(
            env, own, keys, values, options, records=records, revision=1, retention=retention, lasting=lasting
        )
        self.compacted = 0
