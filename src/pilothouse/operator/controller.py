"""The runtime's controller behind one declaration."""

import asyncio
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.client import Client, json_patch, merge_patch
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.names import object_key
from pilothouse.machinery.owners import controller_of
from pilothouse.operator.context import OWNER_INDEX, Context, Parts
from pilothouse.operator.declaration import Declaration, Reference
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.consistency import ConsistencyStore, StaleCache, read_versions
from pilothouse.runtime.controller import Controller, Requeue
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.informer import InformerFactory, SharedInformer

_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Seconds between looks at a cache that is behind."""


class DeclaredController(Controller):
    """Keys are those of the primary objects."""

    def __init__(
        self,
        app: str,
        declaration: Declaration,
        *,
        client: Client,
        env: Env,
        informers: InformerFactory,
        namespace: str,
        recorder: EventRecorder,
        metrics: Registry,
    ) -> None:
        found: dict[tuple[str, str], SharedInformer[Any]] = {}
        for kind in declaration.watched:
            found[kind.api_version, kind.kind] = informers.informer(
                kind,
                namespace=namespace if kind.namespaced else "",
                label_selector=declaration.selector if kind == declaration.kind else "",
                keep_raw=kind == declaration.kind or kind in declaration.owns,
            )
        super().__init__(
            declaration.name, env, workers=declaration.workers, waits_for=tuple(found.values()), metrics=metrics
        )
        self._declaration = declaration
        self._informers = found
        self._primary: SharedInformer[Any] = found[declaration.kind.api_version, declaration.kind.kind]
        self._parts = Parts(
            app=app,
            declaration=declaration,
            client=client,
            env=env,
            log=Log(declaration.name),
            informers=found,
            recorder=recorder,
            written=ConsistencyStore(read_versions(*found.values())),
            applied={},
        )
        self._watch_primary()
        for kind in declaration.owns:
            self._watch_owned(kind)
        for number, reference in enumerate(declaration.references):
            self._watch_reference(reference, f"pilothouse.operator/reference-{declaration.name}-{number}")

    # Watching

    def _watch_primary(self) -> None:
        predicates = self._declaration.predicates
        for name, function in self._declaration.indexes.items():
            self._primary.cache.add_index(name, function)

        def updated(old: Cached, new: Cached) -> None:
            replaced = old.metadata.uid != new.metadata.uid
            if replaced or all(predicate(old, new) for predicate in predicates):
                self.queue.add(object_key(new.metadata))

        self._primary.add_handler(
            on_add=lambda obj, _initial: self.queue.add(object_key(obj.metadata)),
            on_update=updated,
            on_delete=lambda obj, _unknown: self._forget(object_key(obj.metadata)),
        )

    def _watch_owned(self, kind: Kind[Any]) -> None:
        informer = self._informers[kind.api_version, kind.kind]
        informer.cache.add_index(OWNER_INDEX, _owner_uid)
        informer.add_handler(
            on_add=lambda obj, _initial: self._enqueue_owner(obj),
            on_update=self._owned_updated,
            on_delete=lambda obj, _unknown: self._enqueue_owner(obj),
        )

    def _owned_updated(self, old: Cached, new: Cached) -> None:
        if controller_of(old.metadata) != controller_of(new.metadata):
            self._enqueue_owner(old)
        self._enqueue_owner(new)

    def _enqueue_owner(self, obj: Cached) -> None:
        kind, owner = self._declaration.kind, controller_of(obj.metadata)
        if owner is None or owner.kind != kind.kind or owner.api_version.rpartition("/")[0] != kind.group:
            return
        key = f"{obj.metadata.namespace}/{owner.name}" if kind.namespaced else owner.name
        self.queue.add(key)

    def _watch_reference(self, reference: Reference, index: str) -> None:
        cache, of = self._primary.cache, reference.of

        if of is not None:
            named = of

            def referred(obj: Cached) -> list[str]:
                namespace = obj.metadata.namespace if reference.kind.namespaced else ""
                return [name if "/" in name or not namespace else f"{namespace}/{name}" for name in named(obj) if name]

            cache.add_index(index, referred)

        def changed(obj: Cached) -> None:
            if reference.map is not None:
                for key in reference.map(obj):
                    self.queue.add(key)
                return
            for primary in cache.by_index(index, object_key(obj.metadata)):
                self.queue.add(object_key(primary.metadata))

        self._informers[reference.kind.api_version, reference.kind.kind].add_handler(
            on_add=lambda obj, _initial: changed(obj),
            on_update=lambda _old, obj: changed(obj),
            on_delete=lambda obj, _unknown: changed(obj),
        )

    def _forget(self, key: str) -> None:
        self._parts.applied.pop(key, None)
        self._parts.written.clear(key)

    # Syncing

    async def reconcile(self, key: str) -> Requeue | None:
        """Sync one object."""
        await self._caught_up(key)
        obj, raw = self._primary.cache.get(key), self._primary.cache.raw(key)
        if obj is None or raw is None:
            return None
        ctx = Context(self._parts, obj, raw)
        declaration = self._declaration
        if obj.metadata.deletion_timestamp is not None:
            return await self._finalize(obj, ctx)
        if declaration.finalizer and declaration.finalizer not in obj.metadata.finalizers:
            # It must be there before anything that needs it; an object that changed meanwhile is a Conflict, retried.
            await self._add_finalizer(obj)
        return await self._with_status(ctx, declaration.reconcile(obj, ctx))

    async def _caught_up(self, key: str) -> None:
        """Wait until the caches have seen what earlier syncs of the object wrote. Mostly they have, or will have within
        milliseconds: the back-off of failures would be too long for that. Raises ``StaleCache`` after a second."""
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
        position = meta.finalizers.index(declaration.finalizer)
        path = f"/metadata/finalizers/{position}"
        # Another finalizer may have gone before; then the test fails, and the key comes back with the newer object.
        operations = [{"op": "test", "path": path, "value": declaration.finalizer}, {"op": "remove", "path": path}]
        try:
            await self._parts.client.patch(declaration.kind.raw, meta.name, json_patch(operations), meta.namespace)
        except NotFound:
            pass  # somebody else removed the finalizer, and the object has gone
        return None

    async def _with_status(self, ctx: Context[Any], sync: Any) -> Requeue | None:
        """Run a sync, and write the status that it leaves, whatever comes of it."""
        try:
            requeue: Requeue | None = await sync
        except Exception:
            try:
                await ctx.write_status()
            except NotFound:
                pass  # deleted meanwhile
            except ApiError as error:
                self.log.error("Cannot write the status of a failed sync", error=error, key=ctx.key)  # noqa: TRY400
            raise
        try:
            await ctx.write_status()
        except NotFound:
            return None  # deleted meanwhile
        return requeue

    async def _add_finalizer(self, obj: Cached) -> None:
        meta, kind = obj.metadata, self._declaration.kind
        finalizers = [*meta.finalizers, self._declaration.finalizer]
        patch = merge_patch({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}})
        answer = await self._parts.client.patch(kind, meta.name, patch, meta.namespace)
        version = answer.metadata.resource_version
        self._parts.written.wrote_at(object_key(meta), meta.uid, kind.group_resource, version)


def _owner_uid(obj: Cached) -> tuple[str, ...]:
    owner = controller_of(obj.metadata)
    return (owner.uid,) if owner is not None else ()
