"""The status of a DaemonSet. Pure."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.apps import DaemonSet, DaemonSetStatus
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.semantics.pods import is_ready


class StatusCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one DaemonSet, or the share of one node."""

    desired: int = 0
    current: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0
    misscheduled: int = 0


NONE = StatusCounts()


def count_node(node_pods: NodePods, rules: Rules, now: datetime.datetime) -> StatusCounts:
    """The share of one node. Of several pods the first counts, as upstream."""
    if not node_pods.exists:
        return NONE
    if not node_pods.should_run:
        return StatusCounts(misscheduled=1) if node_pods.pods else NONE
    if not node_pods.pods:
        return StatusCounts(desired=1)
    pod = node_pods.pods[0]
    ready = is_ready(pod)
    return StatusCounts(
        desired=1,
        current=1,
        ready=1 if ready else 0,
        available=1 if ready and rules.is_available(pod, now) else 0,
        updated=1 if rules.is_updated(pod) else 0,
    )


def next_status(owner: DaemonSet, counts: StatusCounts, *, observed: bool) -> DaemonSetStatus | None:
    """The status to write, or None if nothing changed. ``observed``: this generation was processed, so it becomes
    ``observedGeneration`` (v1.36 ``storeDaemonSetStatus``)."""
    old = owner.status
    generation = owner.metadata.generation
    new = DaemonSetStatus(
        current_number_scheduled=counts.current,
        number_misscheduled=counts.misscheduled,
        desired_number_scheduled=counts.desired,
        number_ready=counts.ready,
        updated_number_scheduled=counts.updated,
        number_available=counts.available,
        number_unavailable=counts.desired - counts.available,
        observed_generation=generation if observed else old.observed_generation,
        collision_count=old.collision_count,
    )
    same_numbers = msgspec.structs.replace(new, observed_generation=old.observed_generation) == old
    return None if same_numbers and old.observed_generation >= generation else new


_REQUIRED = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_OPTIONAL = ("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")


def encode(status: DaemonSetStatus, old: msgspec.Raw | bytes | None) -> bytes:
    """The status as JSON. Other fields of the previous status are kept: conditions and unknown fields. Four counts are
    required and written even if they are 0."""
    fields: dict[str, Any] = {} if old is None else msgspec.json.decode(old, type=dict[str, msgspec.Raw])
    new = msgspec.to_builtins(status)
    for name in _REQUIRED:
        fields[name] = new.get(name, 0)
    for name in _OPTIONAL:
        fields.pop(name, None)
        if name in new:
            fields[name] = new[name]
    return msgspec.json.encode(fields)
