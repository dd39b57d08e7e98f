"""How many pods to make or to remove. Pure: the controller observes and applies, ``ranking`` says which pods go."""

import msgspec

BURST = 500
"""At most this many creates or deletes in one sync (``BurstReplicas``, v1.36 ``pkg/controller/replicaset``)."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one decision may look at, read at one instant."""

    wanted: int
    active: int
    """Pods that are ours, match the selector and are neither finished nor being deleted."""
    settled: bool = True
    """Whether the creates and deletes of earlier syncs have all been seen (or have had their five minutes)."""
    being_deleted: bool = False
    burst: int = BURST


class CreatePods(msgspec.Struct, frozen=True):
    """Make so many pods, in batches of 1, 2, 4, …; a batch with a failure is the last one.

    A refusal (quota, admission) usually hits every pod of a template alike: the growing batches find out with one
    request instead of five hundred.
    """

    count: int


class DeletePods(msgspec.Struct, frozen=True):
    """Remove so many of the active pods, all at once. ``ranking.choose`` names them."""

    count: int


def decide(seen: Observed) -> CreatePods | DeletePods | None:
    """Bring the number of active pods to what is wanted, one burst at a time.

    A pod that is being deleted no longer counts, so its replacement does not wait for its grace period. Nothing is done
    before earlier actions have been seen, nor once the owner itself is being deleted.
    """
    if not seen.settled or seen.being_deleted:
        return None
    missing = seen.wanted - seen.active
    if missing > 0:
        return CreatePods(min(missing, seen.burst))
    if missing < 0:
        return DeletePods(min(-missing, seen.burst))
    return None
