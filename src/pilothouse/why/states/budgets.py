"""PodDisruptionBudgets that allow no eviction, and the pods that a drain of their node waits for."""

from pilothouse.why.evidence import Document
from pilothouse.why.selection import bounds, selects
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.replicas import held_pods, is_held
from pilothouse.why.steps import STATE, Step, counted
from pilothouse.why.view import Finding, View, condition, controller_of

BUDGETS = "poddisruptionbudgets.policy"
_MIRROR = "kubernetes.io/config.mirror"
_MOST_BUDGETS = 3


async def budget(view: View) -> Finding | None:
    """A budget that is used up: its arithmetic, and the pods that are not healthy or what asks for so many."""
    status = view.status
    if status.get("disruptionsAllowed") or not status.get("expectedPods"):
        return None
    return Finding("allows no eviction", (await _used_up(view),))


async def _used_up(view: View) -> Step:
    status = view.status
    step = view.step(
        f"allows no eviction: {status.get('currentHealthy', 0)} of {status.get('expectedPods', 0)} pods are healthy, "
        f"and {status.get('desiredHealthy', 0)} have to be ({bounds(view.now or {})})"
    )
    pods = await view.evidence.objects("pods", view.reference.namespace)
    unhealthy = [
        about
        for pod in pods
        if selects(view.now or {}, pod) and is_held(about := view.of("pods", pod["metadata"]["name"], pod))
    ]
    step.because = await held_pods(unhealthy) or await _ending(view, pods)
    changed = await last_change(view) if status.get("desiredHealthy", 0) >= status.get("expectedPods", 0) else None
    if changed is not None:
        step.because.append(changed)
    if not step.because:
        step.root = STATE
    return step


async def _ending(view: View, pods: list[Document]) -> list[Step]:
    """The first of the selected pods that are being deleted: they are not healthy, and do not go."""
    for pod in pods:
        about = view.of("pods", pod["metadata"]["name"], pod)
        is_ready = about.condition("Ready").get("status") == "True"
        if about.metadata.get("deletionTimestamp") and not is_ready and selects(view.now or {}, pod):
            return list((await about.finding()).steps[:1])
    return []


async def kept_pods(node: View) -> list[Step]:
    """The budgets that keep a drain of a node from evicting pods, with these pods."""
    pods = [each for each in await node.evidence.objects("pods", "") if _is_drained(each, node.reference.name)]
    spaces = sorted({each["metadata"]["namespace"] for each in pods})
    found: list[Step] = []
    for space in spaces:
        for document in await node.evidence.objects(BUDGETS, space):
            kept = [pod["metadata"]["name"] for pod in pods if _keeps(document, pod)]
            if not kept:
                continue
            about = node.of(BUDGETS, document["metadata"]["name"], document, namespace=space)
            step = await _used_up(about)
            more = f" and {counted(len(kept) - 1, 'more pod')}" if len(kept) > 1 else ""
            text = f"has pod/{kept[0]}{more} of namespace {space}, which a drain can't evict now"
            found.append(node.step(text, because=[step]))
            if len(found) >= _MOST_BUDGETS:
                return found
    return found


def _is_drained(pod: Document, node: str) -> bool:
    """Whether a drain evicts the pod: not those of DaemonSets, static ones, and those that have ended."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    return (
        (pod.get("spec") or {}).get("nodeName") == node
        and status.get("phase") not in ("Succeeded", "Failed", "Pending")
        and not metadata.get("deletionTimestamp")
        and _MIRROR not in (metadata.get("annotations") or {})
        and controller_of(pod).get("kind") != "DaemonSet"
    )


def _keeps(document: Document, pod: Document) -> bool:
    """Whether the budget has an eviction of the pod rejected (``pkg/registry/core/pod/storage/eviction.go``, v1.36)."""
    status = document.get("status") or {}
    if pod["metadata"]["namespace"] != document["metadata"]["namespace"] or not selects(document, pod):
        return False
    if condition(pod, "Ready").get("status") != "True":
        always = (document.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if always or (healthy >= desired > 0):
            return False
    return not status.get("disruptionsAllowed")
