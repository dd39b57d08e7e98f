"""StatefulSets with an incomplete rollout or too few ready pods."""

from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.rejections import deletion_rejection, rejection
from pilothouse.why.states.replicas import is_active, is_unready
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import AS_DESIRED, STATE, TOO_MANY_PODS, Step, pluralize
from pilothouse.why.view import Finding, View


async def incomplete(view: View) -> Finding | None:
    """The pod that the StatefulSet waits for, and why it is not ready."""
    spec, status = view.spec, view.status
    desired, ready, updated = (
        int(spec.get("replicas", 1)),
        int(status.get("readyReplicas") or 0),
        int(status.get("updatedReplicas") or 0),
    )
    partition = int(((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition") or 0)
    current, update = status.get("currentRevision"), status.get("updateRevision")
    outdated = current != update and updated < desired
    on_delete = (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    updating = outdated and not on_delete and updated < desired - partition
    kept = f"{pluralize(desired - updated, 'pod')} of revision {current}" if outdated and not updating else ""
    if kept:
        kept = (
            f"update strategy OnDelete: {kept} not replaced until deleted"
            if on_delete
            else f"partition {partition}: {kept} with a lower ordinal not replaced"
        )
    if ready >= desired and int(status.get("replicas") or 0) == desired and not updating:
        return await _kept(view, kept) if kept else None
    pods = {pod.reference.name: pod for pod in await view.owned("pods")}
    too_many = sum(map(is_active, pods.values())) > desired
    undeleted = await deletion_rejection(view) if too_many or updating else None
    # Pods are deleted one after the other: without a failure, more than desired are no error.
    excess = too_many and undeleted is not None and ready >= desired
    of_which = "" if excess else f", of which {ready} are ready"
    step = view.step(f"should have {pluralize(desired, 'pod')}, has {status.get('replicas') or 0}{of_which}")
    if updating:
        step.table.append(
            f"{pluralize(updated, 'pod')} {'is' if updated == 1 else 'are'} of revision {update}, others of {current}; "
            f"partition {partition}"
        )
    step.table += [kept] if kept else []
    step.because += [undeleted] if undeleted is not None else []
    await _add_blocking_pod(view, step, pods, desired)
    await add_last_change(view, step, rolls=updating or int(status.get("replicas") or 0) != desired)
    if excess:
        return Finding(TOO_MANY_PODS, (step,))
    return Finding("rolling out" if updating and ready >= desired else "not ready", (step,))


async def _kept(view: View, line: str) -> Finding:
    """Pods that the update strategy leaves at an earlier revision."""
    last = await last_change(view) or view.step("is older than the history", root=STATE)
    last.table = [*last.table, line]
    return Finding(AS_DESIRED, (last,))


async def _add_blocking_pod(view: View, step: Step, pods: dict[str, View], desired: int) -> None:
    start = int((view.spec.get("ordinals") or {}).get("start") or 0)
    ordered = view.spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    for ordinal in range(start, start + desired):
        name = f"{view.reference.name}-{ordinal}"
        pod = pods.get(name)
        if pod is None:
            rejected = await rejection(view)
            if rejected is not None:
                step.because.append(rejected)
            break
        if not is_unready(pod) and not pod.metadata.get("deletionTimestamp"):
            continue
        if ordered and (later := start + desired - 1 - ordinal):
            step.table.append(f"one after the other: {name} has to be ready before {_later_pods(later)}")
        step.because += (await pod.finding()).steps[:1]
        break


def _later_pods(number: int) -> str:
    return "the pod after it" if number == 1 else f"the {number} pods after it"
