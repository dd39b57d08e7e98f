"""The event handlers, and the requests to the cloud provider and the API server."""

from collections.abc import Mapping, Sequence

from pilothouse.api.core import NODES, SERVICES, LoadBalancerStatus, Node, Service
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.cloud.service_lb import DESCRIPTOR, ServiceLBOptions
from pilothouse.controllers.cloud.service_lb.decide import (
    FINALIZER,
    affects_load_balancers,
    eligible_nodes,
    has_finalizer,
    ingress_of,
    load_balanced_node_names,
    needs_cleanup,
    needs_update,
    nodes_sufficiently_equal,
    wants_load_balancer,
)
from pilothouse.controllers.shared.cloud import DisabledController, ImplementedElsewhere, LoadBalancers, TryAgainAfter
from pilothouse.controllers.shared.cloud_providers import the_provider
from pilothouse.controllers.shared.live_nodes import is_about
from pilothouse.controllers.shared.parallel import each
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    Requeue,
    RetryLater,
    RunnableController,
    WorkerPool,
    WorkQueue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING

COMPONENT = "service-controller"
RETRY_SECONDS = 5.0, 300.0
RESYNC_SECONDS = 30.0
"""The resync, for Services whose load balancer is being cleaned up."""


def build(context: ControllerContext) -> RunnableController:
    provider = the_provider(context.options_as(ServiceLBOptions).provider, context.env)
    if provider.load_balancers is None:
        return DisabledController(DESCRIPTOR.name, context.log, f"cloud provider {provider.name} has no load balancers")
    return ServiceLBController(context, provider.load_balancers)


class LoadBalancerError(Exception):
    """A load balancer operation failed; the text is upstream's."""


class ServiceLBController(ManagedController):
    def __init__(self, context: ControllerContext, balancers: LoadBalancers) -> None:
        options = context.options_as(ServiceLBOptions)
        services, nodes = context.informer(SERVICES), context.informer(NODES)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.workers,
            limiter=ExponentialFailureLimiter[str](*RETRY_SECONDS),
            queue_name="service",
        )
        self._client = context.client
        self._cluster, self._workers = options.cluster_name, options.workers
        self._balancers = balancers
        self._services, self._nodes = services.cache, nodes.cache
        self._service_cache: dict[str, Service] = {}
        """Services that may have a load balancer, as of their last sync."""
        self._last_synced_nodes: dict[str, list[Node]] = {}
        """The nodes that a Service's load balancer was last updated with."""
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        self._node_queue: WorkQueue[str] = WorkQueue(context.env, "node", context.metrics)
        self.add_worker_pool(
            WorkerPool(f"{self.name}-nodes", self._node_queue, self._sync_nodes, metrics=context.metrics, log=self.log)
        )
        self._metrics = Metrics(context)
        services.add_handler(
            lambda service, _initial: self._add_service(service),
            self._update_service,
            lambda service, _unknown: self._delete_service(service),
            resync_seconds=RESYNC_SECONDS,
        )
        nodes.add_handler(
            lambda node, _initial: self._node_queue.add(node.metadata.name),
            self._update_node,
            lambda node, _unknown: self._node_queue.add(node.metadata.name),
        )

    # Event handlers

    def _add_service(self, service: Service) -> None:
        # A crashed process may have left a load balancer.
        if wants_load_balancer(service) or needs_cleanup(service):
            self.queue.add(object_key(service.metadata))

    def _update_service(self, old: Service, new: Service) -> None:
        if needs_update(old, new) or needs_cleanup(new):
            self.queue.add(object_key(new.metadata))

    def _delete_service(self, service: Service) -> None:
        # Its finalizer was removed by a user.
        key = object_key(service.metadata)
        if key in self._service_cache or wants_load_balancer(service):
            self.queue.add(key)

    def _update_node(self, old: Node, new: Node) -> None:
        if affects_load_balancers(old, new):
            self._node_queue.add(new.metadata.name)

    # Services

    async def reconcile(self, key: str) -> Requeue | None:
        service = self._services.get(key)
        cached = self._service_cache.get(key)
        if cached is not None and (service is None or cached.metadata.uid != service.metadata.uid):
            # It was deleted without cleanup: only the remembered object shows that it had a load balancer.
            await self._process_service_deletion(cached)
            self._forget(key)
        if service is None:
            return None
        self._service_cache[key] = service
        try:
            if wants_load_balancer(service) and not needs_cleanup(service):
                await self._ensure_load_balancer(key, service)
            else:
                await self._delete_load_balancer(key, service)
        except RetryLater:
            raise
        except Exception as error:
            self._record_event(service, WARNING, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")
            cause = error.__cause__ if isinstance(error, LoadBalancerError) else error
            if isinstance(cause, TryAgainAfter):
                self.log.warning("Load balancer is not ready", key=key, seconds=cause.seconds, error=error)
                return Requeue(cause.seconds)
            raise
        return None

    def _forget(self, key: str) -> None:
        self._service_cache.pop(key, None)
        self._last_synced_nodes.pop(key, None)

    async def _process_service_deletion(self, service: Service) -> None:
        if not wants_load_balancer(service):
            return
        self._record_event(service, NORMAL, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self._balancers.delete(self._cluster, service)
        except Exception as error:
            self._record_event(service, WARNING, "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}")
            raise LoadBalancerError(f"deleting the load balancer: {error}") from error
        self._record_event(service, NORMAL, "DeletedLoadBalancer", "Deleted load balancer")

    async def _delete_load_balancer(self, key: str, service: Service) -> None:
        """Delete the load balancer, then remove the finalizer."""
        try:
            exists = await self._balancers.get(self._cluster, service) is not None
        except Exception as error:
            raise LoadBalancerError(f"failed to check if load balancer exists before cleanup: {error}") from error
        if exists:
            self._record_event(service, NORMAL, "DeletingLoadBalancer", "Deleting load balancer")
            try:
                await self._balancers.delete(self._cluster, service)
            except ImplementedElsewhere:
                self.log.info("Load balancer belongs to another cluster or Service", v=4, key=key)
            except Exception as error:
                raise LoadBalancerError(f"failed to delete load balancer: {error}") from error
        if has_finalizer(service):
            reason = (
                "is being deleted" if service.metadata.deletion_timestamp else "does not need a load balancer any more"
            )
            record_decision(f"Service {key} {reason}, and its load balancer is deleted: its finalizer is removed")
            body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER], "uid": service.metadata.uid}}
            try:
                await self._patch(service, body)
            except NotFound:
                self._forget(key)
                return
            except Conflict as error:
                raise RetryLater(str(error)) from error  # another Service of its name by now
        self._record_event(service, NORMAL, "DeletedLoadBalancer", "Deleted load balancer")
        await self._patch_status(service, LoadBalancerStatus())
        self._forget(key)

    async def _ensure_load_balancer(self, key: str, cached: Service) -> None:
        """The finalizer first, then the cloud, then the status."""
        self._record_event(cached, NORMAL, "EnsuringLoadBalancer", "Ensuring load balancer")
        service = await self._add_finalizer(cached)
        nodes = eligible_nodes(self._nodes.list())
        if not nodes:
            self._record_event(
                service, WARNING, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"
            )
        self._last_synced_nodes[key] = nodes
        try:
            status = await self._balancers.ensure(self._cluster, service, nodes)
        except ImplementedElsewhere:
            self.log.info("Load balancer belongs to another cluster or Service", v=4, key=key)
            return
        except Exception as error:
            raise LoadBalancerError(f"failed to ensure load balancer: {error}") from error
        self._record_event(service, NORMAL, "EnsuredLoadBalancer", "Ensured load balancer")
        await self._patch_status(service, status)
        if not nodes_sufficiently_equal(nodes, eligible_nodes(self._nodes.list())):
            # Nodes changed during the call, and the node sync may have updated the load balancer before this call did.
            self._last_synced_nodes[key] = nodes
            self._node_queue.add(key)

    async def _add_finalizer(self, cached: Service) -> Service:
        """The live Service, with the finalizer: it cannot be deleted before the load balancer.

        The finalizer in the cache is not sufficient: the cache may be old, and the Service deleted.
        """
        meta = cached.metadata
        try:
            if has_finalizer(cached):
                service = await self._client.get(SERVICES, meta.name, meta.namespace)
            else:
                record_decision(f"Service {object_key(meta)} needs a load balancer: it gets the finalizer {FINALIZER}")
                body = {"metadata": {"finalizers": [FINALIZER], "uid": meta.uid}}
                service = await self._patch(cached, body)
        except NotFound as error:
            if not is_about(error, meta.name):
                raise
            raise RetryLater(f"Service {meta.name} was deleted, and the cache does not have that yet") from error
        except Conflict as error:
            raise RetryLater(str(error)) from error
        changed = service.metadata.uid != meta.uid or needs_cleanup(service) or not wants_load_balancer(service)
        if changed or not has_finalizer(service):
            raise RetryLater(f"Service {meta.name} has changed, and the cache does not have that yet")
        return service

    async def _patch_status(self, service: Service, status: LoadBalancerStatus) -> None:
        if service.status.load_balancer.ingress == status.ingress:
            return
        addresses = ", ".join(ingress.ip or ingress.hostname for ingress in status.ingress) or "no address"
        record_decision(f"the load balancer of Service {object_key(service.metadata)} has {addresses}")
        body = {
            "metadata": {"uid": service.metadata.uid},
            "status": {"loadBalancer": {"ingress": ingress_of(status)}},
        }
        try:
            await self._patch(service, body)
        except (NotFound, Conflict):
            return  # it was deleted, maybe recreated

    async def _patch(self, service: Service, body: Mapping[str, object]) -> Service:
        """Upstream writes finalizers, too, through the subresource: the role has no other right."""
        meta = service.metadata
        patch = strategic_merge_patch(body)
        return await self._client.patch(SERVICES, meta.name, patch, meta.namespace, subresource="status")

    # Nodes

    async def _sync_nodes(self, _name: str) -> Requeue | None:
        """Update the nodes of all load balancers."""
        started_at = self.env.perf_counter()
        keys = sorted(self._service_cache)
        await each(keys, self._node_sync_service, concurrency=self._workers)
        self._metrics.observe_node_sync(self.env.perf_counter() - started_at)
        return None

    async def _node_sync_service(self, key: str) -> None:
        service = self._service_cache.get(key)
        if service is None or not wants_load_balancer(service):
            return
        nodes = eligible_nodes(self._nodes.list())
        old = self._last_synced_nodes.get(key, [])
        # Stored before the call: after a failure everything is repeated.
        self._last_synced_nodes[key] = nodes
        if not nodes_sufficiently_equal(eligible_nodes(old), nodes) and not await self._update_load_balancer_hosts(
            service, nodes
        ):
            self._metrics.update_failed()
            self.queue.add(key)

    async def _update_load_balancer_hosts(self, service: Service, nodes: Sequence[Node]) -> bool:
        started_at = self.env.perf_counter()
        try:
            await self._balancers.update(self._cluster, service, nodes)
        except ImplementedElsewhere:
            return True
        except Exception as error:  # noqa: BLE001  # whatever a cloud's library raises: the Service is synced again
            return await self._load_balancer_is_absent(service) or self._record_failure(service, nodes, error)
        finally:
            self._metrics.updated(self.env.perf_counter() - started_at)
        if nodes:
            self._record_event(service, NORMAL, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
        else:
            self._record_event(
                service, WARNING, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer"
            )
        return True

    async def _load_balancer_is_absent(self, service: Service) -> bool:
        """Whether the load balancer does not exist any more, so that nothing failed."""
        try:
            return await self._balancers.get(self._cluster, service) is None
        except Exception as error:  # noqa: BLE001  # as above
            self.log.warning("Could not check whether a load balancer exists", error=error)
            return False

    def _record_failure(self, service: Service, nodes: Sequence[Node], error: Exception) -> bool:
        message = (
            f"Error updating load balancer with new hosts {load_balanced_node_names(nodes)} [node names limited, "
            f"total number of nodes: {len(nodes)}], error: {error}"
        )
        self._record_event(service, WARNING, "UpdateLoadBalancerFailed", message)
        return False

    def _record_event(self, service: Service, type_: str, reason: str, message: str) -> None:
        self._recorder.event(object_reference(SERVICES, service.metadata), type_, reason, message)


class Metrics:
    """Upstream's metrics (``controllers/service/metrics.go``)."""

    def __init__(self, context: ControllerContext) -> None:
        metrics = context.metrics
        buckets = exponential_buckets(1, 2, 15)
        self._updates = metrics.counter(
            "service_controller_loadbalancer_sync_total",
            "[ALPHA] A metric counting the amount of times any load balancer has been configured, as an effect of "
            "service/node changes on the cluster",
        ).labels()
        self._failures = metrics.counter(
            "service_controller_nodesync_error_total",
            "[ALPHA] A metric counting the amount of times any load balancer has been configured and errored, as an "
            "effect of node changes on the cluster",
        ).labels()
        self._node_syncs = metrics.histogram(
            "service_controller_nodesync_latency_seconds",
            "[ALPHA] A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node "
            "updates.",
            buckets=buckets,
        ).labels()
        self._seconds = metrics.histogram(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "[ALPHA] A metric measuring the latency for updating each load balancer hosts.",
            buckets=buckets,
        ).labels()

    def observe_node_sync(self, seconds: float) -> None:
        self._node_syncs.observe(seconds)

    def updated(self, seconds: float) -> None:
        self._updates.inc()
        self._seconds.observe(seconds)

    def update_failed(self) -> None:
        self._failures.inc()
