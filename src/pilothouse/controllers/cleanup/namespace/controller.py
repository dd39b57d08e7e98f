"""Syncs a terminating namespace: read, mark, delete the content, report, finalize."""

from collections.abc import Awaitable, Callable

import msgspec

from pilothouse.api.core import NAMESPACES, Namespace
from pilothouse.api.meta import Condition
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.cleanup.namespace import DESCRIPTOR, NamespaceOptions
from pilothouse.controllers.cleanup.namespace.content import DeletionResult, NamespacedResourcesDeleter
from pilothouse.controllers.cleanup.namespace.decide import finalizers_without_kubernetes, pause_seconds
from pilothouse.controllers.cleanup.namespace.status import conditions_of, describe, update_conditions
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.controller import ManagedController, Requeue, RetryLater
from pilothouse.runtime.rate_limiters import BucketLimiter, ExponentialFailureLimiter, MaxOfLimiter

GRACE_SECONDS = 5.0
"""API servers and etcd members that lag behind still accept objects for that long (namespace_controller.go, v1.36)."""

CONFLICT_TRIES = 10

_namespace = msgspec.json.Decoder(Namespace)
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


class _NamespaceObject(msgspec.Struct, frozen=True):
    view: Namespace
    raw: bytes


class NamespaceController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(NamespaceOptions)
        informer = context.informer(NAMESPACES)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.concurrent_syncs,
            # At most a minute between retries of a namespace that could be finalized.
            limiter=MaxOfLimiter[str](
                ExponentialFailureLimiter[str](0.005, 60.0), BucketLimiter[str](context.env, 10.0, 100)
            ),
            queue_name="namespace",
        )
        self._client: Client = context.client
        self._resources_deleter = NamespacedResourcesDeleter(context.env, context.client)
        self._namespaces = informer.cache
        informer.add_handler(
            on_add=lambda namespace, _initial: self._enqueue(namespace),
            on_update=lambda _old, namespace: self._enqueue(namespace),
            resync_seconds=options.sync_period,
        )

    def _enqueue(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self.queue.add_after(namespace.metadata.name, GRACE_SECONDS)

    async def reconcile(self, key: str) -> Requeue | None:
        """One sync. Everything is read live; the cache only triggers it."""
        if self._namespaces.get(key) is None:
            return None
        try:
            current = await self._get(key)
            if current.view.metadata.deletion_timestamp is None:
                return None
            current = await self._retry_on_conflict(current, self._mark_terminating)
            if current.view.metadata.deletion_timestamp is None or not current.view.spec.finalizers:
                return None
        except NotFound:
            return None
        result = await self._resources_deleter.delete_all_content(key, current.view.metadata.deletion_timestamp)
        current = await self._update_conditions(current, result)
        if result.errors:
            text = result.errors[0] if len(result.errors) == 1 else f"[{', '.join(result.errors)}]"
            self.log.error("Deleting the content of a namespace failed", key=key, err=text)
            raise RetryLater(text)
        if result.estimate_seconds > 0:
            delay = pause_seconds(result.estimate_seconds)
            self.log.info("Content remaining in namespace", v=4, key=key, seconds=delay)
            return Requeue(delay)
        try:
            await self._retry_on_conflict(current, self._finalize_namespace)
        except NotFound:
            pass  # Another manager has finalized it.
        return None

    async def _get(self, name: str) -> _NamespaceObject:
        return _decode(await self._client.get(NAMESPACES.raw, name))

    async def _retry_on_conflict(
        self, current: _NamespaceObject, write: Callable[[_NamespaceObject], Awaitable[_NamespaceObject]]
    ) -> _NamespaceObject:
        """Write, and retry conflicts with the live object. Another namespace with the same name is not changed."""
        for _ in range(CONFLICT_TRIES - 1):
            try:
                return await write(current)
            except Conflict:
                latest = await self._get(current.view.metadata.name)
                if latest.view.metadata.uid != current.view.metadata.uid:
                    raise RetryLater("namespace uid has changed across retries") from None
                current = latest
        return await write(current)

    async def _mark_terminating(self, current: _NamespaceObject) -> _NamespaceObject:
        if current.view.metadata.deletion_timestamp is None or current.view.status.phase == "Terminating":
            return current
        record_decision(f"namespace {current.view.metadata.name} is being deleted: its phase becomes Terminating")
        return await self._put_status(current, {"status.phase": b'"Terminating"'})

    async def _update_conditions(self, current: _NamespaceObject, result: DeletionResult) -> _NamespaceObject:
        """Write the conditions if they changed. A failure is only logged: the next sync writes them again."""
        previous = current.view.status.conditions
        after = update_conditions(previous, conditions_of(result.outcome, self.env.now()))
        if after == previous:
            return current
        old = _raw_list.decode(take_field(current.raw, "status.conditions") or b"[]")
        # Other conditions are written back as JSON, because the view may lack fields.
        written = [
            old[index] if index < len(previous) and condition == previous[index] else _condition(condition)
            for index, condition in enumerate(after)
        ]
        record_decision(f"what is left in the namespace: {describe(result.outcome)}")
        try:
            return await self._put_status(current, {"status.conditions": msgspec.json.encode(written)})
        except (ApiError, ConnectionError, TimeoutError) as error:
            self.log.error("Couldn't update the conditions", error=error, key=current.view.metadata.name)  # noqa: TRY400  # no traceback: the server said no
            return current

    async def _put_status(self, current: _NamespaceObject, changes: dict[str, bytes]) -> _NamespaceObject:
        body = replace_fields(current.raw, {**changes, "metadata.managedFields": None})
        return _decode(
            await self._client.update(NAMESPACES.raw, current.view.metadata.name, body, subresource="status")
        )

    async def _finalize_namespace(self, current: _NamespaceObject) -> _NamespaceObject:
        finalizers = finalizers_without_kubernetes(current.view.spec.finalizers)
        record_decision(f"namespace {current.view.metadata.name} is empty: its finalizer kubernetes is removed")
        changes = {
            "spec.finalizers": msgspec.json.encode(finalizers) if finalizers else None,
            "metadata.managedFields": None,
            "status": None,
        }
        body = replace_fields(current.raw, changes)
        return _decode(
            await self._client.update(NAMESPACES.raw, current.view.metadata.name, body, subresource="finalize")
        )


def _decode(raw: msgspec.Raw) -> _NamespaceObject:
    return _NamespaceObject(_namespace.decode(raw), bytes(raw))


def _condition(condition: Condition) -> msgspec.Raw:
    assert condition.last_transition_time is not None, "every condition that is written has its time"
    fields = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": format_time(condition.last_transition_time),
        "reason": condition.reason,
        "message": condition.message,
    }
    return msgspec.Raw(msgspec.json.encode(fields))


build = NamespaceController
