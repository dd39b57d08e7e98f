"""The state of a pod in the series of its owner. Pure."""

from typing import NamedTuple

from pilothouse.simulate.recording.views import Pod

_HASHES = ("pod-template-hash", "controller-revision-hash")


class PodState(NamedTuple):
    """The counted properties of a pod."""

    revision: str
    image: str
    active: bool
    """Neither terminating nor in a terminal phase."""
    ready: bool
    """Active, with condition Ready true."""
    pending: bool
    """Active, and not scheduled."""
    terminating: bool
    phase: str
    restarts: int
    evicted: bool
    """Whether its status reports an eviction or disruption, by any client."""


def pod_state(pod: Pod) -> PodState:
    """Classify the pod."""
    labels, status = pod.metadata.labels or {}, pod.status
    phase = status.phase or ""
    ended = phase in ("Succeeded", "Failed")
    terminating = pod.metadata.deletion_timestamp is not None and not ended
    active = not ended and not terminating
    conditions = {condition.type: condition.status for condition in status.conditions or ()}
    return PodState(
        revision=next((labels[name] for name in _HASHES if name in labels), ""),
        image=next((container.image or "" for container in pod.spec.containers or ()), ""),
        active=active,
        ready=active and conditions.get("Ready") == "True",
        pending=active and not pod.spec.node_name,
        terminating=terminating,
        phase=phase,
        restarts=sum(container.restart_count for container in status.container_statuses or ()),
        evicted=conditions.get("DisruptionTarget") == "True" or status.reason == "Evicted",
    )
