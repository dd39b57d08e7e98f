"""Workloads whose controller has not seen their last change: it is not running, or is late."""

from pilothouse.why.states import lifetime
from pilothouse.why.steps import STATE
from pilothouse.why.view import Finding, View

_CONTROLLERS = {
    "deployments.apps": "deployment-controller",
    "replicasets.apps": "replicaset-controller",
    "replicationcontrollers": "replicationcontroller-controller",
    "statefulsets.apps": "statefulset-controller",
    "daemonsets.apps": "daemonset-controller",
}


async def unprocessed(view: View) -> Finding | None:
    """The generation that the status is of is older than the object's."""
    wanted, seen = int(view.metadata.get("generation") or 0), int(view.status.get("observedGeneration") or 0)
    if seen >= wanted:
        return None
    controller = _CONTROLLERS[view.reference.resource]
    step = view.step(f"is of generation {wanted}, its status of {seen}: {controller} has not processed its last change")
    last = await lifetime.last_change(view)
    if last is not None:
        step.because = [last]
    else:
        step.root = STATE
    return Finding("not processed", (step,))
