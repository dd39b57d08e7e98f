"""Objects with an outdated observedGeneration: the controller is not running, or is behind."""

from pilothouse.why.states import lifetime
from pilothouse.why.steps import STATE
from pilothouse.why.view import Finding, View

_CONTROLLERS = {
    "deployments.apps": "deployment-controller",
    "replicasets.apps": "replicaset-controller",
    "replicationcontrollers": "replicationcontroller-controller",
    "statefulsets.apps": "statefulset-controller",
    "daemonsets.apps": "daemonset-controller",
    "poddisruptionbudgets.policy": "disruption-controller",
}
_EFFECTS = {"poddisruptionbudgets.policy": "; evictions of its pods are rejected until then"}


async def unprocessed(view: View) -> Finding | None:
    """status.observedGeneration is lower than metadata.generation."""
    generation, observed = int(view.metadata.get("generation") or 0), int(view.status.get("observedGeneration") or 0)
    if observed >= generation:
        return None
    controller = _CONTROLLERS.get(view.reference.resource, "its controller")
    step = view.step(
        f"is of generation {generation}, its status of {observed}: {controller} has not processed its last change"
        f"{_EFFECTS.get(view.reference.resource, '')}"
    )
    last = await lifetime.last_change(view)
    if last is not None:
        step.because = [last]
    else:
        step.root = STATE
    return Finding("not processed", (step,))


async def unprocessed_if_observed(view: View) -> Finding | None:
    """The same for custom resources, whose controllers need not report the generation."""
    observed = view.status.get("observedGeneration")
    return await unprocessed(view) if observed and isinstance(observed, int) else None
