"""The sizes of the ReplicaSets when the Deployment itself is scaled. Pure.

A Deployment that is scaled during a rollout, or while it is paused, keeps the proportions of its ReplicaSets: whether
the new template works is not known yet. Upstream: ``scale`` of v1.36
``pkg/controller/deployment/sync.go``, ``GetReplicaSetProportion`` of ``util/deployment_util.go``.
"""

import math
from collections.abc import Iterable, Sequence

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.controllers.workloads.deployment.annotations import DESIRED_REPLICAS, MAX_REPLICAS, replicas_annotation
from pilothouse.controllers.workloads.deployment.bounds import bounds_of, desired_replicas, is_rolling
from pilothouse.controllers.workloads.deployment.sizes import Resize, by_age, created_at, is_in_use, size_of


def is_scaling_event(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether some ReplicaSet in use was sized for another number of replicas."""
    return any(is_in_use(rs) and _is_sized_for_another(rs, deployment) for rs in sets)


def _is_sized_for_another(replica_set: ReplicaSet, deployment: Deployment) -> bool:
    desired = replicas_annotation(replica_set.metadata.annotations, DESIRED_REPLICAS)
    return desired is not None and desired != desired_replicas(deployment)


def scale(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Resize]:
    replicas = desired_replicas(deployment)
    active = find_active_or_latest(new, old)
    if active is not None:
        # Even if the size was already set manually, write the annotations: without them the Deployment would count as
        # scaled forever, and never roll out again, as upstream's.
        return _scale_if_needed(active, replicas, _is_sized_for_another(active, deployment))
    if new is not None and is_saturated(deployment, new):
        reason = f"all {replicas} replicas of the new ReplicaSet {new.metadata.name} are available"
        return [Resize(rs.metadata.name, 0, reason=reason) for rs in old if is_in_use(rs)]
    if not is_rolling(deployment):
        return []
    return scale_proportionally(deployment, [rs for rs in (*old, *([] if new is None else [new])) if is_in_use(rs)])


def _scale_if_needed(replica_set: ReplicaSet, size: int, annotate: bool) -> list[Resize]:
    if size == size_of(replica_set) and not annotate:
        return []
    return [Resize(replica_set.metadata.name, size, annotate, f"the Deployment was scaled to {size}")]


def find_active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The only ReplicaSet in use; if none is, the new one or else the latest. ``None`` if several are in use
    (``FindActiveOrLatest``)."""
    used = [rs for rs in (*old, *([] if new is None else [new])) if is_in_use(rs)]
    if len(used) > 1:
        return None
    if used:
        return used[0]
    return new if new is not None else max(old, key=by_age, default=None)


def is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Whether the new ReplicaSet has all replicas, available, and was sized for them."""
    replicas = desired_replicas(deployment)
    return (
        size_of(new) == replicas
        and replicas_annotation(new.metadata.annotations, DESIRED_REPLICAS) == replicas
        and new.status.available_replicas == replicas
    )


def scale_proportionally(deployment: Deployment, used: Sequence[ReplicaSet]) -> list[Resize]:
    """Add or remove pods in proportion to the sizes; the largest gets the remainder.

    Scaled from 4 to 8 with a surge of 25 % (5 becomes 10 in all): 3 and 2 become 6 and 4.
    """
    replicas = desired_replicas(deployment)
    allowed = replicas + bounds_of(deployment).surge if replicas > 0 else 0
    total = sum(map(size_of, used))
    to_add = allowed - total
    added = 0
    sizes: list[tuple[ReplicaSet, int]] = []
    for rs in largest_first(used, to_add):
        part = get_proportion(deployment, rs, to_add, added)
        added += part
        sizes.append((rs, size_of(rs) + part))
    if sizes and to_add:
        largest, size = sizes[0]
        sizes[0] = largest, max(0, size + to_add - added)
    surge = bounds_of(deployment).surge
    reason = (
        f"the Deployment was scaled to {replicas}, maxSurge {surge}: {allowed} pods in all instead of {total}, in "
        "proportion to the sizes of the ReplicaSets"
    )
    return [Resize(rs.metadata.name, size, annotate=True, reason=reason) for rs, size in sizes]


def largest_first(used: Sequence[ReplicaSet], to_add: int) -> list[ReplicaSet]:
    """Sorted for ``get_proportion``: of the same size the newer one grows first, and the older one shrinks first."""
    if to_add == 0:
        return list(used)
    ordered = sorted(used, key=lambda rs: rs.metadata.name, reverse=to_add > 0)
    ordered.sort(key=created_at, reverse=to_add > 0)
    ordered.sort(key=size_of, reverse=True)
    return ordered


def get_proportion(deployment: Deployment, replica_set: ReplicaSet, to_add: int, added: int) -> int:
    """The share of one ReplicaSet in ``to_add`` (negative: to remove), of which ``added`` is already distributed."""
    if size_of(replica_set) == 0 or to_add in (0, added):
        return 0
    fraction = _get_replica_set_fraction(deployment, replica_set)
    allowed = to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)


def _get_replica_set_fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    replicas, size = desired_replicas(deployment), size_of(replica_set)
    if replicas == 0:
        return -size
    annotated_replicas = (
        replicas_annotation(replica_set.metadata.annotations, MAX_REPLICAS) or deployment.status.replicas
    )
    if annotated_replicas == 0:
        return 0  # no proportion is recorded; it gets the remainder
    new_size = size * (replicas + bounds_of(deployment).surge) / annotated_replicas
    return math.floor(new_size + 0.5) - size
