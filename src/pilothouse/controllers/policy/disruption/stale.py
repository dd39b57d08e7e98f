"""Stale conditions ``DisruptionTarget``, of pods that were not deleted after all. Pure.

Upstream: ``nonTerminatingPodHasStaleDisruptionCondition`` and ``syncStalePodDisruption`` of v1.36
``pkg/controller/disruption/disruption.go``.
"""

import datetime
from typing import Any

from pilothouse.api.core import Pod
from pilothouse.controllers.shared.disruption import DISRUPTION_TARGET
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.times import format_time
from pilothouse.semantics.pods import is_terminal

STALE_SECONDS = 120.0
TERMINATION_BY_KUBELET = "TerminationByKubelet"
"""A kubelet may take any time between setting the condition and the termination of the pod."""


def seconds_until_stale(pod: Pod, now: datetime.datetime) -> float | None:
    """Seconds until the pod's condition is to be reset; ``None`` if there is no stale one."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    condition = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    if condition is None or condition.status != "True" or condition.reason == TERMINATION_BY_KUBELET:
        return None
    since = condition.last_transition_time
    return 0.0 if since is None else max(0.0, STALE_SECONDS - (now - since).total_seconds())


def reset_patch(pod: Pod, now: datetime.datetime) -> dict[str, Any]:
    """The strategic merge patch of ``pods/status``, which fails if the pod has changed."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "False",
        "reason": None,
        "message": None,
        "observedGeneration": pod.metadata.generation or None,
        "lastTransitionTime": format_time(now),
    }
    return {
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {
            "$setElementOrder/conditions": [{"type": existing.type} for existing in pod.status.conditions],
            "conditions": [condition],
        },
    }
