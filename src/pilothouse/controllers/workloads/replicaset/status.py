"""The status of a ReplicaSet. Pure."""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from pilothouse.api.core import Pod
from pilothouse.env.clock import whole_seconds
from pilothouse.semantics.pods import is_available, is_ready

REPLICA_FAILURE = "ReplicaFailure"


class StatusCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one ReplicaSet, counted at one instant."""

    active: int = 0
    fully_labeled: int = 0
    """Active pods that carry every label of the template."""
    ready: int = 0
    available: int = 0
    terminating: int | None = 0
    """Terminating pods, or ``None`` if they are not reported."""


class Failure(msgspec.Struct, frozen=True):
    """Creating or deleting pods failed. ``difference`` is the number of active minus desired pods at that time."""

    message: str
    difference: int

    @property
    def reason(self) -> str:
        """``FailedCreate`` when pods were missing, ``FailedDelete`` when there were too many."""
        if self.difference < 0:
            return "FailedCreate"
        return "FailedDelete" if self.difference > 0 else ""


def count(
    pods: Iterable[Pod],
    *,
    terminating: int | None,
    template_labels: dict[str, str],
    min_ready_seconds: int,
    now: datetime.datetime,
) -> StatusCounts:
    """Count active pods one by one, when the census does not suffice."""
    active = fully_labeled = ready = available = 0
    desired = template_labels.items()
    for pod in pods:
        active += 1
        if desired <= pod.metadata.labels.items():
            fully_labeled += 1
        if is_ready(pod):
            ready += 1
            if is_available(pod, min_ready_seconds, now):
                available += 1
    return StatusCounts(
        active=active, fully_labeled=fully_labeled, ready=ready, available=available, terminating=terminating
    )


def next_status(
    owner: ReplicaSet, counts: StatusCounts, failure: Failure | None, now: datetime.datetime
) -> ReplicaSetStatus:
    """The status after one sync, about the generation that was synced.

    A ``ReplicaFailure`` keeps its first message and time while failures go on, and is removed by the first sync without
    one, also if that did nothing because of expectations (v1.36 ``calculateStatus``).
    """
    conditions = owner.status.conditions
    present = any(condition.type == REPLICA_FAILURE for condition in conditions)
    if failure is not None and not present:
        conditions = (
            *conditions,
            ReplicaSetCondition(
                type=REPLICA_FAILURE,
                status="True",
                reason=failure.reason,
                message=failure.message,
                last_transition_time=whole_seconds(now),
            ),
        )
    elif failure is None and present:
        conditions = tuple(condition for condition in conditions if condition.type != REPLICA_FAILURE)
    status = ReplicaSetStatus(
        replicas=counts.active,
        fully_labeled_replicas=counts.fully_labeled,
        ready_replicas=counts.ready,
        available_replicas=counts.available,
        terminating_replicas=counts.terminating,
        observed_generation=owner.metadata.generation,
        conditions=conditions,
    )
    kind = type(owner.status)
    # A ReplicationController's lacks the terminating replicas, which are not counted for it.
    return status if kind is ReplicaSetStatus else msgspec.convert(msgspec.to_builtins(status), kind)


def describe(owner: ReplicaSet, counts: StatusCounts, failure: Failure | None) -> str:
    """Why the status is written, in a sentence."""
    desired = 1 if owner.spec.replicas is None else owner.spec.replicas
    text = f"status: {desired} pods desired; {counts.active} active, {counts.ready} ready, {counts.available} available"
    return text if failure is None else f"{text}; {failure.reason}: {failure.message}"


def encode(status: ReplicaSetStatus) -> bytes:
    """The status as JSON. ``replicas`` is required there, so it is sent also when it is 0."""
    fields = msgspec.to_builtins(status)
    return msgspec.json.encode({"replicas": status.replicas, **fields})
