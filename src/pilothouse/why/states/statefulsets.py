"""StatefulSets that wait for one of their pods."""

from pilothouse.why.states import lifetime
from pilothouse.why.states.rejections import rejection
from pilothouse.why.states.replicas import is_held
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View


async def waiting(view: View) -> Finding | None:
    """Which pod it waits for, and what holds that up."""
    spec, status = view.spec, view.status
    wanted, ready, updated = (
        int(spec.get("replicas", 1)),
        int(status.get("readyReplicas") or 0),
        int(status.get("updatedReplicas") or 0),
    )
    partition = int(((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition") or 0)
    current, update = status.get("currentRevision"), status.get("updateRevision")
    rolls = current != update and updated < wanted - partition
    if ready >= wanted and int(status.get("replicas") or 0) == wanted and not rolls:
        return None
    step = view.step(f"wants {wanted} pods, has {status.get('replicas') or 0}, of which {ready} are ready")
    if rolls:
        step.table.append(f"{updated} pods are of revision {update}, others of {current}; partition {partition}")
    pods = {each.reference.name: each for each in await view.owned("pods")}
    await _add_held(view, step, pods, wanted)
    await _add_last_change(view, step)
    return Finding("rolling out" if rolls and ready >= wanted else "not ready", (step,))


async def _add_held(view: View, step: Step, pods: dict[str, View], wanted: int) -> None:
    start = int((view.spec.get("ordinals") or {}).get("start") or 0)
    ordered = view.spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    for ordinal in range(start, start + wanted):
        name = f"{view.reference.name}-{ordinal}"
        pod = pods.get(name)
        if pod is None:
            rejected = await rejection(view)
            if rejected is not None:
                step.because.append(rejected)
            break
        if not is_held(pod) and not pod.metadata.get("deletionTimestamp"):
            continue
        if ordered and (later := start + wanted - 1 - ordinal):
            step.table.append(f"one after the other: {name} has to be ready before the {later} pods after it")
        step.because += (await pod.finding()).steps[:1]
        break


async def _add_last_change(view: View, step: Step) -> None:
    last = await lifetime.last_change(view)
    known = {(root.object, root.resource_version) for each in step.because for root in each.roots()}
    if last is not None and not any((root.object, root.resource_version) in known for root in last.roots()):
        step.because.append(last)
    if not step.because:
        step.root = STATE
