"""ReplicaSets and ReplicationControllers with fewer pods than they ask for, or with pods that are not ready."""

from pilothouse.why.states import lifetime
from pilothouse.why.states.rejections import rejection
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_MOST_HELD = 2
_MOST_PODS = 200


async def short_of_pods(view: View) -> Finding | None:
    """Wants more pods than are there and ready: what rejects them, or what holds them up."""
    wanted = int(view.spec.get("replicas", 1))
    have, ready = int(view.status.get("replicas") or 0), int(view.status.get("readyReplicas") or 0)
    rejected = await rejection(view) if have < wanted else None
    if ready >= wanted and have >= wanted:
        return None
    step = view.step(f"wants {wanted} pods, has {have}, of which {ready} are ready")
    if rejected is not None:
        step.because.append(rejected)
        asked = await lifetime.last_change(view)
        if asked is not None:
            step.because.append(asked)
    step.because += await held_pods(await view.owned("pods"))
    if not step.because:
        asked = await lifetime.last_change(view)
        step.because = [asked] if asked is not None else []
    if not step.because:
        step.root = STATE
    return Finding("not ready", (step,))


async def held_pods(pods: list[View]) -> list[Step]:
    """What holds up the pods that are not ready: some of them, one for each reason."""
    found: dict[str, Step] = {}
    numbers: dict[str, int] = {}
    for pod in [each for each in pods if is_held(each)][:_MOST_PODS]:
        reason = _reason(pod)
        numbers[reason] = numbers.get(reason, 0) + 1
        if reason not in found and len(found) < _MOST_HELD:
            finding = await pod.finding()
            if finding.steps:
                found[reason] = finding.steps[0]
    for reason, step in found.items():
        if numbers[reason] > 1:
            more = numbers[reason] - 1
            step.table = [f"and {more} more pod{'s' if more > 1 else ''} alike", *step.table]
    return list(found.values())


def is_held(pod: View) -> bool:
    """Whether a pod is neither ready nor over."""
    if pod.metadata.get("deletionTimestamp") or pod.status.get("phase") in ("Succeeded", "Failed"):
        return False
    return pod.condition("Ready").get("status") != "True"


def _reason(pod: View) -> str:
    for each in pod.status.get("containerStatuses") or ():
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return str(waiting["reason"]).replace("ErrImagePull", "ImagePullBackOff")
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason"))
    return str(pod.status.get("phase"))
