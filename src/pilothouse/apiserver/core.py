"""``Core``: what the handlers of one server share: store, resources, strategies, admission and clock."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from pilothouse.api.logs import PodLogs
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import Chain
from pilothouse.apiserver.alarms import Alarms
from pilothouse.apiserver.authorization.authorizer import AlwaysAllow, Authorizer
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.long_work import LongWork
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.apiserver.objects import Object, Timestamps
from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.generic import conversions
from pilothouse.apiserver.registry.generic.attributes import AttributeCache
from pilothouse.apiserver.registry.generic.managed_fields import FieldManager
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.request_info import RequestReader
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable
from pilothouse.apiserver.serializers.results import RawResult, Result
from pilothouse.env import Env, Log
from pilothouse.storage import (
    Change,
    CommitFailed,
    Mismatch,
    Record,
    Staged,
    Store,
    StoreError,
    StoreUnavailable,
)
from pilothouse.storage.unreadable import why_unreadable

P = ParamSpec("P")
T = TypeVar("T")

_NO_PLUGINS = Chain()
_MAX_CONVERSIONS = 100
_BYTES_PER_TURN = 256 * 1024
"""How many bytes of a list are converted before yielding, some 3 ms."""
_COMMIT_ATTEMPTS = 10
_log = Log("apiserver")
Handler = Callable[["Core", Call], Awaitable[Result | RawResult]]
FieldAuthorizer = Callable[[Call, Object, Object | None], ErrorList]
"""The errors of fields that the user may not set: (call, object, the old one if it is updated)."""
"""Handles one verb of one resource or subresource; raises ``StatusError`` for every failure."""


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The part of a Lease that renewals need: the only entry of its managedFields."""

    manager: str
    api_version: str
    time: str


class Core:
    """The state of one server. Handlers are functions of it and a ``Call``."""

    def __init__(self, env: Env, store: Store, options: ServerOptions) -> None:
        self.env = env
        self.store = store
        self.options = options
        self._start_revisions = {backing_store: backing_store.revision for backing_store in store.stores()}
        """The revision of the store when the server was constructed."""
        self.table = ResourceTable(options.gates)
        self._gated: dict[tuple[str, str], Strategy] = {}
        """The strategies, with the feature gates of this server, by group and resource."""
        self.requests = RequestReader(self.table)
        self.time = Timestamps(env)
        self.metrics: ServerMetrics | None = None
        """The metrics of this server; None if they are not served. Set by a ``HandlerChain``."""
        self.admission = Chain()
        self.authorizer: Authorizer = AlwaysAllow()
        """Authorizer for the expressions of admission policies; set by a ``HandlerChain``."""
        self.field_authorizers: dict[str, FieldAuthorizer] = {}
        """Authorize the fields of new and changed objects, as a part of their validation; by resource and group."""
        self.attributes = AttributeCache(store)
        self.managed_fields = FieldManager(self)
        self.long_work = LongWork()
        self.handlers: dict[tuple[str, str, str], Handler] = {}
        """Handlers of resources that are not stored, and of subresources with a handler of their own: (group, resource,
        subresource)."""
        self.verb_handlers: dict[tuple[str, str, str, str], Handler] = {}
        """Handlers of single verbs, with precedence over all others: (group, resource, subresource, verb)."""
        self.send_webhook: Callable[[Any, bytes], Awaitable[tuple[int, bytes]]] | None = None
        """Sends requests to admission and conversion webhooks, instead of the network (``webhook_calls.Send``)."""
        self.webhook_caller: Callable[[], str] = str
        """The caller of the current webhook calls. Where ``send_webhook`` depends on the caller, conversions are only
        shared between requests of the same caller."""
        self.pod_logs: PodLogs | None = None
        """Reads container logs; set by the program that runs the nodes."""
        self.renewed: dict[str, tuple[int, Owner]] = {}
        """Key of a renewed Lease → its revision and the manager that owns all of it (``renewal``)."""
        self.alarms = Alarms()
        """Timers of watches."""
        self.watches: dict[Any, ResourceInfo] = {}
        """Active watches, in the order of their start."""
        self.idle_watches: dict[Callable[[], None], None] = {}
        """Callbacks of idle watches, called once at the next commit."""
        store.on_commit.append(self._notify_idle_watches)

    def reading_from(self, store: Store) -> "Core":
        """The same server with another store for reads; writes use this one."""
        reading_core = copy.copy(self)
        reading_core.store = store
        reading_core.attributes = AttributeCache(store)
        reading_core.idle_watches = {}
        store.on_commit.append(reading_core._notify_idle_watches)
        return reading_core

    def _notify_idle_watches(self, _changes: Sequence[Change]) -> None:
        if self.idle_watches:
            callbacks, self.idle_watches = self.idle_watches, {}
            for notify_written in callbacks:
                notify_written()

    def authorize_fields(self, call: Call, obj: Object, old: Object | None = None) -> ErrorList:
        """The errors of fields that the user may not set."""
        authorizer = self.field_authorizers.get(call.info.group_resource) if self.field_authorizers else None
        return [] if authorizer is None else authorizer(call, obj, old)

    def strategy(self, info: ResourceInfo) -> Strategy:
        """The strategy of the resource."""
        if info.custom is not None:
            strategy: Strategy = info.custom.strategy
            return strategy
        if not self.options.gates:
            return registration_of(info.group, info.resource).strategy
        gated = self._gated.get((info.group, info.resource))
        if gated is None:
            gated = registration_of(info.group, info.resource).strategy
            if not gated.disabled_gates.isdisjoint(self.options.gates):
                gated = copy.copy(gated)
                gated.disabled_gates = gated.disabled_gates.difference(self.options.gates)
            self._gated[info.group, info.resource] = gated
        return gated

    def admission_of(self, call: Call) -> Chain:
        """The admission plugins for a write of this call."""
        return _NO_PLUGINS if call.skip_admission else self.admission

    async def commit(self, staged: Staged) -> bytes:
        """Wait until a staged write is committed, and return its value."""
        change = staged.change
        if self.metrics is None:
            await self.store.commit(staged)
            return change.value
        storage = self.metrics.storage
        clock = storage.clock
        started_at = clock()
        try:
            await self.store.commit(staged)
        except Mismatch:  # etcd has rejected it: another server has written first
            storage.wrote(staged, clock() - started_at)
            raise
        except StoreError:
            storage.failed(staged, clock() - started_at)
            raise
        storage.wrote(staged, clock() - started_at)
        return change.value

    def commit_nowait(self, staged: Staged) -> bytes:
        """``commit``, if the store can do that without waiting."""
        if self.metrics is None:
            self.store.commit_nowait(staged)
            return staged.change.value
        storage = self.metrics.storage
        clock = storage.clock
        started_at = clock()
        try:
            self.store.commit_nowait(staged)
        except StoreError:
            storage.failed(staged, clock() - started_at)
            raise
        storage.wrote(staged, clock() - started_at)
        return staged.change.value

    async def commit_staged(self, stage: Callable[[], Staged | None], *, staged: Staged | None = None) -> None:
        """Commit what ``stage`` stages, the differences from the desired state; ``staged`` is what it has staged
        already. After a conflict with another server it is called again. Raises ``StoreError``; ``Mismatch`` after
        repeated conflicts."""
        if not self.store.is_shared:
            staged = staged or stage()
            if staged is not None:
                await self.commit(staged)
            return
        mismatch: Mismatch | None = None
        for _ in range(_COMMIT_ATTEMPTS):
            staged = staged or stage()
            if staged is None:
                return
            try:
                await self.commit(staged)
            except Mismatch as error:
                mismatch = error
                _log.info("Another server has written first", key=staged.change.key)
            await self.store.flush()
            staged = None
        # The other server may stop before it has written everything; check again.
        _log.warning("Objects of this server are changed by other servers repeatedly")
        if mismatch is not None:
            raise mismatch

    async def retry_until_stored(self, work: Callable[[], Awaitable[None]], pause: float = 1.0) -> None:
        """Call ``work``, which writes to the store, until it succeeds."""
        while True:
            try:
                return await work()
            except (StoreUnavailable, CommitFailed, Mismatch) as error:
                if not self.store.is_shared:
                    raise
                _log.warning("The store can't be written, retrying", reason=error)
            await asyncio.sleep(pause)

    async def catch_up(self, prefix: str) -> None:
        """Make the writes of other servers to a resource visible (consistent read). Raises ``StoreUnavailable``."""
        if self.store.is_shared:
            await self.store.store_for(prefix).catch_up()

    def is_from_before_start(self, record: Record) -> bool:
        """Whether a record was stored before this server was constructed: by another process, perhaps of another
        version."""
        return record.revision <= self._start_revisions[self.store.store_for(record.key)]

    def from_storage_nowait(self, info: ResourceInfo, value: bytes) -> bytes:
        """``from_storage`` without waiting: the conversion must not need a webhook. Objects are stored once,
        whatever the served versions."""
        if info.custom is not None:
            assert not self.needs_webhook(info, value), "`from_storage` calls the webhook"
            converted: bytes = info.custom.from_stored(value)
            return converted
        if value.startswith(info.head):
            return value
        if why_unreadable(value) is not None:
            raise errors.unreadable(value, "", "")
        strategy = self.strategy(info)
        return strategy.from_storage(info, value)

    def needs_webhook(self, info: ResourceInfo, value: bytes) -> bool:
        """Whether a conversion webhook is needed to return a stored object in the version of ``info``."""
        return info.custom is not None and info.custom.converter is not None and not value.startswith(info.head)

    async def from_storage(self, info: ResourceInfo, value: bytes, *, bypass_cache: bool = False) -> bytes:
        """A stored object in the version of ``info``. ``bypass_cache``: call a conversion webhook even if the
        conversion is cached. Raises ``StatusError`` if it cannot be converted."""
        if not self.needs_webhook(info, value):
            return self.from_storage_nowait(info, value)
        if why_unreadable(value) is not None:
            raise errors.unreadable(value, "", "")
        converted: list[bytes] = await info.custom.converter.from_storage(info, [value], bypass_cache=bypass_cache)
        return converted[0]

    async def list_from_storage(self, info: ResourceInfo, values: Sequence[bytes]) -> list[bytes]:
        """As ``from_storage`` for several objects, which are converted together."""
        if info.custom is not None and info.custom.converter is not None:
            errors.check_readable(values)
            converted: list[bytes] = await info.custom.converter.from_storage(info, values)
            return converted
        objects, size = list[bytes](), 0
        for value in values:
            objects.append(self.from_storage_nowait(info, value))
            size += len(value)
            if size >= _BYTES_PER_TURN:
                size = 0
                await asyncio.sleep(0)  # let other requests run
        return objects

    async def to_storage(self, info: ResourceInfo, obj: Object, size: int) -> Object:
        """An object in the version of ``info``, converted to the storage version. May share parts with ``obj``, of
        about ``size`` bytes. Raises ``StatusError`` if it cannot be converted."""
        strategy = self.strategy(info)
        if info.custom is not None and info.custom.converter is not None and strategy.stored_as(info) is not info:
            stored: Object = await info.custom.converter.to_storage(info, obj)
            return stored
        if info.custom is not None:
            # All of its values are copied.
            return await self.long_work.run(size, strategy.to_storage, info, obj)
        return strategy.to_storage(info, obj)

    async def run_converting(
        self, info: ResourceInfo, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """``long_work.run`` for a function that uses managed fields, which may be in other versions: if a webhook is
        needed to convert to them, the function is called again after each conversion."""
        if info.custom is None or info.custom.converter is None:
            return await self.long_work.run(size, function, *args, **kwargs)
        results: dict[conversions.Key, Object | StatusError] = {}
        token = conversions.conversion_results.set(results)
        try:
            for _ in range(_MAX_CONVERSIONS):
                try:
                    return await self.long_work.run(size, function, *args, **kwargs)
                except conversions.ConversionNeeded as error:
                    needed = error
                # Outside of the handler's context: logs of a webhook in this process do not belong to this request.
                try:
                    results[needed.key] = await info.custom.converter.convert(needed.obj, needed.key[0], pruned=False)
                except StatusError as error:
                    results[needed.key] = error
        finally:
            conversions.conversion_results.reset(token)
        raise errors.plain(
            f"managedFields are in too many versions: they need more than {_MAX_CONVERSIONS} conversions"
        )

    def namespace(self, name: str) -> Record | None:
        """The latest staged record of the namespace."""
        return self.store.staged("/namespaces/" + name)
