"""How many pods to create or to delete. Pure; ``ranking`` chooses which."""

import msgspec

BURST = 500
"""At most this many creates or deletes in one sync (``BurstReplicas``, v1.36 ``pkg/controller/replicaset``)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision, read at one instant."""

    desired: int
    active: int
    """Pods that are ours, match the selector and are neither finished nor being deleted."""
    settled: bool = True
    """Whether the creates and deletes of earlier syncs have all been seen (or have had their five minutes)."""
    being_deleted: bool = False
    burst: int = BURST


class CreatePods(msgspec.Struct, frozen=True):
    """Create so many pods, in batches of 1, 2, 4, …; a batch with a failure is the last one. An error of quota or
    admission usually concerns every pod of a template: it takes one request to find out instead of 500."""

    count: int


class DeletePods(msgspec.Struct, frozen=True):
    """Delete so many of the active pods, all at once."""

    count: int


def decide(observed: Observed) -> CreatePods | DeletePods | None:
    """Bring the number of active pods to what is wanted, one burst at a time. A terminating pod does not count, so its
    replacement does not wait for its grace period."""
    if not observed.settled or observed.being_deleted:
        return None
    missing = observed.desired - observed.active
    if missing > 0:
        return CreatePods(min(missing, observed.burst))
    if missing < 0:
        return DeletePods(min(-missing, observed.burst))
    return None
