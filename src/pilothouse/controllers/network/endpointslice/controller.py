"""The event handlers, and the sync of a Service. Upstream: v1.36
``pkg/controller/endpointslice/endpointslice_controller.go`` and ``staging/src/k8s.io/endpointslice/reconciler.go``."""

from collections.abc import Iterator, Mapping, Sequence

from pilothouse.api.core import NODES, PODS, SERVICES, Node, Pod, Service
from pilothouse.api.discovery import PARTIAL_ENDPOINT_SLICES, EndpointSlice
from pilothouse.client.errors import ApiError
from pilothouse.controllers.network.endpointslice import DESCRIPTOR, EndpointSliceOptions
from pilothouse.controllers.network.endpointslice.decide import MANAGER, Plan, decide, recycle_slices
from pilothouse.controllers.network.endpointslice.desired import Desired, desired_endpoints
from pilothouse.controllers.network.endpointslice.hints import (
    DISTRIBUTIONS,
    add_hints,
    allocate,
    is_topology_enabled,
    ready_count,
    reconcile_by_distribution,
    without_hints,
)
from pilothouse.controllers.network.endpointslice.metrics import Metrics
from pilothouse.controllers.network.endpointslice.topology_cache import TopologyCache, node_change_matters
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.own_slices import OwnSlices
from pilothouse.controllers.shared.service_pods import ServicePods
from pilothouse.controllers.shared.slice_tracker import SliceTracker, StaleSlices
from pilothouse.controllers.shared.slice_writes import NotWritten, SliceWrites, changed_body, new_body, triggered
from pilothouse.controllers.shared.trigger_time_tracker import TriggerTimeTracker
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import (
    BucketLimiter,
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    MaxOfLimiter,
    Requeue,
    WorkerPool,
    WorkQueue,
    object_key,
    object_reference,
)
from pilothouse.runtime.controller import COALESCING_TURNS
from pilothouse.semantics.services import address_types, is_selecting

SLICE_DELAY_SECONDS = 1.0
"""The minimum delay of a sync after a foreign change of its slices (``endpointSliceChangeMinSyncDelay``)."""

_TOPOLOGY = "nodes"


class ReconcileError(Exception):
    """Some slices of a service could not be written. Retried with backoff."""


class EndpointSliceController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(EndpointSliceOptions)
        services = context.informer(SERVICES)
        pods = context.informer(PODS)
        nodes = context.informer(NODES)
        slices = context.informer(PARTIAL_ENDPOINT_SLICES)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.workers,
            limiter=MaxOfLimiter[str](ExponentialFailureLimiter(1.0, 1000.0), BucketLimiter(context.env, 10.0, 100)),
            queue_name="endpoint_slice",
            turns=COALESCING_TURNS,
        )
        self._options = options
        self._services = services.cache
        self._nodes = nodes.cache
        self._recorder = EventRecorder(context.client, context.env, "endpoint-slice-controller")
        self.add_runnable("events", self._recorder.run)
        self._tracker = SliceTracker(lambda: slices.read_version)
        self._times = TriggerTimeTracker()
        self._topology = TopologyCache()
        self._metrics = Metrics(context.metrics, options.max_endpoints)
        self._writes = SliceWrites(context.client, self._tracker, self._metrics.changes)
        # Each of its syncs iterates over all nodes, as upstream's.
        self._node_queue: WorkQueue[str] = WorkQueue(
            context.env, "endpoint_slice_topology", context.metrics, turns=COALESCING_TURNS
        )
        node_pool = WorkerPool(
            f"{DESCRIPTOR.name}-topology", self._node_queue, self._sync_nodes, metrics=context.metrics, log=self.log
        )
        self.add_worker_pool(node_pool)
        on_any_event(services, lambda service: self.queue.add(object_key(service.metadata)))
        self._pods = ServicePods(services, pods, lambda key: self.queue.add_after(key, options.batch_seconds))
        delay = max(SLICE_DELAY_SECONDS, options.batch_seconds)
        self._own = OwnSlices(slices, MANAGER, self._tracker, lambda key: self.queue.add_after(key, delay))
        nodes.add_handler(
            lambda _node, _initial: self._node_queue.add(_TOPOLOGY),
            self._update_node,
            lambda _node, _unknown: self._node_queue.add(_TOPOLOGY),
        )

    # Event handlers

    def _update_node(self, old: Node, new: Node) -> None:
        if node_change_matters(old, new):
            self._node_queue.add(_TOPOLOGY)

    async def _sync_nodes(self, _key: str) -> Requeue | None:
        self._topology.set_nodes(self._nodes.list())
        for key in self._topology.get_overloaded_services():
            self.log.info("Queuing Service after Node change due to overloading", service=key)
            self.queue.add(key)
        return None

    # One sync

    async def reconcile(self, key: str) -> Requeue | None:
        try:
            await self._sync_service(key)
        except StaleSlices:
            self._metrics.syncs.labels("stale").inc()
            raise
        except Exception:
            self._metrics.syncs.labels("error").inc()
            raise
        self._metrics.syncs.labels("success").inc()
        return None

    async def _sync_service(self, key: str) -> None:
        service = self._services.get(key)
        if service is None:
            self._times.forget(key)
            self._tracker.forget(key)
            self._topology.delete_service(key)
            self._metrics.delete_service(key)
            return  # its slices are the garbage collector's
        if not is_selecting(service):
            return
        pods = self._pods.selected_by(service)
        owned = self._own.of(key)
        current = [endpoint_slice for endpoint_slice in owned if endpoint_slice.metadata.deletion_timestamp is None]
        for endpoint_slice in owned:
            if endpoint_slice.metadata.deletion_timestamp is not None:
                # It is being deleted. Upstream waits until its last finalizer is removed.
                self._tracker.deleted(key, endpoint_slice)
        self._tracker.check(key, current)
        # The JSON of the slices that this sync has read: with a newer version the write would not conflict, and would
        # undo a change.
        slices: list[EndpointSlice] = []
        raws: dict[str, bytes] = {}
        for endpoint_slice in current:
            whole, raws[endpoint_slice.metadata.name] = self._own.with_endpoints(endpoint_slice)
            slices.append(whole)
        trigger_time = self._times.of(key, service, pods)
        wanted_types = address_types(service)
        errors: list[str] = []
        for address_type in wanted_types:
            existing = [endpoint_slice for endpoint_slice in slices if endpoint_slice.address_type == address_type]
            errors += await self._reconcile_by_address_type(
                key, service, pods, existing, raws, address_type, trigger_time
            )
        for endpoint_slice in slices:
            if endpoint_slice.address_type not in wanted_types:
                self._topology.remove_hints(key, endpoint_slice.address_type)
                record_decision(
                    f"Service {key} no longer has the address type {endpoint_slice.address_type}: its slice is deleted"
                )
                try:
                    await self._writes.delete(key, endpoint_slice)
                except (ApiError, OSError) as error:
                    name = f"{endpoint_slice.metadata.name} EndpointSlice for Service {key}"
                    errors.append(f"error deleting {name}: {error}")
        if errors:
            different = list(dict.fromkeys(errors))  # both families may have the same error (``aggregate.Error``)
            error_text = different[0] if len(different) == 1 else f"[{', '.join(different)}]"
            message = f"Error updating Endpoint Slices for Service {key}: {error_text}"
            reference = object_reference(SERVICES, service.metadata)
            self._recorder.event(reference, "Warning", "FailedToUpdateEndpointSlices", message)
            raise ReconcileError(message)

    async def _reconcile_by_address_type(
        self,
        key: str,
        service: Service,
        pods: Sequence[Pod],
        existing: Sequence[EndpointSlice],
        raws: Mapping[str, bytes],
        address_type: str,
        trigger_time: str,
    ) -> list[str]:
        """One address family; returns the errors."""
        desired = desired_endpoints(service, pods, address_type, self._nodes.get)
        plan = decide(service, existing, desired, address_type, self._options.max_endpoints)
        self._update_metrics(key, address_type, plan, desired, len(existing))
        errors = [
            f"skipping Pod {pod.metadata.name} for Service {key}: Node {pod.spec.node_name} Not Found"
            for pod in desired.without_node
        ]
        plan, events = self._with_hints(key, service, plan, address_type)
        plan = recycle_slices(plan, service)
        try:
            trigger = f"{len(pods)} pods match the selector of Service {key}; +{plan.added} -{plan.removed} endpoints"
            await self._write_plan(key, service, plan, raws, trigger_time, trigger)
        except NotWritten as failed:
            errors.append(f"failed to {failed.operation} for Service {key}: {failed.error}")
        reference = object_reference(SERVICES, service.metadata)
        for kind, reason, message in events:
            self._recorder.event(reference, kind, reason, f"{message}, addressType: {address_type}")
        return errors

    def _with_hints(
        self, key: str, service: Service, plan: Plan, address_type: str
    ) -> tuple[Plan, list[tuple[str, str, str]]]:
        """The plan with hints, after recording the events about them."""
        topology, annotations = self._topology, service.metadata.annotations
        if is_topology_enabled(annotations):
            self._metrics.is_distributed(key, "")
            allocations = allocate(topology.ratios, ready_count(plan))
            hints = allocations if isinstance(allocations, str) else add_hints(plan, allocations)
            if isinstance(hints, str):
                topology.remove_hints(key, address_type)
                return without_hints(plan), [("Warning", "TopologyAwareHintsDisabled", hints)]
            hinted, hinted_endpoints = hints
            enabled = ("Normal", "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled")
            events = [] if topology.has_hints(key) else [enabled]
            topology.set_hints(key, address_type, hinted_endpoints)
            return hinted, events
        events = []
        if topology.has_hints(key):
            events.append(("Warning", "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled"))
        topology.remove_hints(key, address_type)
        distribution = service.spec.traffic_distribution
        self._metrics.is_distributed(key, distribution)
        if distribution in DISTRIBUTIONS:
            return reconcile_by_distribution(plan, distribution), events
        return without_hints(plan), events

    async def _write_plan(
        self, key: str, service: Service, plan: Plan, raws: Mapping[str, bytes], trigger_time: str, reason: str
    ) -> None:
        creates = plan.creates if service.metadata.deletion_timestamp is None else ()
        applied = await self._writes.apply(
            key,
            (triggered(endpoint_slice, trigger_time) for endpoint_slice in creates),
            _updates(plan, raws, trigger_time),
            plan.deletes,
            reason=reason,
        )
        if not applied:
            return
        topology = "Auto" if is_topology_enabled(service.metadata.annotations) else "Disabled"
        distribution = service.spec.traffic_distribution
        if topology == "Auto" or distribution not in DISTRIBUTIONS:
            distribution = ""
        number = len(plan.creates) + len(plan.updates) + len(plan.replacements) + len(plan.deletes)
        self._metrics.changed_per_sync.labels(topology, distribution).observe(number)

    def _update_metrics(self, key: str, address_type: str, plan: Plan, desired: Desired, existing: int) -> None:
        self._metrics.added.observe(plan.added)
        self._metrics.removed.observe(plan.removed)
        groups = [len(group.endpoints) for group in desired.groups.values()]
        self._metrics.has_slices(key, address_type, groups, existing + len(plan.creates) - len(plan.deletes))


def _updates(plan: Plan, raws: Mapping[str, bytes], trigger_time: str) -> Iterator[tuple[EndpointSlice, bytes]]:
    """The slices to update, with their bodies."""
    for endpoint_slice in plan.updates:
        changed = triggered(endpoint_slice, trigger_time)
        yield changed, changed_body(raws[endpoint_slice.metadata.name], changed)
    for endpoint_slice in plan.replacements:
        changed = triggered(endpoint_slice, trigger_time)
        yield changed, new_body(changed)


build = EndpointSliceController
