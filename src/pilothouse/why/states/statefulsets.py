"""StatefulSets that wait for one of their pods."""

from pilothouse.why.states.rejections import rejection
from pilothouse.why.states.replicas import is_held
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import Step, counted
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
    step = view.step(f"wants {counted(wanted, 'pod')}, has {status.get('replicas') or 0}, of which {ready} are ready")
    if rolls:
        step.table.append(f"{updated} pods are of revision {update}, others of {current}; partition {partition}")
    pods = {each.reference.name: each for each in await view.owned("pods")}
    await _add_held(view, step, pods, wanted)
    await add_last_change(view, step, rolls=rolls or int(status.get("replicas") or 0) != wanted)
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
            step.table.append(f"one after the other: {name} has to be ready before {_those_after(later)}")
        step.because += (await pod.finding()).steps[:1]
        break


def _those_after(number: int) -> str:
    return "the pod after it" if number == 1 else f"the {number} pods after it"
