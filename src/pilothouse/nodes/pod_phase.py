"""The phase of a pod, counted from its containers. Pure.

Rules and order of kubelet v1.36 ``pkg/kubelet/kubelet_pods.go`` (``getPhase``).
"""

from pilothouse.nodes.containers import RUNNING, TERMINATED, WAITING, RuntimePod

PENDING, RUNS, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def phase_of(pod: RuntimePod) -> str:
    """``Pending``, ``Running``, ``Succeeded`` or ``Failed``."""
    inits = pod.containers[: pod.inits]
    preparing = [container for container in inits if not container.sidecar]
    if any(c.end is not None and c.end.code and (pod.stopping or not c.restartable) for c in preparing):
        return FAILED
    sidecars = [container for container in inits if container.sidecar]
    others = pod.containers[pod.inits :]
    begun = any(container.state != WAITING or container.end is not None for container in others)
    if any(c.state == RUNNING or (c.state == WAITING and c.end is None) for c in preparing):
        return PENDING
    if not begun and any(not container.started and container.end is None for container in sidecars):
        return PENDING
    if any(c.state == WAITING and c.end is None for c in (*sidecars, *others)):
        return PENDING
    if any(container.state == RUNNING for container in (*sidecars, *others)):
        return RUNS
    ends = [container.end for container in others if container.end is not None]
    if not ends:
        return PENDING
    if not pod.stopping and any(c.state in (TERMINATED, WAITING) and c.restartable for c in others):
        return RUNS
    return SUCCEEDED if all(end.code == 0 for end in ends) else FAILED
