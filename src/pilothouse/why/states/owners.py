"""The workload that an object belongs to: a pod's Deployment, by way of its ReplicaSet."""

from pilothouse.why.view import View, controller_of

_MOST_OWNERS = 4


async def owner_of(view: View) -> View | None:
    """The controller of an object, which may be gone; None if it has none, or one of a kind that is not served."""
    reference = controller_of(view.now or {})
    resource = view.evidence.resource_of(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))
    return await view.read(resource, str(reference.get("name") or "")) if resource else None


async def workload_of(view: View) -> View | None:
    """The last of the controllers above an object that is there."""
    found = None
    above = view
    for _ in range(_MOST_OWNERS):
        owner = await owner_of(above)
        if owner is None or owner.now is None:
            break
        found = above = owner
    return found
