"""Owners of an object that do not exist, which the garbage collector finds."""

from pilothouse.why.states.lifetime import last_deletion
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import View

_MAX_READ = 10


async def missing_owners(view: View) -> list[Step]:
    """A step for each owner that does not exist, or whose kind is not served."""
    references = view.metadata.get("ownerReferences") or []
    if view.metadata.get("deletionTimestamp"):
        return []
    steps: list[Step] = []
    if len(references) > _MAX_READ:
        view.evidence.unseen[f"owners of {view.title} beyond the first {_MAX_READ}"] = None
    for reference in references[:_MAX_READ]:
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        api_version = str(reference.get("apiVersion") or "")
        resource = view.evidence.resource_of(api_version, kind)
        if not resource:
            text = f"has the owner {kind} {name} of {api_version}, which is not served"
            steps.append(view.step(text, root=STATE))
            continue
        is_namespaced = resource in view.evidence.namespaced
        if is_namespaced and not view.reference.namespace:
            text = f"has the owner {kind} {name}, which has a namespace, while the object has none: it is kept"
            steps.append(view.step(text, root=STATE))
            continue
        owner = await view.read(resource, name, namespace=view.reference.namespace if is_namespaced else "")
        if owner.is_unreadable or owner.uid == reference.get("uid"):
            continue
        state = (
            "which does not exist" if owner.now is None else f"but {owner.title} is another one, with uid {owner.uid}"
        )
        effect = (
            "garbage-collector-controller deletes the object"
            if len(references) == 1
            else "garbage-collector-controller deletes the object, unless another owner exists"
        )
        text = f"has the owner {owner.title} with uid {reference.get('uid')}, {state}: {effect}"
        deletion = await last_deletion(owner, str(reference.get("uid")))
        steps.append(view.step(text, root=STATE, because=[deletion] if deletion is not None else []))
    return steps
