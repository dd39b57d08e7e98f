"""The wiring. Quotas whose limits are not in force yet have a queue of their own, so that they do not wait behind
recounts; and so have those for which objects were added that may not have been charged, whose usage is only raised.
"""

import asyncio

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES, ResourceQuota
from pilothouse.client.errors import NotFound
from pilothouse.controllers.policy.resourcequota import DESCRIPTOR, ResourceQuotaOptions
from pilothouse.controllers.policy.resourcequota.counting import CacheNotSynced
from pilothouse.controllers.policy.resourcequota.monitors import Monitors
from pilothouse.controllers.policy.resourcequota.usage import (
    describe,
    is_urgent,
    may_miss_objects,
    new_status,
    raised,
    scopes_of,
)
from pilothouse.env import TaskGroup
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, RetryLater, object_key
from pilothouse.runtime.controller import WorkerPool
from pilothouse.runtime.workqueue import WorkQueue
from pilothouse.semantics.pod_amounts import Amounts, add, amounts
from pilothouse.semantics.quota import OF_DEVICE_CLASS, Evaluator

UNCHARGED_SECONDS = 60.0
"""How long after new limits or a decrease of usage an added object may be missing from the usage."""

RAISE_DELAY_SECONDS = 0.1
"""Added objects are counted this much later: together, and with the quota as they were charged to it."""


class ResourceQuotaController:
    """See the package. Keys are those of quotas. Create it in the running loop."""

    name = DESCRIPTOR.name

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(ResourceQuotaOptions)
        env, metrics, log = context.env, context.metrics, context.log
        self._env = env
        self._log = log
        self._client = context.client
        self._sync_period = options.sync_period
        self._informer = context.informer(RESOURCE_QUOTAS)
        self._quotas = self._informer.cache
        # Before the monitors, which then use these informers instead of their own of metadata.
        context.informer(PODS)
        context.informer(SERVICES)
        context.informer(PERSISTENT_VOLUME_CLAIMS)
        self.monitors = Monitors(
            context,
            replenish=self._replenish,
            added=self._on_object_added,
            is_limited=lambda namespace: bool(self._quotas.list(namespace)),
            on_new=self._enqueue_unknown_usage,
            pod_level_resources=options.pod_level_resources,
        )
        self._uncharged_until: dict[str, float] = {}
        """Until when objects that are added may be missing from the usage of a quota."""
        self._additions = 0
        """How many objects were added, in namespaces with quotas."""
        self._queue: WorkQueue[str] = WorkQueue(env, "resourcequota_primary", metrics)
        self._urgent: WorkQueue[str] = WorkQueue(env, "resourcequota_priority", metrics)
        self._added_to: WorkQueue[str] = WorkQueue(env, "resourcequota_added", metrics)
        self.pools = [
            WorkerPool(
                f"{self.name}-{suffix}",
                queue,
                sync,
                workers=options.concurrent_syncs,
                metrics=metrics,
                log=log,
                component=self.name,
            )
            for suffix, queue, sync in (
                ("primary", self._queue, self._sync),
                ("priority", self._urgent, self._sync),
                ("added", self._added_to, self._raise_usage),
            )
        ]
        self._informer.add_handler(
            lambda quota, _initial: self._enqueue(quota), self._update_quota, self._delete_quota, resync_seconds=0.0
        )

    async def run(self) -> None:
        """Run until cancelled. Counting starts when the caches are synced, or the wait for them has timed out."""
        self._log.info("Starting controller", controller=self.name)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self.monitors.run(), name=f"{self.name}-monitors")
                await self._informer.wait_synced()
                await self.monitors.started.wait()
                self._log.info("Caches are synced", v=2, controller=self.name)
                for pool in self.pools:
                    group.start(pool.run(), name=pool.name)
                if self._sync_period <= 0:
                    self._log.info("periodic quota controller resync disabled")
                    await asyncio.get_running_loop().create_future()
                while True:
                    for key in self._quotas.snapshot():
                        self._queue.add(key)
                    await asyncio.sleep(self._sync_period)
        finally:
            self._queue.shut_down()
            self._urgent.shut_down()
            self._added_to.shut_down()
            self._log.info("Stopped controller", controller=self.name)

    # Event handlers

    def _update_quota(self, old: ResourceQuota, new: ResourceQuota) -> None:
        # Not for changes of the status, which is written here and by admission.
        if amounts(old.spec.hard) != amounts(new.spec.hard) or old.metadata.uid != new.metadata.uid:
            self._enqueue(new)

    def _enqueue_unknown_usage(self) -> None:
        # Limits of a resource that is counted only now: creating one is rejected until its usage is known.
        for key, quota in self._quotas.snapshot().items():
            if is_urgent(quota, self.monitors.evaluators()):
                self._urgent.add(key)

    def _delete_quota(self, quota: ResourceQuota, _unknown: bool) -> None:
        self._uncharged_until.pop(object_key(quota.metadata), None)

    def _enqueue(self, quota: ResourceQuota) -> None:
        queue = self._urgent if is_urgent(quota, self.monitors.evaluators()) else self._queue
        queue.add(object_key(quota.metadata))

    def _replenish(self, evaluator: Evaluator, namespace: str) -> None:
        for quota in self._quotas.list(namespace):
            if evaluator.matching(quota.status.hard):
                self._queue.add(object_key(quota.metadata))

    def _on_object_added(self, evaluator: Evaluator, namespace: str) -> None:
        # Admission has charged the object before it existed, unless its cache had no limits in the quota's status yet.
        # And a count between the two may have undone the charge. Only the next full sync would correct either.
        for quota in self._quotas.list(namespace):
            self._additions += 1
            key = object_key(quota.metadata)
            uncharged_until = self._uncharged_until.get(key)
            if (
                uncharged_until is not None
                and self._env.monotonic() < uncharged_until
                and evaluator.matching(quota.spec.hard)
            ):
                self._added_to.add_after(key, RAISE_DELAY_SECONDS)

    # Counting

    async def _sync(self, key: str) -> None:
        await self._sync_usage(key)

    async def _raise_usage(self, key: str) -> None:
        # A decrease would release the charges of other objects that were not observed yet.
        await self._sync_usage(key, only_raise=True)

    async def _sync_usage(self, key: str, *, only_raise: bool = False) -> None:
        await self.monitors.idle.wait()
        quota, raw = self._quotas.get(key), self._quotas.raw(key)
        if quota is None:
            return
        assert raw is not None, "the informer keeps quotas as they came"
        additions = self._additions
        counted, unread = await self._calculate_usage(quota)
        if only_raise:
            counted = raised(quota, counted)
        status = new_status(quota, counted)
        if status is not None:
            if may_miss_objects(quota, counted) and self._quotas.still_has(quota.metadata):
                self._uncharged_until[key] = self._env.monotonic() + UNCHARGED_SECONDS
                if self._additions != additions:
                    self._added_to.add_after(key, RAISE_DELAY_SECONDS)
            body = replace_fields(raw, {"status": msgspec.json.encode(status)})
            meta = quota.metadata
            record_decision(describe(quota, status))
            try:
                await self._client.update(RESOURCE_QUOTAS, meta.name, body, meta.namespace, subresource="status")
            except NotFound:
                return
            self._log.info("Updated quota usage", v=4, quota=key)
        if unread:
            raise RetryLater("; ".join(unread))

    async def _calculate_usage(self, quota: ResourceQuota) -> tuple[Amounts, list[str]]:
        """The usage, without resources that cannot be computed, and the errors."""
        if any(name.endswith(OF_DEVICE_CLASS) for name in quota.spec.hard):
            self.monitors.measure_claims()
        scopes = scopes_of(quota)
        total: Amounts = {}
        unread, unknown = [], set[str]()
        for counter in self.monitors.counters():
            names = counter.evaluator.matching(quota.spec.hard)
            if not names:
                continue
            try:
                add(total, await counter.count(quota.metadata.namespace, names, scopes))
            except CacheNotSynced as error:
                unread.append(str(error))
                unknown.update(names)
        return {name: amount for name, amount in total.items() if name not in unknown}, unread


build = ResourceQuotaController
