"""The runtime's controller behind one declaration."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, json_patch
from pilothouse.client.errors import ApiError, Invalid, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.names import object_key
from pilothouse.machinery.owners import controller_of
from pilothouse.operator.context import OWNER_INDEX, Context, Parts
from pilothouse.operator.custom_resource import kind_of
from pilothouse.operator.declaration import Declaration, Owned, Reference
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.consistency import ConsistencyStore, StaleCache, read_versions
from pilothouse.runtime.controller import Controller, Requeue
from pilothouse.runtime.errors import RetryLater, TerminalError
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.informer import InformerFactory, SharedInformer

_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Seconds between checks of a cache that is old."""

_MAX_ERROR_LENGTH = 1000
"""Characters of an error that are kept."""


class DeclaredController(Controller):
    """Keys are those of the primary objects."""

    def __init__(
        self,
        declaration: Declaration,
        *,
        client: Client,
        env: Env,
        informers: InformerFactory,
        namespace: str,
        recorder: EventRecorder,
        metrics: Registry,
    ) -> None:
        by_kind: dict[tuple[str, str], SharedInformer[Any]] = {}
        owned_kinds = declaration.owned_kinds
        for kind in declaration.watched:
            by_kind[kind.api_version, kind.kind] = informers.informer(
                kind,
                namespace=namespace if kind.namespaced else "",
                label_selector=declaration.selector if kind == declaration.kind else "",
                keep_raw=kind == declaration.kind or kind in owned_kinds,
            )
        super().__init__(
            declaration.name,
            env,
            workers=declaration.workers,
            waits_for=tuple(by_kind.values()),
            metrics=metrics,
            limiter=declaration.rate_limiter(env),
            queue_name=f"{declaration.name}/{namespace}" if namespace else "",
        )
        self._declaration = declaration
        self._informers = by_kind
        self._primary: SharedInformer[Any] = by_kind[declaration.kind.api_version, declaration.kind.kind]
        self._parts = Parts(
            declaration=declaration,
            client=client,
            env=env,
            log=Log(declaration.name),
            informers=by_kind,
            recorder=recorder,
            written=ConsistencyStore(read_versions(*by_kind.values())),
            applied={},
            uncertain=set(),  # never iterated
        )
        self._errors: dict[str, str] = {}
        """The error of the last sync of an object, by its key."""
        self._watch_primary()
        for owned in declaration.owns:
            self._watch_owned(owned)
        for number, reference in enumerate(declaration.references):
            self._watch_reference(reference, f"pilothouse.operator/reference-{declaration.name}-{number}")

    # Watching

    def _watch_primary(self) -> None:
        predicates = self._declaration.predicates
        for index in self._declaration.indexes:
            kind = kind_of(index.kind)
            cache = self._informers[kind.api_version, kind.kind].cache
            cache.add_index(self._declaration.index_name(index.name), partial(_values, index.function))

        def updated(old: Cached, new: Cached) -> None:
            # Independent of predicates: another object with this name is new, and a finalizer needs the deletion.
            if _lifetime(old) != _lifetime(new) or all(predicate(old, new) for predicate in predicates):
                self.queue.add(object_key(new.metadata))

        self._primary.add_handler(
            on_add=lambda obj, _initial: self.queue.add(object_key(obj.metadata)),
            on_update=updated,
            on_delete=lambda obj, _unknown: self._forget(object_key(obj.metadata)),
        )

    def _watch_owned(self, owned: Owned) -> None:
        kind = kind_of(owned.kind)

        def updated(old: Cached, new: Cached) -> None:
            moved = controller_of(old.metadata) != controller_of(new.metadata)
            if moved:
                self._enqueue_owner(old)
            if (
                moved
                or old.metadata.uid != new.metadata.uid
                or all(predicate(old, new) for predicate in owned.predicates)
            ):
                self._enqueue_owner(new)

        informer = self._informers[kind.api_version, kind.kind]
        informer.cache.add_index(OWNER_INDEX, _owner_uid)
        informer.add_handler(
            on_add=lambda obj, _initial: self._enqueue_owner(obj),
            on_update=updated,
            on_delete=lambda obj, _unknown: self._enqueue_owner(obj),
        )

    def _enqueue_owner(self, obj: Cached) -> None:
        kind, owner = self._declaration.kind, controller_of(obj.metadata)
        if owner is None or owner.kind != kind.kind or owner.api_version.rpartition("/")[0] != kind.group:
            return
        key = f"{obj.metadata.namespace}/{owner.name}" if kind.namespaced else owner.name
        self.queue.add(key)

    def _watch_reference(self, reference: Reference, index: str) -> None:
        cache, of, kind = self._primary.cache, reference.of, kind_of(reference.kind)

        if of is not None:
            named = of

            def referred(obj: Cached) -> list[str]:
                namespace = obj.metadata.namespace if kind.namespaced else ""
                names = _several(named(obj))
                return [name if "/" in name or not namespace else f"{namespace}/{name}" for name in names if name]

            cache.add_index(index, referred)

        def changed(obj: Cached) -> None:
            if reference.map is not None:
                for key in _several(reference.map(obj)):
                    self.queue.add(key)
                return
            for primary in cache.by_index(index, object_key(obj.metadata)):
                self.queue.add(object_key(primary.metadata))

        def updated(old: Cached, new: Cached) -> None:
            if old.metadata.uid == new.metadata.uid and not all(
                predicate(old, new) for predicate in reference.predicates
            ):
                return
            if reference.map is not None:
                changed(old)  # the previous owner must be synced, because it no longer owns the object
            changed(new)

        self._informers[kind.api_version, kind.kind].add_handler(
            on_add=lambda obj, _initial: changed(obj),
            on_update=updated,
            on_delete=lambda obj, _unknown: changed(obj),
        )

    def _forget(self, key: str) -> None:
        self._parts.applied.pop(key, None)
        self._parts.written.clear(key)
        self._parts.uncertain.discard(key)
        self._errors.pop(key, None)

    # Reporting

    @property
    def kind(self) -> Kind[Any]:
        """The kind of the objects that it syncs."""
        return self._declaration.kind

    @property
    def failing(self) -> list[str]:
        """The keys of objects whose last sync has failed, the one that has failed longest first."""
        return list(self._errors)

    def retried_errors(self) -> list[str]:
        """The objects whose syncs fail and are retried, in one line each."""
        return [
            f"controller {self.name}: {key}: {error}"
            for key, error in self._errors.items()
            if self.queue.num_requeues(key)
        ]

    def explain(self, key: str) -> str:
        """The state of an object, in one line: whether it waits for caches, a worker or a backoff, and the error of its
        last sync."""
        waiting = [kind for (_version, kind), informer in self._informers.items() if not informer.has_synced]
        if waiting:
            return f"waits for the first list of {', '.join(waiting)}"
        parts, due = [], self.queue.seconds_until_due(key)
        if self.queue.is_processing(key):
            parts.append("is being synced now")
        elif due is not None:
            parts.append(f"is synced again in {due:.1f} s" if due else "waits for a worker")
        else:
            parts.append("is not queued: nothing has changed since its last sync")
        if key in self._errors:
            failures = self.queue.num_requeues(key)
            postponed = "its last sync was postponed" if due is not None else "its last sync failed for good"
            parts.append(f"its last sync failed ({failures} in a row)" if failures else postponed)
            return f"{', '.join(parts)}: {self._errors[key]}"
        return parts[0]

    # Syncing

    async def reconcile(self, key: str) -> Requeue | None:
        """Sync one object."""
        try:
            requeue = await self._sync(key)
        except Exception as error:
            self._errors[key] = f"{type(error).__name__}: {error}"[:_MAX_ERROR_LENGTH]
            raise
        self._errors.pop(key, None)
        if requeue is not None and requeue.after <= 0:
            # A sync that asks for this each time would take all of the CPU, and in virtual time the clock would stop.
            raise RetryLater("requeued without a delay")
        return requeue

    async def _sync(self, key: str) -> Requeue | None:
        await self._is_up_to_date(key)
        obj, raw = self._primary.cache.get(key), self._primary.cache.raw(key)
        if obj is None or raw is None:
            return None
        self._forget_deleted(key)
        ctx = Context(self._parts, obj, raw)
        declaration = self._declaration
        if obj.metadata.deletion_timestamp is not None:
            return await self._finalize(obj, ctx)
        if declaration.finalizer and declaration.finalizer not in obj.metadata.finalizers:
            # It must be added before anything that needs it; a concurrent change is a Conflict, which is retried.
            await ctx.add_finalizer()
        return await self._with_status(ctx, declaration.reconcile(obj, ctx))

    async def _is_up_to_date(self, key: str) -> None:
        """Wait until the caches have the writes of earlier syncs of the object. Mostly they do, or will within
        milliseconds: the backoff of failures would be too long for that. Raises ``StaleCache`` after a second."""
        for seconds in _PAUSES:
            try:
                self._parts.written.ensure_ready(key)
            except StaleCache:
                await asyncio.sleep(seconds)
            else:
                return
        self._parts.written.ensure_ready(key)

    async def _finalize(self, obj: Any, ctx: Context[Any]) -> Requeue | None:
        declaration, meta = self._declaration, obj.metadata
        if declaration.finalizer not in meta.finalizers:
            return None
        if declaration.finalize is not None:
            requeue = await self._with_status(ctx, declaration.finalize(obj, ctx))
            if requeue is not None:
                return requeue
        try:
            await self._remove_finalizer(meta)
        except NotFound:
            pass  # somebody else removed the finalizer, and the object was deleted
        return None

    async def _remove_finalizer(self, meta: ObjectMeta) -> None:
        """Remove the controller's finalizer. Raises the API server's errors."""
        finalizer, kind, client = self._declaration.finalizer, self._declaration.kind, self._parts.client
        finalizers = meta.finalizers
        while finalizer in finalizers:
            path = f"/metadata/finalizers/{finalizers.index(finalizer)}"
            operations = [
                {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                {"op": "test", "path": path, "value": finalizer},
                {"op": "remove", "path": path},
            ]
            try:
                await client.patch(kind.raw, meta.name, json_patch(operations), meta.namespace)
            except Invalid:
                # A test fails if another finalizer has been removed since, or if another object has the name.
                current = (await client.get(kind.metadata, meta.name, meta.namespace)).metadata
                if current.uid != meta.uid:
                    return
                if current.finalizers == finalizers:
                    raise
                finalizers = current.finalizers
            else:
                return

    async def _with_status(self, ctx: Context[Any], sync: Any) -> Requeue | None:
        """Run a sync, and write its status, whatever the result."""
        try:
            requeue = await _outcome(sync)
        except Exception as failure:
            try:
                await ctx.write_status()
            except NotFound:
                pass  # deleted in the meantime
            except ApiError as error:
                if isinstance(failure, TerminalError):
                    raise  # nothing else would write it: the key must be retried
                self.log.error("Cannot write the status of a failed sync", error=error, key=ctx.key)  # noqa: TRY400
            raise
        try:
            await ctx.write_status(synced=ctx.object.metadata.deletion_timestamp is None)
        except NotFound:
            return None  # deleted in the meantime
        return requeue

    def _forget_deleted(self, key: str) -> None:
        """Drop the applies of deleted objects; the caches have all writes."""
        records = self._parts.applied.get(key, {})
        for deleted_key in [place for place in records if place[1] not in self._informers[place[0]].cache]:
            del records[deleted_key]


async def _outcome(sync: Any) -> Requeue | None:
    """Validate the result of an operator's function. It must never end the worker."""
    try:
        outcome = await sync
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("the sync awaited a task that was cancelled") from error
    if outcome is None or (isinstance(outcome, Requeue) and isinstance(outcome.after, int | float)):
        return outcome
    raise TypeError(f"a sync returns None or Requeue(seconds), got {outcome!r}")


def _lifetime(obj: Cached) -> tuple[object, ...]:
    return obj.metadata.uid, obj.metadata.deletion_timestamp


def _several(names: Iterable[str]) -> Iterable[str]:
    """A text is one name, not its characters."""
    return (names,) if isinstance(names, str) else names


def _values(function: Callable[[Any], Iterable[str]], obj: Cached) -> Iterable[str]:
    return _several(function(obj))


def _owner_uid(obj: Cached) -> tuple[str, ...]:
    owner = controller_of(obj.metadata)
    return (owner.uid,) if owner is not None else ()
