"""Objects that are marked for deletion and are still there."""

from pilothouse.why.states.lifetime import deletion_request
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_HOLDERS = {
    "foregroundDeletion": "garbage-collector-controller, until all dependents that block it are gone",
    "orphan": "garbage-collector-controller, until its dependents have no reference to it",
    "kubernetes.io/pvc-protection": "persistentvolumeclaim-protection-controller, as long as a pod uses the claim",
    "kubernetes.io/pv-protection": "persistentvolume-protection-controller, as long as a claim is bound to the volume",
    "batch.kubernetes.io/job-tracking": "job-controller, until the pod is counted in the status of its Job",
    "service.kubernetes.io/load-balancer-cleanup": "service-lb-controller, until the load balancer is gone",
    "external-attacher": "the volume attacher, until the volume is detached",
    "resource.kubernetes.io/delete-protection": "resourceclaim-controller and scheduler, while the claim is allocated",
}


async def terminating(view: View) -> Finding | None:
    """Which finalizers hold the object, and who asked for its deletion."""
    metadata = view.metadata
    if not metadata.get("deletionTimestamp") or view.reference.resource == "namespaces":
        return None
    finalizers = metadata.get("finalizers") or []
    steps: list[Step] = []
    for finalizer in finalizers:
        holder = _HOLDERS.get(finalizer, "a program outside of Kubernetes, which has to remove it")
        steps.append(view.step(f"is held by the finalizer {finalizer}: {holder}", root=STATE))
    if finalizers:
        steps[0].because += await dependents(view, finalizers)
    elif metadata.get("deletionGracePeriodSeconds"):
        seconds = metadata["deletionGracePeriodSeconds"]
        steps.append(view.step(f"has {seconds} seconds of grace, until {metadata['deletionTimestamp']}", root=STATE))
    asked = await deletion_request(view, await view.changes())
    if asked is not None:
        steps.append(await view.chain.step(asked))
    return Finding("terminating", tuple(steps))


async def dependents(view: View, finalizers: list[str]) -> list[Step]:
    """For foreground deletion, the dependents that still block it."""
    return []
