"""What a pod counts as in the series of its owner. Pure."""

from typing import NamedTuple

from pilothouse.simulate.recording.views import Pod

_HASHES = ("pod-template-hash", "controller-revision-hash")


class PodState(NamedTuple):
    """One pod, as far as it is counted."""

    revision: str
    image: str
    active: bool
    """Neither terminating nor at its end."""
    ready: bool
    """Active, and its condition Ready is true."""
    pending: bool
    """Active, and without a node."""
    terminating: bool
    phase: str
    restarts: int
    evicted: bool
    """It says that it was evicted, by whomever."""


def pod_state(pod: Pod) -> PodState:
    """What the pod counts as."""
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
