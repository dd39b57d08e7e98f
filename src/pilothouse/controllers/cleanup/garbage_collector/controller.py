"""Informers feed the graph (``monitors``, ``graph``), which fills two queues for the workers (``attempts``)."""

import asyncio
from collections.abc import Sequence

from pilothouse.api.core import ObjectReference
from pilothouse.controllers.cleanup.garbage_collector import DESCRIPTOR, GarbageCollectorOptions
from pilothouse.controllers.cleanup.garbage_collector.attempts import AbsentOwnerCache, ItemProcessor
from pilothouse.controllers.cleanup.garbage_collector.graph import (
    AttemptToDelete,
    AttemptToOrphan,
    CacheAbsentOwner,
    Graph,
    Instructions,
    ReportInvalidNamespace,
)
from pilothouse.controllers.cleanup.garbage_collector.live import Live, UnservedKind
from pilothouse.controllers.cleanup.garbage_collector.monitors import SYNC_SECONDS, Monitors
from pilothouse.controllers.cleanup.garbage_collector.waiting import WaitingKeys
from pilothouse.env import TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.periodic import repeat
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.controller import WorkerPool
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.workqueue import WorkQueue

with lazy_imports():
    from pilothouse.controllers.cleanup.garbage_collector import dump


class GarbageCollector:
    """One graph, two queues, two pools of workers. Create it on the running loop."""

    name = DESCRIPTOR.name

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(GarbageCollectorOptions)
        env, metrics, log = context.env, context.metrics, context.log
        self.graph = Graph()
        self._options = options
        self._log = log
        self._absent_owners = AbsentOwnerCache()
        self._env = env
        self._recorder = EventRecorder(context.client, env, DESCRIPTOR.name)
        self.monitors = Monitors(
            context.client,
            context.metadata_informers,
            context.informers,
            self.graph,
            apply=self._apply,
            ignored=options.ignored,
            on_discovery=self._on_discovery,
            metrics=metrics,
            env=env,
            log=log,
        )
        self._waiting = WaitingKeys(
            is_served=lambda api_version, kind: self.monitors.kind_of(api_version, kind) is not None,
            exists=lambda uid: self.graph.get(uid) is not None,
            request_discovery=self.monitors.request_sync,
            log=log,
        )
        self._processor = ItemProcessor(
            self.graph,
            self._absent_owners,
            Live(context.client, self.monitors.kind_of),
            apply=self._apply,
            cached=self.monitors.cached,
            log=log,
        )
        # Keys are uids. Event handlers change the graph immediately: with one thread upstream's third queue is not
        # needed.
        self._attempt_to_delete: WorkQueue[str] = WorkQueue(env, "garbage_collector_attempt_to_delete", metrics)
        self._attempt_to_orphan: WorkQueue[str] = WorkQueue(env, "garbage_collector_attempt_to_orphan", metrics)
        self._unverified: set[str] = set()  # queued only because no informer has the object yet; never iterated
        self.pools = [
            WorkerPool(
                f"{self.name}-{suffix}",
                queue,
                work,
                workers=options.concurrent_syncs,
                metrics=metrics,
                log=log,
                component=self.name,
            )
            for suffix, queue, work in (
                ("delete", self._attempt_to_delete, self._attempt_to_delete_worker),
                ("orphan", self._attempt_to_orphan, self._attempt_to_orphan_worker),
            )
        ]

    async def run(self) -> None:
        """Run until cancelled. Collection starts when the caches are synced, or after 30 s even if some are not."""
        if not self._options.enabled:
            self._log.info("The garbage collector is disabled", controller=self.name)
            return
        self._log.info("Starting controller", controller=self.name)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self._recorder.run(), name=f"{self.name}-events")
                group.start(self.monitors.run(), name=f"{self.name}-monitors")
                group.start(repeat(self._env, SYNC_SECONDS, self._waiting.prune), name=f"{self.name}-waiting")
                try:
                    async with asyncio.timeout(SYNC_SECONDS):
                        await self.monitors.ready.wait()
                except TimeoutError:
                    pass  # Objects that are not cached yet are read live.
                synced = self.monitors.is_synced
                self._log.info("Proceeding to collect garbage", controller=self.name, synced=synced)
                for pool in self.pools:
                    group.start(pool.run(), name=pool.name)
        finally:
            self._attempt_to_delete.shut_down()
            self._attempt_to_orphan.shut_down()
            self._log.info("Stopped controller", controller=self.name)

    def graph_as_dot(self, uids: Sequence[str] = ()) -> str:
        """The graph, or the part that is connected with these uids, for the debug endpoint."""
        return dump.to_dot(self.graph, uids)

    def _apply(self, instructions: Instructions) -> None:
        for instruction in instructions:
            match instruction:
                case AttemptToDelete(node, rate_limited):
                    if node.virtual:
                        self._unverified.add(node.uid)
                    else:
                        self._unverified.discard(node.uid)
                    if rate_limited:
                        self._attempt_to_delete.add_rate_limited(node.uid)
                    else:
                        self._attempt_to_delete.add(node.uid)
                case AttemptToOrphan(node):
                    self._attempt_to_orphan.add(node.uid)
                case CacheAbsentOwner(owner):
                    self._absent_owners.add(owner)
                case ReportInvalidNamespace():
                    self._record_invalid_namespace_event(instruction)

    def _record_invalid_namespace_event(self, report: ReportInvalidNamespace) -> None:
        dependent = report.dependent
        reference = ObjectReference(
            api_version=dependent.api_version,
            kind=dependent.kind,
            namespace=dependent.namespace,
            name=dependent.name,
            uid=dependent.uid,
        )
        self._recorder.event(reference, "Warning", "OwnerRefInvalidNamespace", report.message)

    def _on_discovery(self) -> None:
        self._waiting.release()

    async def _attempt_to_delete_worker(self, uid: str) -> None:
        node = self.graph.get(uid)
        unverified = uid in self._unverified
        self._unverified.discard(uid)
        if node is None or (unverified and not node.virtual):
            return  # It was deleted, or an informer has the object that was to be verified.
        succeeded = False
        try:
            await self._processor.attempt_to_delete_item(node)
            succeeded = True
        except UnservedKind as missing:
            self._waiting.add(missing, uid, self._attempt_to_delete)
        finally:
            current = self.graph.get(uid)
            if unverified and not succeeded and current is not None and current.virtual:
                # The retry verifies it again. One that an informer has by now is processed like any other node.
                self._unverified.add(uid)

    async def _attempt_to_orphan_worker(self, uid: str) -> None:
        owner = self.graph.get(uid)
        if owner is not None:
            try:
                await self._processor.attempt_to_orphan(owner)
            except UnservedKind as missing:
                self._waiting.add(missing, uid, self._attempt_to_orphan)


build = GarbageCollector
