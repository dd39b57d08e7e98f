"""Finds the workload of an object: a pod's Deployment, by its ReplicaSet."""

from pilothouse.why.view import View, controller_of

_MAX_OWNERS = 4


async def owner_of(view: View) -> View | None:
    """The controller of an object, which may not exist any more; None without one, or if its kind is not served."""
    reference = controller_of(view.now or {})
    resource = view.evidence.resource_of(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))
    return await view.read(resource, str(reference.get("name") or "")) if resource else None


async def workload_of(view: View) -> View | None:
    """The topmost existing controller of an object."""
    workload = None
    current = view
    for _ in range(_MAX_OWNERS):
        owner = await owner_of(current)
        if owner is None or owner.now is None:
            break
        workload = current = owner
    return workload
