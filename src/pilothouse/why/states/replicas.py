"""ReplicaSets and ReplicationControllers with too few or unready pods."""

from collections.abc import Iterable

from pilothouse.machinery.times import TimeError, add_seconds, parse_time
from pilothouse.why.states import lifetime
from pilothouse.why.states.rejections import deletion_rejection, rejection
from pilothouse.why.states.unreachable_nodes import node_without_kubelet
from pilothouse.why.steps import DELETED_PODS_REMAIN, STATE, TOO_MANY_PODS, Step, pluralize
from pilothouse.why.view import Finding, View, controller_of, is_finished

_MAX_REASONS = 2
_MAX_EXPLAINED = 5
"""Pods with the same reason that are explained one by one."""
_MAX_PODS = 200
_MAX_REMOVAL_SECONDS = 10
"""How long after its grace period a pod may still be there before it counts as not removed."""


async def short_of_pods(view: View) -> Finding | None:
    """Fewer ready pods than spec.replicas: their rejection, or the reasons why pods are not ready. Or more pods."""
    desired = int(view.spec.get("replicas", 1))
    current, ready = int(view.status.get("replicas") or 0), int(view.status.get("readyReplicas") or 0)
    pods = await view.owned("pods")
    if ready >= desired and current >= desired:
        excess = await too_many_pods(view, desired, current, pods, deleted_by=(view,))
        return excess or await remaining_pods(pods)
    rejected = None
    if current != desired:
        rejected = await (rejection(view) if current < desired else deletion_rejection(view))
    step = view.step(f"should have {pluralize(desired, 'pod')}, has {current}, of which {ready} are ready")
    if rejected is not None:
        step.because.append(rejected)
        change = await lifetime.last_change(view) if rejected.object == view.title else None
        if change is not None:
            step.because.append(change)
    step.because += await unready_pod_steps(pods)
    if not step.because:
        change = await lifetime.last_change(view)
        step.because = [change] if change is not None else []
    if not step.because:
        step.root = STATE
    return Finding("not ready", (step,))


async def too_many_pods(
    view: View, desired: int, current: int, pods: list[View], *, deleted_by: Iterable[View]
) -> Finding | None:
    """More pods than desired, ``current`` by the status, and why their deletion fails. ``deleted_by`` are the objects
    whose controller deletes them. None if those too many are terminating."""
    if not view.is_unlisted("pods"):
        current = min(current, sum(map(is_active, pods)))
    if current <= desired:
        return None
    step = view.step(f"should have {pluralize(desired, 'pod')}, has {current}")
    step.because = await deletion_rejections(deleted_by)
    change = await lifetime.last_change(view, reverted=True)
    step.because += [change] if change is not None else []
    if not step.because:
        step.root = STATE
    return Finding(TOO_MANY_PODS, (step,))


async def deletion_rejections(views: Iterable[View]) -> list[Step]:
    """Why the controllers of objects can't delete pods; empty for those that can, or do not have to."""
    steps = [await deletion_rejection(view) for view in views]
    return [step for step in steps if step is not None]


async def unready_pod_steps(pods: list[View]) -> list[Step]:
    """Steps for the pods that are not ready: one for each reason, and for each root cause of pods with the same
    reason."""
    groups: dict[str, list[View]] = {}
    for pod in [pod for pod in pods if is_unready(pod)][:_MAX_PODS]:
        groups.setdefault(_reason(pod), []).append(pod)
    steps: list[Step] = []
    for group in list(groups.values())[:_MAX_REASONS]:
        steps += await steps_by_root(group)
    return steps


async def remaining_pod_steps(pods: list[View]) -> list[Step]:
    """Steps for deleted pods that are not removed, one for each root cause."""
    return await steps_by_root(await removal_overdue(pods))


async def removal_overdue(pods: list[View]) -> list[View]:
    """Deleted pods that are not removed: of nodes that are not ready, with finalizers, or past their grace period."""
    deleted = [pod for pod in pods if pod.metadata.get("deletionTimestamp")][:_MAX_PODS]
    return [pod for pod in deleted if await _remains(pod)]


async def remaining_pods(pods: list[View]) -> Finding | None:
    """The state of a workload that is as desired, but for deleted pods that are not removed."""
    steps = await remaining_pod_steps(pods)
    return Finding(DELETED_PODS_REMAIN, tuple(steps)) if steps else None


async def _remains(pod: View) -> bool:
    if await node_without_kubelet(pod) is not None:
        return True
    try:
        deadline = parse_time(str(pod.metadata.get("deletionTimestamp")))
    except TimeError:
        return False
    return pod.time > add_seconds(deadline, _MAX_REMOVAL_SECONDS)


async def steps_by_root(pods: list[View]) -> list[Step]:
    """The steps of pods with the same reason, one for each root cause (a rollout, a preemption). Pods of one owner
    created in the same second most likely have the same."""
    batches: dict[tuple[str, str], list[View]] = {}
    for pod in pods:
        owner = str(controller_of(pod.now or {}).get("uid") or "")
        batches.setdefault((owner, str(pod.metadata.get("creationTimestamp"))), []).append(pod)
    steps: dict[frozenset[tuple[str, str]], Step] = {}
    counts: dict[frozenset[tuple[str, str]], int] = {}
    for number, batch in enumerate(batches.values()):
        finding = await batch[0].finding() if number < _MAX_EXPLAINED else None
        if finding is not None and not finding.steps:
            continue
        if finding is not None:
            roots = frozenset((root.object, root.resource_version) for root in finding.steps[0].roots())
            steps.setdefault(roots, finding.steps[0])
        key = roots if finding is not None else next(iter(steps), frozenset())
        counts[key] = counts.get(key, 0) + len(batch)
    for key, step in steps.items():
        if more := counts[key] - 1:
            step.table = [f"and {more} more pod{'s' if more > 1 else ''} alike", *step.table]
    return list(steps.values())


def is_active(pod: View) -> bool:
    """Whether a pod is neither finished nor terminating."""
    return not pod.metadata.get("deletionTimestamp") and not is_finished(pod.now or {})


def is_unready(pod: View) -> bool:
    """Whether a pod is neither ready, finished nor terminating."""
    return is_active(pod) and pod.condition("Ready").get("status") != "True"


def _reason(pod: View) -> str:
    for status in pod.status.get("containerStatuses") or ():
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return str(waiting["reason"]).replace("ErrImagePull", "ImagePullBackOff")
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason"))
    return str(pod.status.get("phase"))
