"""Objects with a deletionTimestamp that still exist."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.states.finalizers import DEFINITION_CLEANUP, finalizer_step
from pilothouse.why.states.unreachable_nodes import node_without_kubelet, removal_lines
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View, is_finished

_SHOWN = 5


async def terminating(view: View) -> Finding | None:
    """The finalizers of the object, and who deleted it."""
    metadata = view.metadata
    if not metadata.get("deletionTimestamp") or view.reference.resource == "namespaces":
        return None
    steps = await finalizer_steps(view)
    if not steps and (unreachable := await _without_kubelet(view)) is not None:
        steps.append(unreachable)
    if not steps and metadata.get("deletionGracePeriodSeconds"):
        seconds = metadata["deletionGracePeriodSeconds"]
        steps.append(view.step(f"has {seconds} seconds of grace, until {metadata['deletionTimestamp']}", root=STATE))
    request = await deletion_request(view.evidence, await view.own_changes())
    if request is not None:
        steps.append(await view.chain.step(request))
    return Finding("terminating", tuple(steps))


async def finalizer_steps(view: View) -> list[Step]:
    """One step for each finalizer, with the program that removes it."""
    finalizers = view.metadata.get("finalizers") or []
    steps = [await finalizer_step(view, finalizer) for finalizer in finalizers[:_SHOWN]]
    if len(finalizers) > _SHOWN:
        steps.append(view.step(f"is held by {len(finalizers) - _SHOWN} more finalizers", root=STATE))
    if finalizers:
        steps[0].because += await dependents(view, finalizers)
    return steps


async def _without_kubelet(view: View) -> Step | None:
    """A terminating pod on a node that is not ready."""
    node = await node_without_kubelet(view) if view.reference.resource == "pods" else None
    if node is None:
        return None
    because = list((await node.finding()).steps)
    text = f"remains until the kubelet of {node.reference.name}, which is not ready, reports its end"
    return view.step(text, table=removal_lines(view, node), because=because)


async def dependents(view: View, finalizers: list[str]) -> list[Step]:
    """The objects that a finalizer waits for: dependents that block a foreground deletion, pods that use a claim, the
    objects of a CustomResourceDefinition."""
    if "foregroundDeletion" in finalizers:
        return await _blocking_dependents(view)
    if "kubernetes.io/pvc-protection" in finalizers:
        return await _claim_users(view)
    if DEFINITION_CLEANUP in finalizers:
        return await _custom_objects(view)
    return []


async def _custom_objects(view: View) -> list[Step]:
    steps: list[Step] = []
    condition = view.condition("Terminating")
    if condition.get("reason") == "InstanceDeletionFailed":
        steps.append(view.step(f"has objects that can't be deleted: {condition.get('message')}", root=STATE))
    resource = f"{(view.spec.get('names') or {}).get('plural')}.{view.spec.get('group')}"
    documents = await view.evidence.objects(resource, "")
    for document in documents[:_SHOWN]:
        metadata = document["metadata"]
        left = view.of(resource, metadata["name"], document, namespace=metadata.get("namespace") or "")
        found = await finalizer_steps(left) or [left.step("is still there", root=STATE)]
        if left.reference.namespace:
            full_name = f"{left.title} of namespace {left.reference.namespace}"
            for step in found:
                step.text = step.text.replace(left.title, full_name, 1)
        steps += found
    if len(documents) > _SHOWN:
        steps.append(view.step(f"has {len(documents) - _SHOWN} more objects", root=STATE))
    return steps


async def _blocking_dependents(view: View) -> list[Step]:
    steps: list[Step] = []
    for resource in view.evidence.namespaced if view.reference.namespace else ():
        for document in await view.evidence.objects(resource, view.reference.namespace):
            owners = (document.get("metadata") or {}).get("ownerReferences") or ()
            if any(owner.get("uid") == view.uid and owner.get("blockOwnerDeletion") for owner in owners):
                dependent = view.of(resource, document["metadata"]["name"], document)
                step = dependent.step("is there, and blocks the deletion of its owner", root=STATE)
                if dependent.metadata.get("deletionTimestamp"):
                    step.because = list((await dependent.finding()).steps)
                steps.append(step)
                if len(steps) >= _SHOWN:
                    return steps
    return steps


async def _claim_users(view: View) -> list[Step]:
    steps: list[Step] = []
    for pod in await view.evidence.objects("pods", view.reference.namespace):
        claims = [volume.get("persistentVolumeClaim") or {} for volume in (pod.get("spec") or {}).get("volumes") or ()]
        if not is_finished(pod) and any(claim.get("claimName") == view.reference.name for claim in claims):
            steps.append(view.of("pods", pod["metadata"]["name"], pod).step("uses the claim", root=STATE))
    return steps[:_SHOWN]
