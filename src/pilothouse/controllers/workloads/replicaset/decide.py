"""How many pods to create or delete. Pure. ``ranking`` determines which ones are deleted."""

import msgspec

BURST = 500
"""At most this many creates or deletes in one sync (``BurstReplicas``, v1.36 ``pkg/controller/replicaset``)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision: a consistent snapshot of the caches."""

    desired: int
    active: int
    """Pods that the ReplicaSet owns and selects, and that are neither finished nor being deleted."""
    expectations_satisfied: bool = True
    """Whether the creates and deletes of earlier syncs were observed, or their expectations have expired."""
    being_deleted: bool = False
    burst: int = BURST


class CreatePods(msgspec.Struct, frozen=True):
    """Create ``count`` pods in batches of 1, 2, 4, …, until a batch has a failure (``slowStartBatch``). An error of
    quota or admission usually affects all pods of a template, so that one request fails instead of 500."""

    count: int


class DeletePods(msgspec.Struct, frozen=True):
    """Delete ``count`` of the active pods, in parallel."""

    count: int


def decide(observed: Observed) -> CreatePods | DeletePods | None:
    """The action that brings the number of active pods to ``desired``, at most ``burst`` pods per sync. Terminating
    pods do not count, so that their replacements do not wait for the grace period."""
    if not observed.expectations_satisfied or observed.being_deleted:
        return None
    missing = observed.desired - observed.active
    if missing > 0:
        return CreatePods(min(missing, observed.burst))
    if missing < 0:
        return DeletePods(min(-missing, observed.burst))
    return None
