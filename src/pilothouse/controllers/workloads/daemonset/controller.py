"""The wiring: observe → decide → apply → report. ``node_to_daemon_pods`` holds the results of the pure decisions of
``manage``, ``rolling`` and ``status``. Upstream: ``syncDaemonSet`` and below, v1.36
``pkg/controller/daemon/daemon_controller.go``.
"""

from collections.abc import Container, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, DAEMON_SETS, ControllerRevision, DaemonSet, DaemonSetStatus
from pilothouse.api.core import NODES, PODS, ObjectReference, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta
from pilothouse.client.errors import ApiError, has_cause
from pilothouse.controllers.shared.history import History
from pilothouse.controllers.shared.owner_gate import OwnerGate, ReplacedOwner
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.blueprint import Blueprint, Blueprints
from pilothouse.controllers.workloads.daemonset.manage import NodeChanges, pods_should_be_on_node
from pilothouse.controllers.workloads.daemonset.node_events import NodeEvents, daemon_key
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import DaemonPods, NodeToDaemonPods
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.controllers.workloads.daemonset.placement import rejection_reason
from pilothouse.controllers.workloads.daemonset.pod_events import DaemonEvents
from pilothouse.controllers.workloads.daemonset.pod_template import PinnedTemplate, template_generation
from pilothouse.controllers.workloads.daemonset.revisions import DaemonHistory
from pilothouse.controllers.workloads.daemonset.rolling import allows_surge, bounds_of, plan
from pilothouse.controllers.workloads.daemonset.status import encode, next_status
from pilothouse.env.periodic import repeat
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.int_or_percent import InvalidBound
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import controller_of, new_controller_reference
from pilothouse.machinery.splice import take_field
from pilothouse.runtime import (
    Backoff,
    Claims,
    ControllerContext,
    EventRecorder,
    ManagedController,
    PodControl,
    Requeue,
    TerminalError,
    WorkerPool,
    WorkQueue,
    index_by_controller,
    object_key,
    object_reference,
    run_all,
    slow_start,
)
from pilothouse.runtime.batches import INITIAL_BATCH, Futile
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.runtime.events import NORMAL, WARNING

FAILED_POD_BACKOFF_SECONDS = 1.0
FAILED_POD_BACKOFF_MAX_SECONDS = 900.0
BACKOFF_COLLECTION_SECONDS = 60.0


_LIST_SECONDS = 0.05
"""When to sync again while an informer delivers a new list of nodes or pods, which takes milliseconds."""


class PodWriteErrors(Exception):
    """Some pods could not be created or deleted."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        # apimachinery's Aggregate prints one error as itself and several in brackets, each text once.
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self.errors = tuple(errors)


class ConstructHistoryFailed(Exception):
    """The revisions could not be brought in order."""


class _SyncContext(msgspec.Struct):
    key: str
    owner: DaemonSet
    raw: bytes
    blueprint: Blueprint
    selector: Selector
    node_pods: NodeToDaemonPods
    rules: Rules = Rules(revision_hash="")

    @property
    def about(self) -> ObjectReference:
        return object_reference(DAEMON_SETS, self.owner.metadata)

    @property
    def meta(self) -> ObjectMeta:
        return self.owner.metadata

    @property
    def template(self) -> PinnedTemplate:
        return self.blueprint.pinned_template(self.rules.revision_hash, self.rules.generation)


class DaemonSetController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(DaemonSetOptions)
        owners = context.informer(DAEMON_SETS)
        revisions = context.informer(CONTROLLER_REVISIONS, indexes={CONTROLLER_INDEX: index_by_controller})
        pods = context.informer(PODS, indexes={CONTROLLER_INDEX: index_by_controller})
        nodes = context.informer(NODES)
        name = "daemonset-controller"
        super().__init__(context, name, workers=options.workers, queue_name="daemonset")
        self._options = options
        self._client = context.client
        self._owners = owners.cache
        self._pods = pods.cache
        self._recorder = EventRecorder(context.client, context.env, name)
        self.add_runnable("events", self._recorder.run)
        self._pod_control = PodControl(context.client, self._recorder)
        self._blueprints = Blueprints(self.log, comparison_operators=options.comparison_operators)
        self._gate = OwnerGate(
            context,
            DAEMON_SETS,
            owners,
            pods,
            read=(pods, owners, revisions),
            prefix="daemonset",
            wait_for_own_writes=options.wait_for_own_writes,
            selector_of=lambda owner: self._blueprints.of(owner).selector,
            on_deleted=lambda key: self.events.ending.forget(key),
        )
        self._expectations, self._writes = self._gate.expectations, self._gate.writes
        self._backoff = Backoff(context.env, FAILED_POD_BACKOFF_SECONDS, FAILED_POD_BACKOFF_MAX_SECONDS)
        self._nodes = NodeTable()
        self._kept_from = (pods, nodes)
        self._daemon_pods = DaemonPods()
        self._history = DaemonHistory(
            context.client,
            History(context.client, revisions.cache),
            self._pod_control,
            self.log,
            on_write=self._record_write,
        )
        self.node_queue: WorkQueue[str] = WorkQueue(context.env, "daemonset-node-updates", context.metrics)
        self.node_events = NodeEvents(
            owners=self._owners,
            nodes=self._nodes,
            daemon_pods=self._daemon_pods,
            blueprints=self._blueprints,
            changed=self.node_queue,
            queue=self.queue,
        )
        node_pool = WorkerPool(
            f"{name}-nodes",
            self.node_queue,
            self.node_events.sync_node,
            workers=options.workers,
            metrics=context.metrics,
            log=self.log,
        )
        self.add_worker_pool(node_pool)
        self.add_runnable("backoff", lambda: repeat(context.env, BACKOFF_COLLECTION_SECONDS, self._backoff.collect))
        self.events = DaemonEvents(
            self._gate, self.queue, self.log, daemon_pods=self._daemon_pods, blueprints=self._blueprints
        )
        owners.add_handler(self.events.add_owner, self.events.update_owner, self.events.delete_owner)
        revisions.add_handler(self.events.add_history, self.events.update_history, self.events.delete_history)
        pods.add_handler(self.events.add_pod, self.events.update_pod, self.events.delete_pod)
        nodes.add_handler(self.node_events.add_node, self.node_events.update_node, self.node_events.delete_node)

    async def reconcile(self, key: str) -> Requeue | None:
        if any(informer.replacing for informer in self._kept_from):
            return Requeue(_LIST_SECONDS)  # the derived state of nodes and pods is older than the cache
        snapshot = await self._gate.enter(key)
        if snapshot is None:
            return None
        owner = snapshot.owner
        if owner.spec.selector == LabelSelector():
            self._recorder.event(
                object_reference(DAEMON_SETS, owner.metadata),
                WARNING,
                "SelectingAll",
                "This daemon set is selecting all pods. A non-empty selector is required.",
            )
            return None
        if owner.metadata.deletion_timestamp is not None:
            return None
        blueprint = self._blueprints.of(owner)
        if blueprint.selector is None:
            raise TerminalError(f"the selector of DaemonSet {key} makes no sense")
        node_pods = self._daemon_pods.of(daemon_key(owner.metadata))
        return await self._sync_daemon_set(
            _SyncContext(key, owner, snapshot.raw, blueprint, blueprint.selector, node_pods)
        )

    async def _sync_daemon_set(self, sync: _SyncContext) -> Requeue | None:
        current, old = await self._construct_history(sync)
        sync.rules = Rules(
            revision_hash=current.metadata.labels.get("controller-revision-hash", ""),
            generation=template_generation(sync.meta.annotations),
            surges=allows_surge(sync.owner.spec.update_strategy),
            min_ready_seconds=sync.owner.spec.min_ready_seconds,
        )
        self._observe(sync)
        await self._claim_pods(sync)
        if not self._owners.still_has(sync.meta):
            # It was deleted in the meantime. If another one has its name, expectations set now would never be observed.
            # The event enqueues the key.
            return None
        if not self._expectations.satisfied(sync.key):
            return await self._update_daemon_set_status(sync, observed=False)
        try:
            await self._update_daemon_set(sync, old)
        except (PodWriteErrors, ConstructHistoryFailed, InvalidBound):
            try:
                await self._update_daemon_set_status(sync, observed=True)
            except (ApiError, OSError, ReplacedOwner) as error:
                # The first failure is returned; this one is only logged.
                self.log.warning("Failed to update status of daemon set", key=sync.key, problem=str(error))
            raise
        return await self._update_daemon_set_status(sync, observed=True)

    # Observe

    def _observe(self, sync: _SyncContext) -> None:
        sync.node_pods.sync(sync.rules, sync.selector, sync.blueprint.placements, self._nodes, self.env.now())

    async def _construct_history(self, sync: _SyncContext) -> tuple[ControllerRevision, list[ControllerRevision]]:
        async def pods() -> list[Pod]:
            # Placement is not computed here; only the pods that belong to the DaemonSet matter.
            self._observe(sync)
            await self._claim_pods(sync)
            return sync.node_pods.pods()

        try:
            return await self._history.construct_history(
                sync.owner, sync.blueprint, sync.selector, read_live=lambda: self._read_live(sync), pods=pods
            )
        except (ApiError, OSError) as error:
            raise ConstructHistoryFailed(f"failed to construct revisions of DaemonSet: {error}") from error

    async def _claim_pods(self, sync: _SyncContext) -> None:
        """Adopt matching pods without controller and release own ones that no longer match, until there are no more:
        pods that appear during the requests must be claimed before others are created in their place."""
        claims: Claims[Pod] | None = None
        processed: dict[str, None] = {}
        while candidates := self._pods_to_claim(sync, processed):
            processed.update((object_key(pod.metadata), None) for pod in candidates)
            claims = claims or self._gate.pod_claims(sync.key, sync.meta, sync.selector)
            for pod in await claims.claim(candidates):
                self._add_adopted_pod(sync, pod)
            self._observe(sync)

    def _pods_to_claim(self, sync: _SyncContext, processed: Container[str]) -> list[Pod]:
        matches = sync.selector.matches
        orphans = self._pods.by_index(CONTROLLER_INDEX, sync.meta.namespace)
        candidates = [pod for pod in orphans if matches(pod.metadata.labels)] + sync.node_pods.non_matching_pods()
        return [pod for pod in candidates if object_key(pod.metadata) not in processed]

    def _add_adopted_pod(self, sync: _SyncContext, pod: Pod) -> None:
        """Count an adopted pod immediately, so that its node gets no second one; the event of the adoption will repeat
        this. A pod that was deleted or adopted by another owner in the meantime is not counted, because no event would
        remove it."""
        cached = self._pods.get(object_key(pod.metadata))
        if cached is None or cached.metadata.uid != pod.metadata.uid or controller_of(cached.metadata) is not None:
            return
        self._daemon_pods.put(pod, daemon_key(sync.meta))

    async def _read_live(self, sync: _SyncContext) -> ObjectMeta:
        return await self._writes.read_owner(DAEMON_SETS, sync.key, sync.meta)

    # Decide and apply

    async def _update_daemon_set(self, sync: _SyncContext, old: list[ControllerRevision]) -> None:
        await self._manage(sync)
        strategy = sync.owner.spec.update_strategy
        if self._expectations.satisfied(sync.key) and strategy.type == "RollingUpdate":
            self._observe(sync)
            await self._rolling_update(sync)
        try:
            await self._history.cleanup_history(sync.owner, old, sync.node_pods.pods)
        except (ApiError, OSError) as error:
            raise ConstructHistoryFailed(f"failed to clean up revisions of DaemonSet: {error}") from error

    async def _manage(self, sync: _SyncContext) -> None:
        """Create missing pods and delete surplus ones."""
        creates: dict[str, str] = {}
        deletes: dict[str, str] = {}
        now, burst = self.env.now(), self._options.burst
        # On a new DaemonSet all nodes lack a pod, and most of them in many syncs.
        for node_pods in sync.node_pods.nodes_with_changes(
            sync.blueprint.placements, self._nodes, creates_enough=lambda: len(creates) >= burst
        ):
            backoff_key = f"{sync.meta.uid}/{sync.owner.status.observed_generation}/{node_pods.node}"
            need = pods_should_be_on_node(
                node_pods, sync.rules, now, in_backoff=self._backoff.is_in_backoff(backoff_key)
            )
            if need.create:
                creates[node_pods.node] = f"node {node_pods.node} should run a daemon pod and has none"
            if need.failed:
                self._backoff.next(backoff_key)
                failed = f"Found failed daemon pod {sync.meta.namespace}/{need.failed} on node {node_pods.node}"
                self._recorder.event(sync.about, WARNING, "FailedDaemonPod", f"{failed}, will try to kill it")
            for name in need.succeeded:
                succeeded = f"Found succeeded daemon pod {sync.meta.namespace}/{name} on node {node_pods.node}"
                self._recorder.event(sync.about, NORMAL, "SucceededDaemonPod", f"{succeeded}, will try to delete it")
            if need.waits:
                self.queue.add_after(sync.key, self._backoff.get(backoff_key))
            for name in need.delete:
                deletes[name] = self._reason(sync, node_pods, need, name)
        await self._sync_nodes(sync, creates, deletes)

    def _reason(self, sync: _SyncContext, node_pods: NodePods, need: NodeChanges, name: str) -> str:
        if name == need.failed:
            return f"{name} has failed on node {node_pods.node}: deleted to be created again, with back-off"
        if name in need.succeeded:
            return f"{name} has succeeded on node {node_pods.node}: deleted to be created again"
        node = self._nodes.get(node_pods.node)
        if not node_pods.exists or node is None:
            return f"{name} is not bound, and its node {node_pods.node} does not exist"
        if not node_pods.should_continue:
            return f"{name} is deleted: {rejection_reason(sync.blueprint.placements.requirements, node)}"
        return f"{name} is deleted: node {node_pods.node} has {len(node_pods.pods)} daemon pods, too many"

    async def _rolling_update(self, sync: _SyncContext) -> None:
        counts = sync.node_pods.counts
        bounds = bounds_of(sync.owner.spec.update_strategy, counts.desired)
        now = plan(counts, sync.node_pods.moves, bounds, surging=sync.rules.surges)
        template = f"rolling update to the template of hash {sync.rules.revision_hash}"
        numbers = (
            f"maxUnavailable {bounds.unavailable}, maxSurge {bounds.surge}; of {counts.desired} nodes "
            f"{counts.unavailable} "
            f"are without an available pod"
        )
        await self._sync_nodes(
            sync,
            {node: f"{template}: node {node} gets a new pod beside its old one; {numbers}" for node in now.create},
            {name: f"{template}: {name} has an older one and is deleted; {numbers}" for name in now.delete},
        )

    async def _sync_nodes(self, sync: _SyncContext, creates: Mapping[str, str], deletes: Mapping[str, str]) -> None:
        """Create and delete pods, each up to the limit of a sync; the next sync continues. ``creates`` are nodes,
        ``deletes`` pods, both with the reason."""
        burst = self._options.burst
        creates, deletes = dict(islice(creates.items(), burst)), dict(islice(deletes.items(), burst))
        # Also when both are 0: this replaces earlier expectations, as upstream.
        to_delete = [f"{sync.meta.namespace}/{name}" for name in deletes]
        self._expectations.expect(sync.key, len(creates), to_delete)
        errors = await self._create_pods(sync, creates) if creates else []
        errors += await self._delete_pods(sync, deletes) if deletes else []
        if errors:
            raise PodWriteErrors(errors)

    async def _create_pods(self, sync: _SyncContext, reasons: Mapping[str, str]) -> list[Exception]:
        nodes = list(reasons)
        reference = new_controller_reference(sync.meta, DAEMON_SETS)
        template = sync.template
        errors: list[Exception] = []
        attempted = 0

        async def create(index: int) -> None:
            nonlocal attempted
            attempted += 1
            body = template.for_node(nodes[index])
            record_decision(reasons[nodes[index]])
            namespace_terminating = False
            try:
                pod = await self._pod_control.create_pod(sync.meta.namespace, body, sync.about, reference)
                namespace_terminating = True
            except (ApiError, OSError) as error:
                self._writes.failed(sync.key, error)
                # The expectation stays, and delays the DaemonSet while its namespace is deleted.
                namespace_terminating = has_cause(error, "NamespaceTerminating")
                if namespace_terminating:
                    self.events.namespace_terminating(sync.meta)
                    raise Futile from error
                errors.append(error)
                raise
            finally:
                if not namespace_terminating:
                    self._expectations.creation_observed(sync.key)
            self._writes.created(sync.key, sync.meta.uid, pod.metadata)

        _created, first = await slow_start(len(nodes), INITIAL_BATCH, create)
        if first is not None and first not in errors:
            raise first  # not an API error: a broken invariant
        skipped = len(nodes) - attempted
        if skipped and first is not None:
            self.log.info("Slow-start failure. Skipping creation of pods", v=2, skipped=skipped, key=sync.key)
            self._expectations.lower(sync.key, skipped, 0)
        return errors

    async def _delete_pods(self, sync: _SyncContext, reasons: Mapping[str, str]) -> list[Exception]:
        namespace, owner_reference = sync.meta.namespace, sync.about

        async def delete(name: str, reason: str) -> None:
            record_decision(reason)
            await self._gate.delete_pod(self._pod_control, sync.key, f"{namespace}/{name}", owner_reference)

        errors = await run_all([delete(name, reason) for name, reason in reasons.items()])
        return [error for error in errors if error is not None]

    # Report

    async def _update_daemon_set_status(self, sync: _SyncContext, *, observed: bool) -> Requeue | None:
        """Write the status if it changed: based on the cached object, and after a conflict on the live one."""
        self._observe(sync)
        counts = sync.node_pods.status_counts
        status = next_status(sync.owner, counts, observed=observed)
        if status is not None:
            record_decision(
                f"status: {status.desired_number_scheduled} nodes should run a pod; {status.current_number_scheduled} "
                "do, "
                f"{status.number_ready} ready, {status.updated_number_scheduled} updated, {status.number_misscheduled} "
                "nodes run one and should not"
            )
            try:
                await self._put_status(sync, sync.raw, status)
            except (ApiError, OSError):
                live = await self._gate.read_for_status(sync.key, sync.meta)
                if live is None:
                    raise
                await self._put_status(sync, live, status)
        seconds = sync.owner.spec.min_ready_seconds
        waits = [float(seconds)] if seconds > 0 and counts.ready != counts.available else []
        expectations_expire_in = self._expectations.expires_in(sync.key)
        if expectations_expire_in is not None:
            waits.append(expectations_expire_in)
        return Requeue(min(waits)) if waits else None

    async def _put_status(self, sync: _SyncContext, raw: bytes, status: DaemonSetStatus) -> None:
        await self._gate.put_status(sync.key, sync.meta, raw, encode(status, take_field(raw, "status")))

    def _record_write(self, owner: DaemonSet, kind: Kind[Any], version: str) -> None:
        meta = owner.metadata
        self._writes.wrote_at(f"{meta.namespace}/{meta.name}", meta.uid, kind.group_resource, version)


build = DaemonSetController
