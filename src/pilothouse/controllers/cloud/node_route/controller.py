"""One comparison of all routes, every few seconds: list, delete, create, then update the nodes' conditions."""

from pilothouse.api.core import NODES, Node, ObjectReference
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.controllers.cloud.node_route import DESCRIPTOR, NodeRouteOptions
from pilothouse.controllers.cloud.node_route.decide import cluster_ranges, condition_of, has_condition, plan
from pilothouse.controllers.shared.cloud import DisabledController, Route, Routes
from pilothouse.controllers.shared.cloud_providers import the_provider
from pilothouse.controllers.shared.parallel import each
from pilothouse.controllers.shared.pauses import pause
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, EventRecorder, ManagedController, Requeue, RunnableController
from pilothouse.runtime.events import WARNING

PASS = "pass"  # noqa: S105  # the one key there is, no secret
COMPONENT = "route_controller"
CONCURRENCY = 200
"""Concurrent calls to the cloud."""
_NODE_META = NODES.read_as(Object)


def build(context: ControllerContext) -> RunnableController:
    options = context.options_as(NodeRouteOptions)
    provider = the_provider(options.provider, context.env)
    reason = ""
    if provider.routes is None:
        reason = f"cloud provider {provider.name} has no routes"
    elif not options.allocate or not options.configured:
        reason = "--allocate-node-cidrs or --configure-cloud-routes is off"
    if provider.routes is None or reason:
        return DisabledController(DESCRIPTOR.name, context.log, reason)
    return NodeRouteController(context, provider.routes)


class NodeRouteController(ManagedController):
    def __init__(self, context: ControllerContext, routes: Routes) -> None:
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, queue_name="Routes")
        options = context.options_as(NodeRouteOptions)
        self._client = context.client
        self._routes = routes
        self._cluster, self._period = options.cluster_name, pause(options.period)
        self._cluster_ranges = cluster_ranges(options.cluster_cidr)
        self._nodes = nodes.cache
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        self._passes = context.metrics.counter(
            "route_controller_route_sync_total",
            "[ALPHA] A metric counting the amount of times routes have been synced with the cloud provider.",
        ).labels()
        self.queue.add(PASS)

    async def reconcile(self, key: str) -> Requeue | None:
        """One comparison. Failures are logged and retried in the next one."""
        self._passes.inc()
        try:
            await self._reconcile_node_routes()
        except Exception as error:  # noqa: BLE001  # whatever a cloud's library raises: the next pass is not far
            self.log.warning("Couldn't reconcile node routes", error=error)
        return Requeue(self._period)

    async def _reconcile_node_routes(self) -> None:
        routes = await self._routes.list(self._cluster)
        nodes = self._nodes.list()
        planned = plan(nodes, routes, self._cluster_ranges)
        # A route that is recreated must be deleted first (kubernetes#98359).
        await each(planned.delete, self._delete_route, concurrency=CONCURRENCY)
        missing: dict[str, None] = {}

        async def create(node_and_route: tuple[Node, Route]) -> None:
            if not await self._create_route(*node_and_route):
                missing[node_and_route[0].metadata.name] = None

        await each(planned.create, create, concurrency=CONCURRENCY)
        by_name = {route.node for route in routes}  # never iterated

        async def update_condition(node: Node) -> None:
            name = node.metadata.name
            if node.spec.pod_cidrs or name in by_name:
                # A node with a route but no CIDR is not reachable.
                await self._update_networking_condition(node, routed=bool(node.spec.pod_cidrs) and name not in missing)

        await each(nodes, update_condition, concurrency=CONCURRENCY)

    async def _delete_route(self, route: Route) -> None:
        try:
            await self._routes.delete(self._cluster, route)
        except Exception as error:  # noqa: BLE001  # as above
            self.log.warning("Could not delete route", route=route.name, cidr=route.destination, error=error)

    async def _create_route(self, node: Node, route: Route) -> bool:
        started_at = self.env.monotonic()
        hint = node.metadata.uid
        try:
            await self._routes.create(self._cluster, hint, route)
        except Exception as error:  # noqa: BLE001  # as above
            seconds = f"{self.env.monotonic() - started_at:g}s"
            message = (
                f"Could not create route {hint} {route.destination} for node {route.node} after {seconds}: {error}"
            )
            reference = ObjectReference(api_version="v1", kind="Node", name=route.node, uid=hint)
            self._recorder.event(reference, WARNING, "FailedToCreateRoute", message)
            return False
        self.log.info("Created route", node=route.node, cidr=route.destination)
        return True

    async def _update_networking_condition(self, node: Node, *, routed: bool) -> None:
        desired = condition_of(routed)
        if has_condition(node, desired):
            return
        now = format_time(self.env.now())
        current = {
            "type": desired.type,
            "status": desired.status,
            "reason": desired.reason,
            "message": desired.message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        patch = strategic_merge_patch({"status": {"conditions": [current]}})
        begin_sync(self.name, node.metadata.name, current_triggers())
        cidrs = ", ".join(node.spec.pod_cidrs) or "no CIDR"
        record_decision(f"the cloud has {'' if routed else 'not '}a route for each pod CIDR of the node: {cidrs}")
        try:
            await self._client.patch(_NODE_META, node.metadata.name, patch, subresource="status")
        except NotFound:
            self.log.info("Node is gone", v=4, node=node.metadata.name)
