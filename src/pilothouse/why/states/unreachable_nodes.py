"""What happens to the pods of a node that is not ready: the taint eviction of those that run, and what removes those
that are deleted, whose end only the node's kubelet can report."""

from pilothouse.api.core import Node, Pod
from pilothouse.controllers.cleanup.pod_garbage_collector.decide import OUT_OF_SERVICE_TAINT
from pilothouse.controllers.node.taint_eviction.decide import EvictAfter, Stay, decide_eviction, no_execute_taints
from pilothouse.machinery.times import add_seconds, format_time
from pilothouse.why.view import View, typed


async def node_without_kubelet(pod_view: View) -> View | None:
    """The node of a pod, if it is gone or not ready; None also if it can't be read."""
    name = pod_view.spec.get("nodeName")
    if not name:
        return None
    node = await pod_view.read("nodes", name, namespace="")
    return None if node.is_unreadable or node.condition("Ready").get("status") == "True" else node


def eviction_lines(pod_view: View, node_view: View) -> list[str]:
    """When the taint eviction controller deletes a pod of a tainted node, or that it does not. Empty before the node is
    tainted."""
    taints = no_execute_taints(typed(node_view.now or {}, Node))
    if not taints:
        return []
    tolerations = typed(pod_view.now or {}, Pod).spec.tolerations
    keys = " and ".join(taint.key for taint in taints)
    tolerates = f"it tolerates the taint{'s' if len(taints) > 1 else ''} {keys}"
    decision = decide_eviction(taints, tolerations)
    if isinstance(decision, Stay):
        return [f"{tolerates} without limit: it is not deleted"]
    if not isinstance(decision, EvictAfter):
        return [f"it does not tolerate the taint {keys}: taint-eviction-controller deletes it"]
    added = [taint.time_added for taint in taints if taint.time_added is not None]
    # Another taint, added later, does not postpone the eviction.
    at = f", until {format_time(add_seconds(min(added), decision.seconds))}" if added else ""
    return [f"{tolerates} for {decision.seconds:g} seconds{at}; then taint-eviction-controller deletes it"]


def removal_lines(pod_view: View, node_view: View) -> list[str]:
    """What removes a deleted pod from a node that does not answer (v1.36 ``pkg/controller/podgc``)."""
    if node_view.now is None:
        return ["pod-garbage-collector removes it, since the node is gone"]
    node = node_view.reference.name
    if any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in node_view.spec.get("taints") or ()):
        return [f"pod-garbage-collector removes it, since the node has the taint {OUT_OF_SERVICE_TAINT}"]
    return [
        "it is removed when that kubelet answers again, or when the Node is deleted; its containers may still run",
        f"if the machine is off: kubectl taint nodes {node} {OUT_OF_SERVICE_TAINT}=nodeshutdown:NoExecute (for all its "
        f"pods), or kubectl delete pod {pod_view.reference.name} --force",
    ]
