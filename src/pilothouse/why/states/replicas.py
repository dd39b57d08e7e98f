"""ReplicaSets and ReplicationControllers with fewer pods than they ask for, or with pods that are not ready."""

from pilothouse.why.states import lifetime
from pilothouse.why.states.rejections import rejection
from pilothouse.why.steps import STATE, Step, counted
from pilothouse.why.view import Finding, View, controller_of

_MOST_REASONS = 2
_MOST_HELD = 5
"""So many pods with the same reason are followed to what they were made for."""
_MOST_PODS = 200


async def short_of_pods(view: View) -> Finding | None:
    """Wants more pods than are there and ready: what rejects them, or what holds them up."""
    wanted = int(view.spec.get("replicas", 1))
    have, ready = int(view.status.get("replicas") or 0), int(view.status.get("readyReplicas") or 0)
    rejected = await rejection(view) if have < wanted else None
    if ready >= wanted and have >= wanted:
        return None
    step = view.step(f"wants {counted(wanted, 'pod')}, has {have}, of which {ready} are ready")
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
    """What holds up the pods that are not ready: one for each reason, and for each beginning of those alike."""
    groups: dict[str, list[View]] = {}
    for pod in [each for each in pods if is_held(each)][:_MOST_PODS]:
        groups.setdefault(_reason(pod), []).append(pod)
    found: list[Step] = []
    for alike in list(groups.values())[:_MOST_REASONS]:
        found += await _alike(alike)
    return found


async def _alike(pods: list[View]) -> list[Step]:
    """The steps of pods with the same reason. They may have been made for different ones: a rollout, a preemption.
    Pods of one owner and one second were most likely made for the same."""
    made: dict[tuple[str, str], list[View]] = {}
    for pod in pods:
        owner = str(controller_of(pod.now or {}).get("uid") or "")
        made.setdefault((owner, str(pod.metadata.get("creationTimestamp"))), []).append(pod)
    steps: dict[frozenset[tuple[str, str]], Step] = {}
    numbers: dict[frozenset[tuple[str, str]], int] = {}
    for number, some in enumerate(made.values()):
        finding = await some[0].finding() if number < _MOST_HELD else None
        if finding is not None and not finding.steps:
            continue
        if finding is not None:
            roots = frozenset((root.object, root.resource_version) for root in finding.steps[0].roots())
            steps.setdefault(roots, finding.steps[0])
        key = roots if finding is not None else next(iter(steps), frozenset())
        numbers[key] = numbers.get(key, 0) + len(some)
    for key, step in steps.items():
        if more := numbers[key] - 1:
            step.table = [f"and {more} more pod{'s' if more > 1 else ''} alike", *step.table]
    return list(steps.values())


def is_held(pod: View) -> bool:
    """Whether a pod is neither ready nor over."""
    if pod.metadata.get("deletionTimestamp") or pod.status.get("phase") in ("Succeeded", "Failed"):
        return False
    return pod.condition("Ready").get("status") != "True"


def _reason(pod: View) -> str:
    for status in pod.status.get("containerStatuses") or ():
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return str(waiting["reason"]).replace("ErrImagePull", "ImagePullBackOff")
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason"))
    return str(pod.status.get("phase"))
