"""PodDisruptionBudgets without allowed disruptions, and the evictions of a drain that they block."""

from pilothouse.why.evidence import Document
from pilothouse.why.selection import bounds, selects
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.replicas import is_unready, unready_pod_steps
from pilothouse.why.states.unprocessed import unprocessed
from pilothouse.why.steps import STATE, Step, pluralize
from pilothouse.why.view import Finding, View, condition, controller_of

BUDGETS = "poddisruptionbudgets.policy"
_MIRROR = "kubernetes.io/config.mirror"
_MAX_BUDGETS = 3


async def budget(view: View) -> Finding | None:
    """A budget with disruptionsAllowed 0: that it selects no pod, or the numbers of its status, the unhealthy pods, and
    the change that set the bound."""
    status = view.status
    if status.get("disruptionsAllowed"):
        return None
    if not status.get("expectedPods"):
        return await _without_pods(view)
    return Finding("allows no eviction", (await _exhausted_step(view),))


async def _without_pods(view: View) -> Finding:
    """A budget that counts no pods: it selects none, or they have no controller with a scale."""
    namespace_pods = await view.evidence.objects("pods", view.reference.namespace)
    selected = [pod for pod in namespace_pods if selects(view.now or {}, pod)]
    if view.is_unlisted("pods"):
        text = "allows no eviction: it counts no pods, and those of the namespace can't be read"
        return Finding("allows no eviction", (view.step(text, root=STATE),))
    changed = await last_change(view)
    because = [changed] if changed is not None else []
    if not selected:
        text = "protects no pod: none in the namespace has the labels of its selector"
        return Finding("selects no pod", (view.step(text, root=STATE, because=because),))
    allowed = view.condition("DisruptionAllowed")
    detail = ": ".join(str(allowed[key]) for key in ("reason", "message") if allowed.get(key))
    text = f"allows no eviction: it counts none of the {pluralize(len(selected), 'pod')} that it selects ({detail})"
    events = [event for event in await view.evidence.events(view.reference, view.uid) if event.type == "Warning"]
    table = [f"{events[-1].reason}: {events[-1].message}"] if events else []
    return Finding("allows no eviction", (view.step(text, root=STATE, because=because, table=table),))


async def _exhausted_step(view: View) -> Step:
    status = view.status
    step = view.step(
        f"allows no eviction: {status.get('currentHealthy', 0)} of {status.get('expectedPods', 0)} pods are healthy, "
        f"and {status.get('desiredHealthy', 0)} have to be ({bounds(view.now or {})})"
    )
    pods = await view.evidence.objects("pods", view.reference.namespace)
    unhealthy = [
        pod_view
        for pod in pods
        if selects(view.now or {}, pod) and is_unready(pod_view := view.of("pods", pod["metadata"]["name"], pod))
    ]
    step.because = await unready_pod_steps(unhealthy) or await _terminating_pod(view, pods)
    changed = await last_change(view) if status.get("desiredHealthy", 0) >= status.get("expectedPods", 0) else None
    if changed is not None:
        step.because.append(changed)
    if not step.because:
        step.root = STATE
    return step


async def _terminating_pod(view: View, pods: list[Document]) -> list[Step]:
    """The finding of the first selected pod that is terminating and not ready."""
    for pod in pods:
        pod_view = view.of("pods", pod["metadata"]["name"], pod)
        is_ready = pod_view.condition("Ready").get("status") == "True"
        if pod_view.metadata.get("deletionTimestamp") and not is_ready and selects(view.now or {}, pod):
            return list((await pod_view.finding()).steps[:1])
    return []


async def blocked_evictions(node: View) -> list[Step]:
    """The budgets that block the eviction of pods when a node is drained, with these pods."""
    pods = [pod for pod in await node.evidence.objects("pods", "") if _is_drained(pod, node.reference.name)]
    namespaces = sorted({pod["metadata"]["namespace"] for pod in pods})
    steps: list[Step] = []
    for namespace in namespaces:
        for document in await node.evidence.objects(BUDGETS, namespace):
            blocked = [pod["metadata"]["name"] for pod in pods if _blocks_eviction(document, pod)]
            if not blocked:
                continue
            budget_view = node.of(BUDGETS, document["metadata"]["name"], document, namespace=namespace)
            outdated = await unprocessed(budget_view)
            step = await _exhausted_step(budget_view) if outdated is None else outdated.steps[0]
            more = f" and {pluralize(len(blocked) - 1, 'more pod')}" if len(blocked) > 1 else ""
            text = f"has pod/{blocked[0]}{more} of namespace {namespace}, which a drain can't evict now"
            steps.append(node.step(text, because=[step]))
            if len(steps) >= _MAX_BUDGETS:
                return steps
    return steps


def _is_drained(pod: Document, node: str) -> bool:
    """Whether a drain evicts the pod: not pods of DaemonSets, mirror pods and finished pods."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    return (
        (pod.get("spec") or {}).get("nodeName") == node
        and status.get("phase") not in ("Succeeded", "Failed", "Pending")
        and not metadata.get("deletionTimestamp")
        and _MIRROR not in (metadata.get("annotations") or {})
        and controller_of(pod).get("kind") != "DaemonSet"
    )


def _blocks_eviction(document: Document, pod: Document) -> bool:
    """Whether an eviction of the pod is rejected because of the budget (``pkg/registry/core/pod/storage/eviction.go``,
    v1.36)."""
    status = document.get("status") or {}
    if pod["metadata"]["namespace"] != document["metadata"]["namespace"] or not selects(document, pod):
        return False
    if condition(pod, "Ready").get("status") != "True":
        always = (document.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if always or (healthy >= desired > 0):
            return False
    return not status.get("disruptionsAllowed")
