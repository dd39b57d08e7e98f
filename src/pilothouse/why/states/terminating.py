"""Objects that are marked for deletion and are still there."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.states.finalizers import held_by
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_SHOWN = 5


async def terminating(view: View) -> Finding | None:
    """Which finalizers hold the object, and who asked for its deletion."""
    metadata = view.metadata
    if not metadata.get("deletionTimestamp") or view.reference.resource == "namespaces":
        return None
    steps = await held(view)
    if not steps and (silent := await _without_kubelet(view)) is not None:
        steps.append(silent)
    if not steps and metadata.get("deletionGracePeriodSeconds"):
        seconds = metadata["deletionGracePeriodSeconds"]
        steps.append(view.step(f"has {seconds} seconds of grace, until {metadata['deletionTimestamp']}", root=STATE))
    asked = await deletion_request(view.evidence, await view.changes())
    if asked is not None:
        steps.append(await view.chain.step(asked))
    return Finding("terminating", tuple(steps))


async def held(view: View) -> list[Step]:
    """The finalizers of an object, each with who was to remove it."""
    finalizers = view.metadata.get("finalizers") or []
    steps = [await held_by(view, finalizer) for finalizer in finalizers[:_SHOWN]]
    if len(finalizers) > _SHOWN:
        steps.append(view.step(f"is held by {len(finalizers) - _SHOWN} more finalizers", root=STATE))
    if finalizers:
        steps[0].because += await dependents(view, finalizers)
    return steps


async def _without_kubelet(view: View) -> Step | None:
    """A pod on a node whose kubelet does not end it."""
    name = view.spec.get("nodeName") if view.reference.resource == "pods" else ""
    if not name:
        return None
    node = await view.read("nodes", name, namespace="")
    if node.condition("Ready").get("status") == "True":
        return None
    because = list((await node.finding()).steps)
    return view.step(f"is there until the kubelet of its node {name} has ended it, which is not ready", because=because)


async def dependents(view: View, finalizers: list[str]) -> list[Step]:
    """What the holder of a finalizer waits for: dependents that block a foreground deletion, pods that use a claim."""
    if "foregroundDeletion" in finalizers:
        return await _blocking(view)
    if "kubernetes.io/pvc-protection" in finalizers:
        return await _users(view)
    return []


async def _blocking(view: View) -> list[Step]:
    found: list[Step] = []
    for resource in view.evidence.namespaced if view.reference.namespace else ():
        for each in await view.evidence.objects(resource, view.reference.namespace):
            owners = (each.get("metadata") or {}).get("ownerReferences") or ()
            if any(owner.get("uid") == view.uid and owner.get("blockOwnerDeletion") for owner in owners):
                about = view.of(resource, each["metadata"]["name"], each)
                step = about.step("is there, and blocks the deletion of its owner", root=STATE)
                if about.metadata.get("deletionTimestamp"):
                    step.because = list((await about.finding()).steps)
                found.append(step)
                if len(found) >= _SHOWN:
                    return found
    return found


async def _users(view: View) -> list[Step]:
    found: list[Step] = []
    for pod in await view.evidence.objects("pods", view.reference.namespace):
        claims = [volume.get("persistentVolumeClaim") or {} for volume in (pod.get("spec") or {}).get("volumes") or ()]
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not ended and any(claim.get("claimName") == view.reference.name for claim in claims):
            found.append(view.of("pods", pod["metadata"]["name"], pod).step("uses the claim", root=STATE))
    return found[:_SHOWN]
