"""One pass over all nodes that are not ready, every few seconds.

Upstream: k8s.io/cloud-provider v0.36 ``controllers/nodelifecycle/node_lifecycle_controller.go``, ``MonitorNodes``.
"""

from collections.abc import Callable, Sequence

from pilothouse.api.core import NODES, Node, ObjectReference, Taint
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.cloud.cloud_node_lifecycle import DESCRIPTOR, CloudNodeLifecycleOptions
from pilothouse.controllers.shared.cloud import DisabledController, Instances
from pilothouse.controllers.shared.cloud_providers import the_provider
from pilothouse.controllers.shared.pauses import pause
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, EventRecorder, ManagedController, Requeue, RunnableController
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.nodes import NO_SCHEDULE, is_node_ready, same_taint

PASS = "pass"  # noqa: S105  # the one key there is, no secret
SHUT_DOWN = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect=NO_SCHEDULE)
_NODE_META = NODES.read_as(Object)


def build(context: ControllerContext) -> RunnableController:
    provider = the_provider(context.options_as(CloudNodeLifecycleOptions).provider, context.env)
    if provider.instances is None:
        return DisabledController(DESCRIPTOR.name, context.log, f"cloud provider {provider.name} has no instances")
    return CloudNodeLifecycleController(context, provider.instances)


class CloudNodeLifecycleController(ManagedController):
    def __init__(self, context: ControllerContext, instances: Instances) -> None:
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, queue_name="cloud_node_lifecycle")
        self._client = context.client
        self._period = pause(context.options_as(CloudNodeLifecycleOptions).monitor_period)
        self._instances = instances
        self._nodes = nodes.cache
        self._recorder = EventRecorder(context.client, context.env, self.name)
        self.add_runnable("events", self._recorder.run)
        self.queue.add(PASS)

    async def reconcile(self, key: str) -> Requeue | None:
        """One pass over all nodes. A node that fails is checked again in the next pass."""
        for node in self._nodes.list():
            begin_sync(self.name, node.metadata.name, current_triggers())
            try:
                if is_node_ready(node):
                    await self._remove_shutdown_taint(node)
                elif not await self._instances.exists(node):
                    await self._delete_node(node)
                elif await self._instances.is_shut_down(node):
                    record_decision(f"the cloud says that node {node.metadata.name} is shut down")
                    await self._change_taints(node.metadata.name, _with_taint)
            except Exception as error:  # noqa: BLE001  # whatever a cloud's library raises: one node waits, not all
                self.log.warning("Failed to sync node", node=node.metadata.name, error=error)
        return Requeue(self._period)

    async def _remove_shutdown_taint(self, node: Node) -> None:
        if any(same_taint(taint, SHUT_DOWN) for taint in node.spec.taints):
            record_decision(f"node {node.metadata.name} is ready: the shutdown taint is removed")
            await self._change_taints(node.metadata.name, _without_taint)

    async def _delete_node(self, node: Node) -> None:
        meta = node.metadata
        # The cache may be stale: the node may be ready again, or another one.
        try:
            live = await self._client.get(NODES, meta.name)
        except NotFound:
            return
        if live.metadata.uid != meta.uid or is_node_ready(live) or live.metadata.deletion_timestamp is not None:
            return
        self.log.info("Deleting node, it is no longer present in the cloud provider", v=2, node=meta.name)
        text = f"Deleting node {meta.name} because it does not exist in the cloud provider"
        self._record_event(node, NORMAL, "DeletingNode", text)
        record_decision(f"node {meta.name} is not ready, and does not exist in the cloud")
        try:
            await self._client.delete(NODES, meta.name, uid=meta.uid)
        except NotFound:
            return
        except Exception as error:
            self._record_event(node, WARNING, "DeletingNodeFailed", f"Failed deleting node {meta.name}: {error}")
            raise

    async def _change_taints(self, name: str, change: Callable[[Sequence[Taint]], list[Taint]]) -> None:
        """Change the taints of the live node. After a conflict the next pass repeats it."""
        node = await self._client.get(NODES, name)
        after = change(node.spec.taints)
        if after == list(node.spec.taints):
            return
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [_taint(taint) for taint in after] or None},
        }
        try:
            await self._client.patch(_NODE_META, name, strategic_merge_patch(body))
        except (Conflict, NotFound):
            self.log.info("Node has changed meanwhile", v=4, node=name)

    def _record_event(self, node: Node, type_: str, reason: str, message: str) -> None:
        reference = ObjectReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
        self._recorder.event(reference, type_, reason, message)


def _with_taint(taints: Sequence[Taint]) -> list[Taint]:
    return list(taints) if any(same_taint(taint, SHUT_DOWN) for taint in taints) else [*taints, SHUT_DOWN]


def _without_taint(taints: Sequence[Taint]) -> list[Taint]:
    return [taint for taint in taints if not same_taint(taint, SHUT_DOWN)]


def _taint(taint: Taint) -> dict[str, str]:
    fields = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        fields["value"] = taint.value
    if taint.time_added is not None:
        fields["timeAdded"] = format_time(taint.time_added)
    return fields
